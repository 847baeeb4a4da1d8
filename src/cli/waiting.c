/* All hosts are started alike; one of them launches, and the others wait for it. They connect to its port, and it
 * greets each with a line: a process that has the port but does not greet is a stranger. When the run has ended, it
 * sends each a line with the exit code. It reads nothing that others send. The connection shows whether a host is gone
 * (keepalive). */
#define _GNU_SOURCE /* accept4, POLLRDHUP; NOLINT(bugprone-reserved-identifier) */
#include "cli/interrupt.h"
#include "cli/launch.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { QUEUE = 4096, STRANGERS_MOST = 256, OTHER_FILES = 256, SILENCE_S = 5, PROBES = 3 };
enum { CONNECT_S = 5, LINE_BYTES = 64, LOOK_MS = 500 };
/* Hosts that are started together come some seconds apart, and the run may end at once. If one has come, the launching
 * host waits for the others late_s after the end. If none has come, perhaps none was started: it waits until first_s
 * after it opened its port, when each host that waits has tried to connect. That holds for an evaluator, too, which
 * TF_CONFIG on other hosts need not name. */
static const double late_s = 10, first_s = 4 * LOOK_MS / 1e3;
#define GREETING "clique launch\n"
#define LINE "clique launch ended "

/* ---- the host that launches ---- */

/* Listens on all addresses: a host's own name may be an address that others do not reach (127.0.1.1). Failure: -1 and
 * errno. */
static int listen_on(int family, const char *port) {
    const struct addrinfo hints = {.ai_family = family, .ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    const int on = 1, off = 0;
    struct addrinfo *address;
    errno = EADDRNOTAVAIL;
    if (getaddrinfo(NULL, port, &hints, &address) != 0) return -1;
    const int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0) (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd >= 0 && family == AF_INET6) (void)setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
    const bool listens = fd >= 0 && bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, QUEUE) == 0;
    const int error = errno;
    freeaddrinfo(address);
    if (fd >= 0 && !listens) close(fd);
    errno = error;
    return listens ? fd : -1;
}

/* Each host that waits takes one of this process's files. */
static void allow_files(size_t count) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= count) return;
    limit.rlim_cur = CLQ_MIN(limit.rlim_max, (rlim_t)count);
    (void)setrlimit(RLIMIT_NOFILE, &limit);
}

void clq_waiters_open(const clq_cluster *cluster, bool has_checkpoints, clq_waiters *out) {
    const clq_host *own = &cluster->hosts[0];
    *out = (clq_waiters){.listener = -1, .expected = cluster->others, .opened = clq_now()};
    if (!cluster->is_tf_config || !own->port || (cluster->others == 0 && !has_checkpoints)) return;
    out->listener = listen_on(AF_INET6, own->port); /* takes connections of IPv4, too */
    if (out->listener < 0) out->listener = listen_on(AF_INET, own->port);
    if (out->listener < 0 && cluster->others > 0)
        clq_log(CLQ_LOG_WARNING, "cannot listen on port %s: %s; hosts that wait for this one will not learn its end",
                own->port, strerror(errno));
    if (out->listener >= 0) allow_files(cluster->others + STRANGERS_MOST + OTHER_FILES);
}

static bool is_gone(int fd) {
    struct pollfd state = {.fd = fd, .events = POLLRDHUP};
    return poll(&state, 1, 0) > 0;
}

static bool tell(int fd, const char *line) {
    const size_t length = strlen(line);
    return send(fd, line, length, MSG_NOSIGNAL) == (ssize_t)length;
}

void clq_waiters_greet(clq_waiters *w) {
    size_t kept = 0;
    for (size_t i = 0; i < w->count; i++) {
        if (is_gone(w->links[i]))
            close(w->links[i]);
        else
            w->links[kept++] = w->links[i];
    }
    w->count = kept;
    while (w->listener >= 0 && w->count < w->expected + STRANGERS_MOST) {
        const int fd = accept4(w->listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && (errno == ECONNABORTED || errno == EINTR)) continue;
        if (fd < 0) return; /* nobody has come, or no file is free: then hosts stay in the queue */
        int *grown = clq_grow(w->links, w->count, &w->capacity, 16, sizeof *grown);
        if (grown) w->links = grown;
        if (grown && tell(fd, GREETING))
            w->links[w->count++] = fd;
        else
            close(fd);
    }
}

void clq_waiters_end(clq_waiters *w, int code) {
    char line[LINE_BYTES];
    snprintf(line, sizeof line, LINE "%d\n", code);
    const double ended = clq_now();
    clq_waiters_greet(w);
    while (w->listener >= 0 && w->count < CLQ_MAX(w->expected, (size_t)1) && clq_interrupts_count() <= 1 &&
           clq_now() < (w->count > 0 ? ended + late_s : w->opened + first_s)) {
        struct pollfd ready = {.fd = w->listener, .events = POLLIN};
        (void)poll(&ready, 1, 100);
        clq_waiters_greet(w);
    }
    for (size_t i = 0; i < w->count; i++) {
        (void)tell(w->links[i], line);
        (void)shutdown(w->links[i], SHUT_WR);
        close(w->links[i]);
    }
    if (w->listener >= 0) close(w->listener);
    clq_free(w->links);
    *w = (clq_waiters){.listener = -1};
}

