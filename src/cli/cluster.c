/* The hosts of a run: a list, or TF_CONFIG as tf.distribute reads it. */
#include "cli/interrupt.h"
#include "cli/launch.h"
#include "formats/formats.h"

#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PROCESSES_MOST = 1024, HOSTS_MOST = 4096, PORT_MOST = 65535, TF_CONFIG_DEPTH = 16 };
static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-";

unsigned clq_cluster_ranks(const clq_cluster *c) {
    unsigned ranks = 0;
    for (size_t i = 0; i < c->count; i++) ranks += c->hosts[i].processes;
    return ranks;
}

size_t clq_cluster_host_of(const clq_cluster *c, unsigned rank) {
    size_t host = 0;
    for (; host + 1 < c->count && rank >= c->hosts[host].processes; host++) rank -= c->hosts[host].processes;
    return host;
}

static void release_host(clq_host *host) {
    clq_free(host->name);
    clq_free(host->port);
}

void clq_cluster_remove(clq_cluster *c, size_t host) {
    release_host(&c->hosts[host]);
    memmove(&c->hosts[host], &c->hosts[host + 1], (--c->count - host) * sizeof *c->hosts);
}

void clq_cluster_release(clq_cluster *c) {
    for (size_t i = 0; i < c->count; i++) release_host(&c->hosts[i]);
    clq_free(c->hosts);
    *c = (clq_cluster){0};
}

/* text: "NAME" or "NAME:NUMBER". A name becomes an argument of programs, and a part of lists with commas. So it may
 * only have the characters of `plain`, which names of hosts and addresses of IPv4 consist of. *name is NULL if memory
 * is out. */
static bool split(const char *text, char **name, char **number) {
    const size_t length = strspn(text, plain);
    const bool has_number = text[length] == ':';
    const char *digits = text + length + 1;
    if (length == 0 || text[0] == '-' || length > 255 || (text[length] && !has_number)) return false;
    if (has_number && (!*digits || digits[strspn(digits, "0123456789")])) return false;
    *name = clq_strprintf("%.*s", (int)length, text);
    *number = has_number ? clq_strdup(digits) : NULL;
    if (has_number && !*number) {
        clq_free(*name);
        *name = NULL;
    }
    return true;
}

/* Takes name and port over, also if it fails. */
static clq_status add_host(clq_cluster *c, char *name, char *port, unsigned processes) {
    clq_host *grown = name ? clq_grow(c->hosts, c->count, &c->capacity, 8, sizeof *grown) : NULL;
    if (!grown) {
        clq_free(name);
        clq_free(port);
        return CLQ_ERROR_MEMORY;
    }
    c->hosts = grown;
    c->hosts[c->count++] = (clq_host){.name = name, .port = port, .processes = processes};
    return CLQ_OK;
}

/* The index of the host with this name; c->count: there is none. */
static size_t find(const clq_cluster *c, const char *name) {
    size_t i = 0;
    while (i < c->count && strcmp(c->hosts[i].name, name) != 0) i++;
    return i;
}

/* ---- a list ---- */

static clq_status add_item(clq_cluster *c, const char *list, const char *item) {
    char *name = NULL, *number = NULL;
    uint64_t processes = 1;
    const bool is_good =
        split(item, &name, &number) && !(number && !clq_parse_u64(number, 1, PROCESSES_MOST, &processes));
    clq_free(number);
    if (is_good && name && find(c, name) == c->count) return add_host(c, name, NULL, (unsigned)processes);
    const clq_status status =
        !is_good ? clq_fail(CLQ_ERROR_ARGUMENT,
                            "--hosts '%s': '%s' is no host: expected NAME, or NAME:PROCESSES with 1 to %d", list, item,
                            (int)PROCESSES_MOST)
        : !name  ? CLQ_ERROR_MEMORY
                 : clq_fail(CLQ_ERROR_ARGUMENT, "--hosts '%s': '%s' stands there twice: write %s:2 for two processes",
                            list, name, name);
    clq_free(name);
    return status;
}

clq_status clq_cluster_of_hosts(const char *list, clq_cluster *out) {
    char *items = clq_strdup(list);
    clq_status status = items ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (char *item = items; status == CLQ_OK && item;) {
        char *comma = strchr(item, ',');
        if (comma) *comma = '\0';
        status = out->count == HOSTS_MOST ? clq_fail(CLQ_ERROR_ARGUMENT, "--hosts: more than %d hosts", (int)HOSTS_MOST)
                                          : add_item(out, list, item);
        item = comma ? comma + 1 : NULL;
    }
    clq_free(items);
    return status;
}

