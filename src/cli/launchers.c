/* The launchers of MPIs: how each is found, and told what to start where. */
#include "cli/launch.h"
#include "world/world.h"

#include <stdlib.h>
#include <string.h>

struct clq_mpi {
    const char *name, *title;
    const char *programs[3]; /* names that it has on different systems, the surest first */
    const char *says;        /* a part of what it prints for --version: other MPIs' programs have the same names */
    /* The variables that make it use an agent in place of ssh, each with its value. value NULL: the agent. */
    struct {
        const char *name, *value;
    } agent[2];
    const char *hosts;        /* the option for "a:1,b:2" */
    const char *more[5];      /* options that each run has */
    const char *set_variable; /* the option that sets a variable of all ranks: "NAME=VALUE", or NAME and VALUE */
    bool sets_by_equals;
    bool splits_agent;       /* it splits the agent at blanks, and takes the first of a list with colons */
    bool passes_environment; /* it passes all variables to all hosts without being told */
};

/* Open MPI fills one host after another only if it is told to, and binds processes to cores unless it is told not to.
 * Its version 5 has another name for the agent's variable than earlier ones. */
static const clq_mpi mpis[] = {
    {.name = "openmpi",
     .title = "Open MPI",
     .programs = {"mpirun.openmpi", "orterun", "mpirun"},
     .says = "(Open", /* "mpirun (Open MPI) 4.1.4", "orterun (OpenRTE) 4.1.4" */
     .agent = {{"PRTE_MCA_plm_ssh_agent", NULL}, {"OMPI_MCA_plm_rsh_agent", NULL}},
     .hosts = "--host",
     .more = {"--map-by", "slot", "--bind-to", "none", NULL},
     .set_variable = "-x",
     .sets_by_equals = true,
     .splits_agent = true},
    {.name = "mpich",
     .title = "MPICH",
     .programs = {"mpirun.mpich", "mpiexec.hydra", "mpirun"},
     .says = "HYDRA",
     .agent = {{"HYDRA_LAUNCHER", "rsh"}, {"HYDRA_LAUNCHER_EXEC", NULL}},
     .hosts = "-hosts",
     .set_variable = "-genv",
     .passes_environment = true},
};

/* Variables of this process that a launcher passes to other hosts only if it is told to. Open MPI passes its own
 * variables without being told. */
static const char *const passed[] = {"CLIQUE_", "UCX_", "POCL_", "OCL_ICD_", "LD_LIBRARY_PATH="};

/* ---- finding ---- */

static bool is_program_of(const clq_mpi *mpi, const char *program) {
    char line[256], command[64];
    bool found = false;
    snprintf(command, sizeof command, "%s --version </dev/null 2>&1", program);
    FILE *said = popen(command, "re");
    while (said && fgets(line, sizeof line, said)) found = found || strstr(line, mpi->says) != NULL;
    if (said) (void)pclose(said);
    return found;
}

static const char *find_program(const clq_mpi *mpi) {
    for (size_t i = 0; i < CLQ_COUNT_OF(mpi->programs); i++)
        if (is_program_of(mpi, mpi->programs[i])) return mpi->programs[i];
    return NULL;
}

static clq_status refuse(const char *name) {
    clq_nearest nearest = clq_nearest_of(name);
    for (size_t i = 0; i < CLQ_COUNT_OF(mpis); i++) clq_nearest_try(&nearest, mpis[i].name);
    return clq_nearest_fail(&nearest, "--mpi '%s' is unknown: openmpi or mpich", name);
}

clq_status clq_mpi_find(const char *name, const clq_mpi **out, const char **program) {
    bool is_known = false;
    for (size_t i = 0; i < CLQ_COUNT_OF(mpis); i++) {
        if (name && strcmp(name, mpis[i].name) != 0) continue;
        is_known = true;
        if (!name && !clq_engine_exists(mpis[i].name)) continue;
        *program = find_program(*out = &mpis[i]);
        if (*program) return CLQ_OK;
    }
    if (!is_known) return refuse(name);
    if (name)
        return clq_fail(CLQ_ERROR_NOT_FOUND, "--mpi %s: the launcher of %s (%s) is not installed", name, (*out)->title,
                        (*out)->programs[2]);
    return clq_fail(CLQ_ERROR_NOT_FOUND,
                    "no MPI: neither Open MPI nor MPICH has both its launcher (mpirun) and Clique's engine "
                    "(libclique-openmpi.so, libclique-mpich.so) here");
}

const char *clq_mpi_agent(const clq_mpi *mpi, const char *agent) {
    for (size_t i = 0; !agent && i < CLQ_COUNT_OF(mpi->agent); i++)
        if (!mpi->agent[i].value) agent = clq_environment(mpi->agent[i].name);
    return agent;
}

/* ---- words ---- */

