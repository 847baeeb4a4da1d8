/* Claims: what processes that share a cache folder are building or loading at this moment. A driver may end the process
 * by an assertion over a program that it builds or loads, and drivers' own caches do not bear several processes that
 * make the same program at the same time (PoCL 3.1 removes a file for a moment to replace it). So
 * - the first process that wants a program builds or loads it alone, and who comes meanwhile waits; all others work
 * side by side;
 * - a process that dies over a program leaves a mark, by which the next one knows; so does one whose driver does not
 * come back from it.
 *
 * All claims of a cache are in one sparse file. A program has a byte to lock, by its `place`: what drivers' caches know
 * it by; who is alone there works alone. And it has a byte of data, its mark, by its `key`: whether a claim is held,
 * and at which attempt the program is. Two devices of a driver may have the place in common and not the key, so the
 * mark has a lock of its own, behind all data, which those share that hold a claim; and behind these locks a gate,
 * which is held for the moment in which a mark is read and changed with its lock. Locks of an open file description end
 * with the process, whatever ends it: a mark without a lock is a dead process's. Two programs in one byte wait for each
 * other, or are built once too often. */
#define _GNU_SOURCE /* F_OFD_SETLK; NOLINT(bugprone-reserved-identifier) */
#include "device/internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { SLOTS = 1 << 20, HELD = 1, ATTEMPT_STEP = 2, ATTEMPT_MAX = 254 };

/* A process that is stopped keeps its locks. Nobody waits longer than this for it. */
static const double patience_s = 60;

int clq_claims_open(const char *cache_dir) {
    int file = -1;
    char *folder = clq_strprintf("%s/%s", cache_dir, clq_programs_folder);
    char *path = clq_strprintf("%s/%s/.claims", cache_dir, clq_programs_folder);
    if (folder && path && clq_make_folder(folder) == CLQ_OK) file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
    clq_free(folder);
    clq_free(path);
    return file;
}

void clq_claims_close(int claims) {
    if (claims >= 0) (void)close(claims);
}

/* 0, or the error. */
static int lock(int file, off_t at, short type) {
#ifdef F_OFD_SETLK
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = at, .l_len = 1};
    return fcntl(file, F_OFD_SETLK, &range) == 0 ? 0 : errno;
#else
    (void)file, (void)at, (void)type;
    return ENOTSUP;
#endif
}

static off_t mark_lock(const clq_claim *claim) { return SLOTS + claim->mark; }
static off_t gate(const clq_claim *claim) { return 2 * (off_t)SLOTS + claim->mark; }

static bool is_taken(int error) { return error == EAGAIN || error == EACCES || error == EINTR; }

/* Takes a lock: an exclusive one, or also a shared one where `alone` is given, which tells. False where the time is
 * over, or the file system has no locks. */
static bool wait_for_lock(int file, off_t at, double until, bool *alone) {
    struct timespec nap = {.tv_nsec = 50000};
    for (;;) {
        int error = lock(file, at, F_WRLCK);
        if (alone) *alone = error == 0;
        if (error != 0 && alone) error = lock(file, at, F_RDLCK);
        if (error == 0) return true;
        if (!is_taken(error) || clq_now() > until) return false;
        (void)nanosleep(&nap, NULL);
        nap.tv_nsec = CLQ_MIN(nap.tv_nsec * 2, 32000000L);
    }
}

/* False on a full disk, and beyond the size that a file may have (ulimit -f). */
static bool write_mark(const clq_claim *claim, unsigned char mark) {
    return pwrite(claim->file, &mark, 1, claim->mark) == 1;
}

/* Of the running system: some network file systems have locks that hold on one machine alone, and there a process must
 * not judge another machine's marks by them. 0: the system does not say. */
static uint64_t system_number(void) {
    char id[64] = "";
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    bool read = file && fgets(id, sizeof id, file);
    if (file) (void)fclose(file);
    return read ? clq_hash128_of(id, strlen(id), 0).low : 0;
}

static clq_claim claim_of(int claims, clq_hash128 place, clq_hash128 key) {
    const uint64_t number = system_number();
    return (clq_claim){
        .file = claims, .place = (off_t)((place.low ^ number) % SLOTS), .mark = (off_t)((key.low ^ number) % SLOTS)};
}

/* Shares the mark's lock. Where nobody else has it, a mark that is held is a dead process's. A process that cannot
 * write marks shares none: the last process that shares a mark must clear it. */
static bool begin_mark(clq_claim *claim, double until, bool *died) {
    unsigned char mark = 0;
    if (!wait_for_lock(claim->file, gate(claim), until, NULL)) return false;
    const bool first = lock(claim->file, mark_lock(claim), F_WRLCK) == 0;
    const bool held = lock(claim->file, mark_lock(claim), F_RDLCK) == 0;
    if (held && pread(claim->file, &mark, 1, claim->mark) >= 0) {
        *died = first && (mark & HELD);
        if (*died && mark < ATTEMPT_MAX) mark += ATTEMPT_STEP;
        claim->marked = write_mark(claim, mark | HELD);
    }
    claim->attempt = mark / ATTEMPT_STEP;
    if (!claim->marked) (void)lock(claim->file, mark_lock(claim), F_UNLCK);
    (void)lock(claim->file, gate(claim), F_UNLCK);
    return held;
}

bool clq_claim_begin(int claims, clq_hash128 place, clq_hash128 key, clq_claim *out) {
    clq_claim claim = claim_of(claims, place, key);
    const double until = clq_now() + patience_s;
    bool died = false;
    claim.held = claims >= 0 && wait_for_lock(claims, claim.place, until, &claim.alone);
    if (claim.held && !begin_mark(&claim, until, &died)) {
        (void)lock(claims, claim.place, F_UNLCK);
        claim.held = false;
    }
    *out = claim;
    return died;
}

void clq_claim_share(clq_claim *claim) {
    if (claim->held && claim->alone) (void)lock(claim->file, claim->place, F_RDLCK);
    claim->alone = false;
}

/* The mark without its lock is a dead process's. */
void clq_claim_leave(clq_claim *claim) {
    if (!claim->held) return;
    claim->held = false;
    (void)lock(claim->file, mark_lock(claim), F_UNLCK);
    (void)lock(claim->file, claim->place, F_UNLCK);
}

/* While others have the program, the mark is theirs. */
void clq_claim_end(clq_claim *claim) {
    if (!claim->held) return;
    claim->held = false;
    if (claim->marked) {
        const bool entered = wait_for_lock(claim->file, gate(claim), clq_now() + patience_s, NULL);
        if (entered && lock(claim->file, mark_lock(claim), F_WRLCK) == 0)
            (void)write_mark(claim, (unsigned char)(claim->attempt * ATTEMPT_STEP));
        (void)lock(claim->file, mark_lock(claim), F_UNLCK);
        if (entered) (void)lock(claim->file, gate(claim), F_UNLCK);
    }
    (void)lock(claim->file, claim->place, F_UNLCK);
}

void clq_claim_distrust(int claims, clq_hash128 place, clq_hash128 key) {
    const clq_claim claim = claim_of(claims, place, key);
    unsigned char mark = 0;
    if (claims < 0 || !wait_for_lock(claims, gate(&claim), clq_now() + patience_s, NULL)) return;
    if (pread(claims, &mark, 1, claim.mark) >= 0) (void)write_mark(&claim, mark | HELD);
    (void)lock(claims, gate(&claim), F_UNLCK);
}