/* ---- TF_CONFIG ---- */

typedef enum job { CHIEF, MASTER, WORKER, PS, EVALUATOR, JOBS } job;
static const char *const jobs[JOBS] = {"chief", "master", "worker", "ps", "evaluator"};

static job find_job(const char *name) {
    job found = CHIEF;
    while (found < JOBS && strcmp(jobs[found], name) != 0) found++;
    return found;
}

static clq_status fail_unknown_job(const char *field, const char *name) {
    clq_nearest nearest = clq_nearest_of(name);
    clq_text meant = {0};
    for (size_t i = 0; i < JOBS; i++) clq_nearest_try(&nearest, jobs[i]);
    clq_nearest_add(&nearest, &meant);
    const clq_status status =
        clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: %s '%.40s' is none of chief, master, worker, ps and evaluator%s", field,
                 name, meant.data && !meant.failed ? meant.data : "");
    clq_free(meant.data);
    return status;
}

/* Ranks are numbered host by host, and store ranks are the last, so they need hosts of their own. */
static clq_status refuse_store(clq_cluster *c, size_t index, size_t host) {
    return clq_fail(
        CLQ_ERROR_UNSUPPORTED,
        "TF_CONFIG: cluster.ps[%zu] is on '%s', which trains, too: name a host of its own, or leave ps out of "
        "the cluster and use --ps-ranks",
        index, c->hosts[host].name);
}

/* Entries that name one host become one host, with as many processes. */
static clq_status add_entry(clq_cluster *c, job of, size_t index, const json_t *entry) {
    char *name = NULL, *port = NULL;
    const char *text = json_string_value(entry);
    if (!text || !split(text, &name, &port))
        return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: cluster.%s[%zu] is no text \"HOST:PORT\" with the name of a host",
                        jobs[of], index);
    uint64_t number;
    if (port && !clq_parse_u64(port, 1, PORT_MOST, &number)) {
        const clq_status status = clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: cluster.%s[%zu]: port %.20s: expected 1 to %d",
                                           jobs[of], index, port, (int)PORT_MOST);
        clq_free(name);
        clq_free(port);
        return status;
    }
    const size_t same = name ? find(c, name) : c->count;
    const bool has_rank = of != EVALUATOR && (of != PS || c->has_stores);
    if (has_rank && same == c->count) return add_host(c, name, port, 1);
    clq_status status = name ? CLQ_OK : CLQ_ERROR_MEMORY;
    if (has_rank && of == PS && same < c->trainers) status = refuse_store(c, index, same);
    if (has_rank) c->hosts[same].processes++;
    if (has_rank && of != PS) c->has_twins = true, c->twin = same;
    clq_free(name);
    clq_free(port);
    return status;
}

static clq_status add_job(clq_cluster *c, job of, const json_t *entries) {
    if (!entries) return CLQ_OK;
    const size_t count = json_array_size(entries);
    if (!json_is_array(entries))
        return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: cluster.%s is no list of \"HOST:PORT\"", jobs[of]);
    if (count > 1 && (of == CHIEF || of == MASTER))
        return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: cluster.%s has %zu entries: there is one", jobs[of], count);
    if (count > HOSTS_MOST)
        return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: cluster.%s has more than %d entries", jobs[of], (int)HOSTS_MOST);
    for (size_t i = 0; i < count; i++) CLQ_TRY(add_entry(c, of, i, json_array_get(entries, i)));
    return CLQ_OK;
}

static size_t entries_of(const json_t *cluster, job of) { return json_array_size(json_object_get(cluster, jobs[of])); }

static clq_status read_cluster(clq_cluster *c, json_t *cluster) {
    const char *name;
    json_t *value;
    if (!json_is_object(cluster)) return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: cluster is missing, or no object");
    json_object_foreach(cluster, name, value) {
        if (find_job(name) == JOBS) return fail_unknown_job("in cluster,", name);
    }
    for (job of = CHIEF; of < JOBS; of++) {
        if (of == PS) c->trainers = c->count;
        CLQ_TRY(add_job(c, of, json_object_get(cluster, jobs[of])));
    }
    if (entries_of(cluster, CHIEF) && entries_of(cluster, MASTER))
        return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: cluster has a chief and a master: they are the same");
    if (c->trainers == 0) return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: cluster has neither a chief nor workers");
    c->ps = (unsigned)entries_of(cluster, PS);
    return CLQ_OK;
}