/* ---- the others ---- */

static void set_number(int fd, int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static clq_status connect_once(const clq_host *host, int *out) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    struct addrinfo *addresses;
    const int unknown = getaddrinfo(host->name, host->port, &hints, &addresses);
    if (unknown != 0) return clq_fail(CLQ_ERROR_NOT_FOUND, "%s: %s", host->name, gai_strerror(unknown));
    const struct timeval limit = {.tv_sec = CONNECT_S};
    int error = 0;
    *out = -1;
    for (const struct addrinfo *a = addresses; a && *out < 0; a = a->ai_next) {
        const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        if (fd >= 0) (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
            *out = fd;
            continue;
        }
        error = errno == EINPROGRESS ? ETIMEDOUT : errno;
        if (fd >= 0) close(fd);
    }
    freeaddrinfo(addresses);
    return *out >= 0 ? CLQ_OK : clq_fail(CLQ_ERROR_NOT_FOUND, "%s:%s: %s", host->name, host->port, strerror(error));
}

static clq_status fail_late(double wait_s) {
    return clq_fail_within(CLQ_ERROR_TIMEOUT, "the host that launches was not there within %.0f s (--wait)", wait_s);
}

static bool is_stopped(const atomic_bool *stop) { return clq_interrupts_count() > 0 || (stop && atomic_load(stop)); }

static clq_status connect_until(const clq_host *host, double until, double wait_s, const atomic_bool *stop, int *out) {
    clq_status status;
    while ((status = connect_once(host, out)) != CLQ_OK) {
        if (is_stopped(stop)) return clq_fail(CLQ_ERROR_INTERRUPTED, "interrupted while waiting for %s", host->name);
        if (status == CLQ_ERROR_MEMORY) return status;
        if (clq_now() >= until) return fail_late(wait_s);
        (void)poll(NULL, 0, LOOK_MS);
    }
    set_number(*out, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_number(*out, IPPROTO_TCP, TCP_KEEPIDLE, SILENCE_S);
    set_number(*out, IPPROTO_TCP, TCP_KEEPINTVL, SILENCE_S);
    set_number(*out, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    return CLQ_OK;
}

static clq_status fail_strange(const clq_host *host) {
    return clq_fail(CLQ_ERROR_FORMAT, "%s:%s is no clique launch: TF_CONFIG must have the same entries on all hosts",
                    host->name, host->port);
}

/* Reads up to the end of a line, and no further. until 0: waits without a limit. */
static clq_status take_line(const clq_host *host, int fd, double until, double wait_s, const atomic_bool *stop,
                            char line[LINE_BYTES]) {
    size_t length = 0;
    line[0] = '\0';
    while (!strchr(line, '\n')) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (length + 1 == LINE_BYTES) return fail_strange(host);
        if (is_stopped(stop))
            return clq_fail(CLQ_ERROR_INTERRUPTED, "interrupted while waiting for the end of the run that %s launches",
                            host->name);
        if (until > 0 && clq_now() >= until) return fail_late(wait_s);
        if (poll(&ready, 1, LOOK_MS) <= 0) continue; /* recv would wait on after a signal that came before it */
        const ssize_t got = recv(fd, line + length, 1, 0);
        if (got <= 0)
            return clq_fail(CLQ_ERROR_ABORTED, "%s:%s, which launches the run, is gone: %s", host->name, host->port,
                            got < 0 ? strerror(errno) : "it ended without a word");
        line[++length] = '\0';
    }
    return CLQ_OK;
}

static clq_status take_end(const clq_host *host, int fd, double until, double wait_s, const atomic_bool *stop,
                           int *code) {
    char line[LINE_BYTES];
    uint64_t number;
    CLQ_TRY(take_line(host, fd, until, wait_s, stop, line));
    if (strcmp(line, GREETING) != 0) return fail_strange(host);
    CLQ_TRY(take_line(host, fd, 0, 0, stop, line));
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, LINE, strlen(LINE)) != 0 || !clq_parse_u64(line + strlen(LINE), 0, 255, &number))
        return fail_strange(host);
    *code = (int)number;
    return CLQ_OK;
}

clq_status clq_wait_for_end(const clq_host *host, double wait_s, const atomic_bool *stop, int *code) {
    const double until = clq_now() + wait_s;
    int fd;
    if (!host->port)
        return clq_fail(CLQ_ERROR_FORMAT, "TF_CONFIG: '%s' has no port: hosts that wait for it need one", host->name);
    (void)clq_interrupts_count();
    CLQ_TRY(connect_until(host, until, wait_s, stop, &fd));
    const clq_status status = take_end(host, fd, until, wait_s, stop, code);
    close(fd);
    return status;
}
