/* clique launch: starts a command on several hosts and stays its parent. */
#include "cli/launch.h"
#include "cli/cli.h"
#include "cli/program.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { HOSTS = 256, MPI, AGENT, RESTARTS, WAIT, DRY_RUN, RESTARTS_MOST = 1000 };
const clq_argument clq_launch_options[] = {
    {"hosts", HOSTS, "A,B:2", .help = "the hosts, each with the number of its processes (1); else those of TF_CONFIG"},
    {"mpi", MPI, "openmpi|mpich",
     .help = "whose launcher is used; else the first whose mpirun and Clique library are installed on this machine"},
    {"agent", AGENT, "PROGRAM", .help = "reaches other hosts in place of ssh: PROGRAM HOST COMMAND…"},
    {"restarts", RESTARTS, "N",
     .help = "go on from the newest checkpoint up to N times if a run fails, without the hosts that failed"},
    {"wait", WAIT, "SECONDS",
     .help =
         "how long to wait until all hosts answer (0), or on a host that waits until the launching host answers (600)"},
    {"dry-run", DRY_RUN, NULL, .help = "print the command line of the launcher, and end"},
    {0}};

static const double reach_s = 8, wait_default_s = 600;

typedef struct launch_options {
    const char *hosts, *mpi, *agent;
    uint64_t restarts;
    double wait_s; /* < 0: not given */
    bool dry_run;
    clq_options command; /* of the command, if it is a command of clique that has options; otherwise zero */
} launch_options;

static clq_status set_option(void *context, const clq_argument *option, const char *value) {
    launch_options *o = context;
    switch (option->key) {
    case HOSTS: o->hosts = value; return CLQ_OK;
    case MPI: o->mpi = value; return CLQ_OK;
    case AGENT: o->agent = value; return CLQ_OK;
    case WAIT: return clq_argument_seconds(option, value, &o->wait_s);
    case DRY_RUN: o->dry_run = true; return CLQ_OK;
    default:
        if (clq_parse_u64(value, 0, RESTARTS_MOST, &o->restarts)) return CLQ_OK;
        return clq_fail(CLQ_ERROR_ARGUMENT, "--restarts '%s': expected a whole number from 0 to %d", value,
                        (int)RESTARTS_MOST);
    }
}

/* ---- the command that is launched ---- */

/* Puts the path of this program in place of the word `clique`: the PATH of other hosts cannot be relied on. Parses the
 * options of a command of clique as the command itself does. */
static clq_status name_program(clq_mpirun *l, launch_options *o, char path[4096]) {
    if (!l->command[0]) return clq_fail(CLQ_ERROR_ARGUMENT, "no command: clique launch [OPTION…] -- clique train …");
    const char *slash = strrchr(l->command[0], '/'), *name = slash ? slash + 1 : l->command[0];
    const bool is_own = strcmp(name, "clique") == 0 && l->command[1];
    int words = 0;
    while (l->command[words]) words++;
    l->is_train = is_own && strcmp(l->command[1], "train") == 0;
    if (is_own) CLQ_TRY(clq_command_options(words - 1, l->command + 1, &o->command));
    if (strcmp(l->command[0], "clique") != 0) return CLQ_OK;
    const ssize_t length = readlink("/proc/self/exe", path, 4095);
    if (length < 0) return clq_fail(CLQ_ERROR_SYSTEM, "cannot find this program's own path: %s", strerror(errno));
    path[length] = '\0';
    l->command[0] = path;
    return CLQ_OK;
}

/* Refuses words that launchers take for themselves. */
static clq_status check_words(char **command) {
    if (command[0][0] == '-')
        return clq_fail(CLQ_ERROR_ARGUMENT, "the command begins with '%s': the launcher would take it for an option",
                        command[0]);
    for (char **word = command; *word; word++)
        if (strcmp(*word, ":") == 0)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "the command has the word ':': the launcher would take what is behind it for "
                            "a second command; have a script write it");
    return CLQ_OK;
}

static bool has_checkpoints(const clq_mpirun *l, const launch_options *o) {
    return l->is_train && o->command.checkpoint;
}

static clq_status check_command(const clq_mpirun *l, const launch_options *o) {
    const clq_cluster *c = l->cluster;
    const bool keeps = has_checkpoints(l, o);
    CLQ_TRY(check_words(l->command));
    if (o->restarts > 0 && !keeps)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "--restarts goes on from checkpoints: the command must be clique train, with "
                        "--checkpoint DIR");
    if (c->evaluates && !keeps)
        return clq_fail(CLQ_ERROR_UNSUPPORTED,
                        "TF_CONFIG: task.type 'evaluator' evaluates checkpoints: the command must be "
                        "clique train, with --checkpoint DIR, a folder that this host shares with the "
                        "first one");
    const bool takes_all = o->command.devices && strcmp(o->command.devices, "auto") == 0;
    if (c->has_twins && takes_all && !o->command.share_devices)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "TF_CONFIG: cluster names '%s' %u times: one process drives all devices of a host; name the "
                        "devices of each (--devices), or have them shared (--share-devices)",
                        c->hosts[c->twin].name, c->hosts[c->twin].processes);
    return CLQ_OK;
}