void clq_words_take(clq_words *w, char *word) {
    char **grown = word && !w->failed ? clq_grow(w->list, w->count + 1, &w->capacity, 32, sizeof *grown) : NULL;
    if (!grown) {
        w->failed = true;
        clq_free(word);
        return;
    }
    w->list = grown;
    w->list[w->count++] = word;
    w->list[w->count] = NULL;
}

void clq_words_add(clq_words *w, const char *word) { clq_words_take(w, clq_strdup(word)); }

void clq_words_release(clq_words *w) {
    for (size_t i = 0; i < w->count; i++) clq_free(w->list[i]);
    clq_free(w->list);
    *w = (clq_words){0};
}

void clq_text_add_quoted(clq_text *text, const char *word) {
    static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (*word && !word[strspn(word, plain)]) {
        clq_text_add_text(text, word);
        return;
    }
    clq_text_add_text(text, "'");
    for (const char *c = word; *c; c++) clq_text_add_bytes(text, *c == '\'' ? "'\\''" : c, *c == '\'' ? 4 : 1);
    clq_text_add_text(text, "'");
}

clq_status clq_mpi_agent_words(const clq_mpi *mpi, const char *agent, clq_words *words) {
    static const char *const ssh[] = {"ssh", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=5"};
    const char *named = clq_mpi_agent(mpi, agent);
    for (size_t i = 0; !named && i < CLQ_COUNT_OF(ssh); i++) clq_words_add(words, ssh[i]);
    if (named && !mpi->splits_agent) clq_words_add(words, named);
    for (const char *word = named; named && mpi->splits_agent; word += strcspn(word, " \t:")) {
        word += strspn(word, " \t");
        if (!*word || *word == ':') break;
        clq_words_take(words, clq_strprintf("%.*s", (int)strcspn(word, " \t:"), word));
    }
    if (words->count == 0 && !words->failed)
        return clq_fail(CLQ_ERROR_ARGUMENT, "the agent '%s' names no program", named);
    for (size_t i = 0; i < 2; i++) clq_words_add(words, "");
    return words->failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}

static void add_hosts(clq_words *w, const clq_cluster *cluster) {
    clq_text text = {0};
    for (size_t i = 0; i < cluster->count; i++)
        clq_text_add(&text, "%s%s:%u", i > 0 ? "," : "", cluster->hosts[i].name, cluster->hosts[i].processes);
    clq_words_take(w, text.failed ? NULL : text.data);
    if (text.failed) clq_free(text.data);
}

/* assignment: "NAME=VALUE" */
static void add_variable(clq_words *w, const clq_mpi *mpi, const char *assignment) {
    clq_words_add(w, mpi->set_variable);
    if (mpi->sets_by_equals) {
        clq_words_add(w, assignment);
        return;
    }
    const size_t name = strcspn(assignment, "=");
    clq_words_take(w, clq_strprintf("%.*s", (int)name, assignment));
    clq_words_add(w, assignment + name + 1);
}

/* Names the variables only: the launcher reads their values from its own environment. */
static void add_passed_variables(clq_words *w, const clq_mpi *mpi) {
    const char *variable;
    for (size_t at = 0; (variable = clq_environment_next(passed, CLQ_COUNT_OF(passed), &at)) != NULL;) {
        clq_words_add(w, mpi->set_variable);
        clq_words_take(w, clq_strprintf("%.*s", (int)strcspn(variable, "="), variable));
    }
}

clq_status clq_mpirun_words(const clq_mpirun *l, clq_words *words, clq_words *variables) {
    const clq_mpi *mpi = l->mpi;
    clq_words_add(words, l->program);
    clq_words_add(words, mpi->hosts);
    add_hosts(words, l->cluster);
    for (size_t i = 0; mpi->more[i]; i++) clq_words_add(words, mpi->more[i]);
    clq_words_add(words, "-n");
    clq_words_take(words, clq_strprintf("%u", clq_cluster_ranks(l->cluster)));
    char *id = clq_strprintf("CLIQUE_LAUNCH=%s", l->id);
    if (id)
        add_variable(words, mpi, id);
    else
        words->failed = true;
    clq_free(id);
    if (!mpi->passes_environment) add_passed_variables(words, mpi);
    for (char **word = l->command; *word; word++) clq_words_add(words, *word);
    if (l->resumes) clq_words_add(words, "--resume");
    if (l->names_stores) clq_words_add(words, "--ps-ranks");
    if (l->names_stores) clq_words_take(words, clq_strprintf("%u", l->cluster->ps));
    for (size_t i = 0; l->agent && i < CLQ_COUNT_OF(mpi->agent); i++)
        clq_words_take(variables, clq_strprintf("%s=%s", mpi->agent[i].name,
                                                mpi->agent[i].value ? mpi->agent[i].value : l->agent));
    return words->failed || variables->failed ? CLQ_ERROR_MEMORY : CLQ_OK;
}
