/* Hosts that were started alike wait for the one that launches. They connect to its port, and nothing is said until the
 * run has ended: then it sends each a line with the exit code. Connections lie in the kernel's queue until then, and
 * nothing that somebody sends is read. A host that is gone shows by its connection (keepalive). */
#include "cli/interrupt.h"
#include "cli/launch.h"

#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

enum { QUEUE = 4096, LATE_MS = 10000, SILENCE_S = 5, PROBES = 3, CONNECT_S = 5, LINE_BYTES = 64, LOOK_MS = 500 };
#define LINE "clique launch ended "

static clq_status look_up(const clq_host *host, struct addrinfo **out) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM};
    const int error = getaddrinfo(host->name, host->port, &hints, out);
    return error == 0 ? CLQ_OK : clq_fail(CLQ_NOT_FOUND, "%s: %s", host->name, gai_strerror(error));
}

/* ---- the host that launches ---- */

/* -1 and errno: no. */
static int listen_at(const struct addrinfo *address) {
    const int on = 1, fd = socket(address->ai_family, address->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    (void)setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(fd, address->ai_addr, address->ai_addrlen) == 0 && listen(fd, QUEUE) == 0) return fd;
    const int error = errno;
    close(fd);
    errno = error;
    return -1;
}

void clq_waiters_open(const clq_cluster *cluster, clq_waiters *out) {
    const clq_host *own = &cluster->hosts[0];
    struct addrinfo *addresses = NULL;
    *out = (clq_waiters){.fd = -1, .expected = cluster->others};
    if (!cluster->is_tf_config || !own->port || cluster->others == 0) return;
    const bool is_known = look_up(own, &addresses) == CLQ_OK;
    for (const struct addrinfo *a = addresses; a && out->fd < 0; a = a->ai_next) out->fd = listen_at(a);
    if (out->fd < 0)
        clq_log(CLQ_LOG_WARNING, "cannot listen on %s:%s: %s; hosts that wait for this one will not learn its end",
                own->name, own->port, is_known ? strerror(errno) : "its name is not known");
    if (is_known) freeaddrinfo(addresses);
}

void clq_waiters_end(clq_waiters *w, int code) {
    char line[LINE_BYTES];
    const int length = snprintf(line, sizeof line, LINE "%d\n", code);
    const double until = clq_now() + LATE_MS / 1e3;
    size_t told = 0;
    while (w->fd >= 0 && told < w->expected) {
        const int fd = accept(w->fd, NULL, NULL);
        if (fd >= 0) {
            told += send(fd, line, (size_t)length, MSG_NOSIGNAL) == length;
            (void)shutdown(fd, SHUT_WR);
            close(fd);
            continue;
        }
        if (errno == ECONNABORTED || errno == EINTR) continue;
        struct pollfd ready = {.fd = w->fd, .events = POLLIN};
        if (errno != EAGAIN || told == 0 || clq_now() >= until || clq_interrupts_count() > 1) break;
        (void)poll(&ready, 1, 100);
    }
    if (w->fd >= 0) close(w->fd);
    w->fd = -1;
}

/* ---- the others ---- */

static void set_number(int fd, int level, int option, int value) {
    (void)setsockopt(fd, level, option, &value, sizeof value);
}

static clq_status connect_once(const clq_host *host, int *out) {
    struct addrinfo *addresses;
    CLQ_TRY(look_up(host, &addresses));
    const struct timeval limit = {.tv_sec = CONNECT_S};
    int error = 0;
    *out = -1;
    for (const struct addrinfo *a = addresses; a && *out < 0; a = a->ai_next) {
        const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, 0);
        (void)setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
        if (fd >= 0 && connect(fd, a->ai_addr, a->ai_addrlen) == 0) {
            *out = fd;
            continue;
        }
        error = errno == EINPROGRESS ? ETIMEDOUT : errno;
        if (fd >= 0) close(fd);
    }
    freeaddrinfo(addresses);
    return *out >= 0 ? CLQ_OK : clq_fail(CLQ_NOT_FOUND, "%s:%s: %s", host->name, host->port, strerror(error));
}

static clq_status connect_within(const clq_host *host, double wait_s, int *out) {
    const double until = clq_now() + wait_s;
    clq_status status;
    while ((status = connect_once(host, out)) != CLQ_OK) {
        if (clq_interrupts_count() > 0)
            return clq_fail(CLQ_INTERRUPTED, "interrupted while waiting for %s", host->name);
        if (status == CLQ_MEMORY) return status;
        if (clq_now() >= until)
            return clq_fail_within(CLQ_TIMEOUT, "the host that launches was not there within %.0f s (--wait)", wait_s);
        (void)poll(NULL, 0, LOOK_MS);
    }
    set_number(*out, SOL_SOCKET, SO_KEEPALIVE, 1);
    set_number(*out, IPPROTO_TCP, TCP_KEEPIDLE, SILENCE_S);
    set_number(*out, IPPROTO_TCP, TCP_KEEPINTVL, SILENCE_S);
    set_number(*out, IPPROTO_TCP, TCP_KEEPCNT, PROBES);
    return CLQ_OK;
}

static clq_status take_line(const clq_host *host, int fd, int *code) {
    char line[LINE_BYTES] = "";
    size_t length = 0;
    uint64_t number;
    while (length + 1 < sizeof line && !strchr(line, '\n')) {
        struct pollfd ready = {.fd = fd, .events = POLLIN};
        if (clq_interrupts_count() > 0)
            return clq_fail(CLQ_INTERRUPTED, "interrupted while waiting for the end of the run that %s launches",
                            host->name);
        if (poll(&ready, 1, LOOK_MS) <= 0) continue; /* a signal in front of a call that waits would not end it */
        const ssize_t got = recv(fd, line + length, sizeof line - 1 - length, 0);
        if (got <= 0)
            return clq_fail(CLQ_ABORTED, "%s:%s, which launches the run, is gone: %s", host->name, host->port,
                            got < 0 ? strerror(errno) : "it ended without a word");
        length += (size_t)got;
        line[length] = '\0';
    }
    line[strcspn(line, "\n")] = '\0';
    if (strncmp(line, LINE, strlen(LINE)) != 0 || !clq_parse_u64(line + strlen(LINE), 0, 255, &number))
        return clq_fail(CLQ_FORMAT, "%s:%s is no clique launch: TF_CONFIG must have the same entries on all hosts",
                        host->name, host->port);
    *code = (int)number;
    return CLQ_OK;
}

clq_status clq_wait_for_end(const clq_host *host, double wait_s, int *code) {
    int fd;
    if (!host->port)
        return clq_fail(CLQ_FORMAT, "TF_CONFIG: '%s' has no port: hosts that wait for it need one", host->name);
    (void)clq_interrupts_count();
    CLQ_TRY(connect_within(host, wait_s, &fd));
    const clq_status status = take_line(host, fd, code);
    close(fd);
    return status;
}