/* Finds which of the cluster's tasks this process is. Ranks are in the order chief, workers. */
static clq_status read_task(clq_cluster *c, const json_t *cluster, const json_t *task) {
    const char *type = json_string_value(json_object_get(task, "type"));
    const json_t *index = json_object_get(task, "index");
    if (!json_is_object(task)) return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: task is missing, or no object");
    if (!type) return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: task.type is missing, or no text");
    const job own = find_job(type);
    if (own == JOBS) return fail_unknown_job("task.type", type);
    if (!json_is_integer(index))
        return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: task.index is missing, or no whole number (without quotes)");
    const size_t count = entries_of(cluster, own), leaders = entries_of(cluster, CHIEF) + entries_of(cluster, MASTER);
    const json_int_t at = json_integer_value(index);
    c->evaluates = own == EVALUATOR; /* it need not be in the cluster */
    if ((!c->evaluates || count > 0) && (at < 0 || (uint64_t)at >= count))
        return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: task.index is %lld, and cluster.%s has %zu entr%s", (long long)at,
                        type, count, count == 1 ? "y" : "ies");
    c->own_rank = own == PS || own == EVALUATOR ? -1 : (int)(own == WORKER ? leaders : 0) + (int)at;
    for (job of = CHIEF; of < JOBS; of++) c->others += entries_of(cluster, of);
    c->others -= 1; /* this task. An evaluator was perhaps not counted, but only hosts that launch use `others` */
    return CLQ_OK;
}

clq_status clq_cluster_of_tf_config(const char *text, bool has_stores, clq_cluster *out) {
    json_t *root;
    out->has_stores = has_stores;
    CLQ_TRY(clq_json_parse(text, strlen(text), TF_CONFIG_DEPTH, "TF_CONFIG", &root));
    json_t *cluster = json_object_get(root, "cluster");
    out->is_tf_config = true;
    clq_status status = read_cluster(out, cluster);
    if (status == CLQ_OK) status = read_task(out, cluster, json_object_get(root, "task"));
    json_decref(root);
    return status;
}

/* ---- where they are ---- */

/* Whether an address is this machine's: only then can it be bound. */
static bool is_own(const struct addrinfo *address) {
    const int fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC, 0);
    const bool bound = fd >= 0 && bind(fd, address->ai_addr, address->ai_addrlen) == 0;
    if (fd >= 0) close(fd);
    return bound;
}

/* has_agent: only knows numeric addresses, and names that this machine has for itself. Returns an error of getaddrinfo,
 * or 0. */
static int find_host(clq_host *host, bool has_agent) {
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = has_agent ? AI_NUMERICHOST : 0};
    char own[256] = "";
    if (has_agent && gethostname(own, sizeof own - 1) != 0) own[0] = '\0';
    if (has_agent && (strcmp(host->name, own) == 0 || strcmp(host->name, "localhost") == 0)) host->is_here = true;
    if (host->is_here) return 0;
    struct addrinfo *found;
    const int error = getaddrinfo(host->name, NULL, &hints, &found);
    if (error != 0) return error;
    for (const struct addrinfo *a = found; a && !host->is_here; a = a->ai_next) host->is_here = is_own(a);
    freeaddrinfo(found);
    return 0;
}

clq_status clq_cluster_find(clq_cluster *c, double wait_s, bool has_agent) {
    const double until = clq_now() + wait_s;
    for (size_t i = 0; i < c->count; i++) {
        int error;
        while ((error = find_host(&c->hosts[i], has_agent)) != 0 && !has_agent && clq_now() < until &&
               poll(NULL, 0, 1000) == 0) {
        }
        if (error != 0 && clq_interrupts_count() > 0)
            return clq_fail(CLQ_ERROR_INTERRUPTED, "interrupted while waiting for the name '%s'", c->hosts[i].name);
        if (error != 0 && !has_agent)
            return clq_fail(CLQ_ERROR_NOT_FOUND, "%s: unknown host '%s': %s", c->is_tf_config ? "TF_CONFIG" : "--hosts",
                            c->hosts[i].name, gai_strerror(error));
    }
    for (size_t i = 1; !c->is_tf_config && !c->hosts[0].is_here && i < c->count; i++) {
        if (!c->hosts[i].is_here) continue;
        const clq_host own = c->hosts[i];
        memmove(&c->hosts[1], &c->hosts[0], i * sizeof own);
        c->hosts[0] = own;
        break;
    }
    return CLQ_OK;
}
