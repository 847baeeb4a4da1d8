/* Claims tell what the processes that share a cache folder are building or loading at this moment. They are needed for
 * two reasons. A driver may fail an assertion over a program that it builds or loads, which ends the process. And
 * drivers' own caches are not safe if several processes make the same program at the same time (PoCL 3.1 removes a file
 * for a moment to replace it). So
 * - the first process that wants a program builds or loads it alone. Processes that come meanwhile wait, and then work
 * side by side;
 * - a process that dies over a program leaves a mark, which tells the next process. So does a process whose driver does
 * not come back from the program.
 *
 * All claims of a cache are in one sparse file. In this file a program has
 * - a byte that is locked, chosen by its `place`: what drivers' caches know the program by. A process that has this
 * lock alone works alone;
 * - a byte of data, its mark, chosen by its `key`. The mark tells whether a claim is held, and at which attempt the
 * program is;
 * - a lock for the mark, behind all data, which the processes that hold a claim share. The mark has a lock of its own
 * because programs of two devices of a driver may have the same place and different keys;
 * - a gate, a lock behind these locks. It is held for the moment in which a mark is read and changed together with its
 * lock.
 *
 * Locks of an open file description end with the process, whatever ends it. So if a mark says that a claim is held and
 * the mark is not locked, the process that held the claim is dead. Programs that fall on the same byte wait for each
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

/* A process that is stopped keeps its locks. No other process waits longer than this for it. */
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

/* Returns 0, or the error number. */
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

/* Takes an exclusive lock. If `alone` is given, a shared lock will do as well, and *alone tells whether the lock is
 * exclusive. Returns false when the time is over, or if the file system has no locks. */
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

/* Returns false if the disk is full, or if a file may not be as large as this one (ulimit -f). */
static bool write_mark(const clq_claim *claim, unsigned char mark) {
    return pwrite(claim->file, &mark, 1, claim->mark) == 1;
}

/* A number for the running system; 0 if the system does not tell. On some network file systems a lock holds on one
 * machine alone, and there a process must not judge another machine's marks by the locks. So each system uses bytes of
 * its own. */
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

/* Shares the mark's lock. If nobody else has the lock and the mark says that a claim is held, the process that held it
 * is dead. A process that cannot write the mark does not keep the lock: the last process that shares a mark must clear
 * it. */
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

/* Leaves the mark without its lock, as a dead process does. */
void clq_claim_leave(clq_claim *claim) {
    if (!claim->held) return;
    claim->held = false;
    (void)lock(claim->file, mark_lock(claim), F_UNLCK);
    (void)lock(claim->file, claim->place, F_UNLCK);
}

/* Leaves the mark as it is while other processes share its lock: the last of them clears it. */
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