/* ---- launching ---- */

static void make_id(clq_mpirun *l) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    const long seed[] = {(long)now.tv_sec, now.tv_nsec, (long)getpid()};
    snprintf(l->id, sizeof l->id, "%s%016llx", l->is_train ? "" : CLQ_LAUNCH_SILENT,
             (unsigned long long)clq_hash128_of(seed, sizeof seed, 0).low);
}

static clq_status print_dry(const clq_mpirun *l) {
    clq_words words = {0}, variables = {0};
    clq_text text = {0};
    clq_status status = clq_mpirun_words(l, &words, &variables);
    for (size_t i = 0; i < variables.count; i++) {
        const size_t name = strcspn(variables.list[i], "=") + 1;
        clq_text_add_bytes(&text, variables.list[i], name);
        clq_text_add_quoted(&text, variables.list[i] + name);
        clq_text_add_text(&text, " ");
    }
    for (size_t i = 0; i < words.count; i++) {
        if (i > 0) clq_text_add_text(&text, " ");
        clq_text_add_quoted(&text, words.list[i]);
    }
    if (status == CLQ_OK && text.failed) status = CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) puts(text.data);
    clq_free(text.data);
    clq_words_release(&words);
    clq_words_release(&variables);
    return status;
}

/* Checks that all hosts answer. An MPI would find the same, and say so at length. */
static clq_status reach(const clq_mpirun *l, double wait_s) {
    const clq_cluster *c = l->cluster;
    const double until = clq_now() + wait_s;
    clq_answer *answers = clq_alloc(c->count, sizeof *answers);
    clq_status status = answers ? CLQ_OK : CLQ_ERROR_MEMORY;
    size_t first = 0;
    while (status == CLQ_OK) {
        clq_waiters_greet(l->waiters);
        status = clq_hosts_signal(l, 0, c->count, reach_s, answers);
        for (first = 0; first < c->count && answers[first].is_there;) first++;
        if (first == c->count || clq_interrupts_count() > 0 || clq_now() >= until) break;
        (void)poll(NULL, 0, 500);
    }
    if (status == CLQ_OK && clq_interrupts_count() > 0)
        status = clq_fail(CLQ_ERROR_INTERRUPTED, "interrupted before the run began");
    else if (status == CLQ_OK && first < c->count)
        status = clq_fail(CLQ_ERROR_NOT_FOUND, "host '%s' cannot be reached by %s: %s", c->hosts[first].name,
                          l->reach.list[0], *answers[first].said ? answers[first].said : "it did not answer");
    clq_free(answers);
    return status;
}

/* After a run that failed. Kills what is left of it on the hosts that answer. Removes the hosts that do not answer, and
 * those that ranks reported as lost, from the cluster; *left lists their names. *can_go_on: the first host, which has
 * the checkpoints, answers. */
static clq_status clean(const clq_mpirun *l, const clq_mpirun_end *end, clq_text *left, bool *can_go_on) {
    clq_cluster *c = l->cluster;
    clq_answer *answers = clq_alloc(c->count, sizeof *answers);
    bool *lost = clq_alloc(c->count, sizeof *lost);
    clq_status status = answers && lost ? clq_hosts_signal(l, SIGKILL, c->count, reach_s, answers) : CLQ_ERROR_MEMORY;
    for (unsigned rank = 0; status == CLQ_OK && rank < clq_cluster_ranks(c); rank++)
        if (end->lost[rank]) lost[clq_cluster_host_of(c, rank)] = true;
    *can_go_on = status == CLQ_OK && answers[0].is_there;
    for (size_t i = c->count; status == CLQ_OK && i-- > 1;) {
        if (answers[i].is_there && !lost[i]) continue;
        clq_text_add(left, "%s%s", left->length > 0 ? ", " : " without ", c->hosts[i].name);
        clq_cluster_remove(c, i);
    }
    if (status == CLQ_OK && left->failed) status = CLQ_ERROR_MEMORY;
    clq_free(lost);
    clq_free(answers);
    return status;
}

/* Exit codes 2 and 3 are for failures that every further run would meet again. */
static bool may_go_on(const clq_mpirun_end *end) { return !end->interrupted && (end->code == 1 || end->code == 4); }

static clq_status run_all(clq_mpirun *l, uint64_t restarts, clq_mpirun_end *end) {
    for (uint64_t restart = 0;; restart++) {
        clq_text left = {0};
        bool can_go_on = false;
        CLQ_TRY(clq_mpirun_run(l, end));
        if (end->code == 0 && !end->forced) return CLQ_OK;
        clq_status status = clean(l, end, &left, &can_go_on);
        const bool goes_on = status == CLQ_OK && restart < restarts && may_go_on(end) && can_go_on;
        if (goes_on)
            clq_log(CLQ_LOG_WARNING,
                    "the run failed (exit code %d): going on from the newest checkpoint%s, restart "
                    "%llu of %llu",
                    end->code, left.data ? left.data : "", (unsigned long long)restart + 1,
                    (unsigned long long)restarts);
        clq_free(left.data);
        if (!goes_on) return status;
        if (clq_interrupts_count() > 0) return clq_fail(CLQ_ERROR_INTERRUPTED, "interrupted before the run went on");
        l->resumes = true;
    }
}

static clq_status launch_on(clq_mpirun *l, const launch_options *o, clq_mpirun_end *end) {
    clq_cluster *c = l->cluster;
    const double wait_s = CLQ_MAX(o->wait_s, 0);
    if (c->ps > 0 && !c->has_stores)
        clq_log(CLQ_LOG_WARNING, "TF_CONFIG: the %u entr%s of cluster.ps %s no part in a mirrored training", c->ps,
                c->ps == 1 ? "y" : "ies", c->ps == 1 ? "takes" : "take");
    CLQ_TRY(clq_mpi_find(o->mpi, &l->mpi, &l->program));
    make_id(l);
    CLQ_TRY(clq_mpi_agent_words(l->mpi, l->agent, &l->reach));
    CLQ_TRY(clq_cluster_find(c, wait_s, clq_mpi_agent(l->mpi, l->agent) != NULL));
    if (o->dry_run) return print_dry(l);
    CLQ_TRY(reach(l, wait_s));
    end->lost = clq_alloc(clq_cluster_ranks(c), sizeof *end->lost);
    const clq_status status = end->lost ? run_all(l, o->restarts, end) : CLQ_ERROR_MEMORY;
    clq_free(end->lost);
    return status;
}

static clq_status launch(clq_mpirun *l, const launch_options *o, int *code) {
    clq_mpirun_end end = {0};
    clq_waiters waiters = {.listener = -1};
    clq_error error;
    if (clq_launcher_find().name)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%s started this process already: clique launch starts the launcher itself",
                        clq_launcher_find().name);
    (void)signal(SIGCHLD, SIG_DFL);
    (void)clq_interrupts_count();
    clq_interrupts_block_pipe();
    l->waiters = &waiters;
    if (!o->dry_run) clq_waiters_open(l->cluster, has_checkpoints(l, o), &waiters);
    const clq_status status = launch_on(l, o, &end);
    clq_error_take(status, &error);
    *code = status == CLQ_OK ? end.code : clq_program_exit_code(status);
    clq_waiters_end(&waiters, *code);
    return clq_error_raise(&error);
}

/* ---- the command ---- */

static clq_status find_cluster(clq_mpirun *l, const launch_options *o) {
    const char *config = clq_environment("TF_CONFIG");
    clq_cluster *out = l->cluster;
    bool is_ps = false;
    if (l->is_train) CLQ_TRY(clq_options_train_by_ps(&o->command, &is_ps));
    if (o->hosts) return clq_cluster_of_hosts(o->hosts, out);
    if (config) CLQ_TRY(clq_cluster_of_tf_config(config, is_ps, out));
    l->names_stores = out->has_stores && out->ps > 0;
    if (l->names_stores && o->command.ps_ranks > 0)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "--ps-ranks: TF_CONFIG says which ranks keep variables (cluster.ps): leave it out");
    if (config) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "no hosts: name them by --hosts, or by TF_CONFIG");
}

static clq_status launch_or_wait(clq_mpirun *l, const launch_options *o, int *code) {
    clq_cluster *c = l->cluster;
    CLQ_TRY(find_cluster(l, o));
    CLQ_TRY(check_command(l, o));
    if (!c->is_tf_config || c->own_rank == 0) return launch(l, o, code);
    if (o->dry_run) return clq_print(stdout, "%s %s\n", c->evaluates ? "evaluates for" : "waits for", c->hosts[0].name);
    const double wait_s = o->wait_s < 0 ? wait_default_s : o->wait_s;
    CLQ_TRY(c->evaluates ? clq_launch_evaluate(l, wait_s, code) : clq_wait_for_end(&c->hosts[0], wait_s, NULL, code));
    if (*code != 0)
        clq_fprintf(stderr,
                    "clique: error: the run that %s launched ended with exit code %d; the reason is in that host's "
                    "output\n",
                    c->hosts[0].name, *code);
    return CLQ_OK;
}

clq_status clq_command_launch(int argc, char **argv) {
    launch_options options = {.wait_s = -1};
    clq_cluster cluster = {0};
    clq_mpirun l = {.cluster = &cluster};
    char path[4096];
    int own = 0, code = 0;
    while (own < argc && strcmp(argv[own], "--") != 0) own++;
    CLQ_TRY(clq_subcommand_parse("launch", own, argv, set_option, &options));
    l.command = argv + CLQ_MIN(own + 1, argc);
    l.agent = options.agent;
    CLQ_TRY(name_program(&l, &options, path));
    const clq_status status = launch_or_wait(&l, &options, &code);
    clq_words_release(&l.reach);
    clq_cluster_release(&cluster);
    /* A command that failed has printed a line already. */
    if (status == CLQ_OK && code != 0) exit(code);
    return status;
}
