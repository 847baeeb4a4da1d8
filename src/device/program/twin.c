/* PoCL before 7.0 keeps one list of loaded kernels for the whole process. When a command starts, PoCL looks for its
 * kernel in the list by the program's hash, the kernel, the local size and a global size at least as large. If there is
 * none, it loads the kernel once more. When a command has finished, PoCL looks for the kernel that it used by hash,
 * kernel and local size alone. If a kernel is loaded more than once and runs on two devices at the same time, this
 * drops the wrong reference and ends the process. So no two devices that are open at the same time have programs of the
 * same hash: each device, a twin of the others, has a number of its own. (PoCL's list is one for the process, and so is
 * the table here.)
 *
 * A program built from source has the number among its options. But then every device compiles every kernel again,
 * although only the number differs. PoCL's binaries contain their hash as text, and the machine code of the kernels
 * that ran. So the number is written into the hash of a binary, in letters that no computed hash has, and nothing is
 * compiled.
 *
 * To make a binary, PoCL loads each kernel for its required local size, without a reference. While that entry stands in
 * front of the entry that a command uses, the end of the command drops the wrong reference, which ends the process,
 * too. So a thread never asks for the binary of a program that may be running. A twin asks others only for programs
 * that were not launched yet, and builds all other programs itself. */
#include "device/internal.h"

#include <string.h>

enum { TWINS_MAX = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool taken[TWINS_MAX];
static clq_device *devices[TWINS_MAX]; /* that other twins can ask; changes only while no twin builds */
static const char letters[] = "ABCDEFGHIJKLMNOP", numerals[] = "abcdefghijklmnop";

clq_status clq_twin_take(clq_device *device) {
    if (!clq_device_has_quirk(device, CLQ_QUIRK_MIXES_UP_KERNELS)) return CLQ_OK;
    int twin = 0;
    pthread_mutex_lock(&lock);
    while (twin < TWINS_MAX && taken[twin]) twin++;
    if (twin < TWINS_MAX) taken[twin] = true;
    pthread_mutex_unlock(&lock);
    if (twin == TWINS_MAX)
        return clq_fail(CLQ_ERROR_NO_DEVICE, "%d devices of PoCL are open: close some first", TWINS_MAX);
    device->twin = twin;
    return CLQ_OK;
}

static void set_asked(clq_device *device, clq_device *asked) {
    if (device->twin < 0) return;
    clq_building_begin(device);
    devices[device->twin] = asked;
    clq_building_end(device);
}

void clq_twin_join(clq_device *device) { set_asked(device, device); }
void clq_twin_leave(clq_device *device) { set_asked(device, NULL); }

/* Finds the hash in a binary: "KP/" and 37 letters more, of A to P. The last two letters may be a number of ours. NULL
 * if there is no hash. */
static char *find_hash(unsigned char *binary, size_t bytes) {
    enum { LETTERS = 40, HEADER = 128 };
    if (bytes < HEADER || memcmp(binary, "poclbin", 8) != 0) return NULL;
    for (size_t at = 8; at + LETTERS < HEADER; at++) {
        char *text = (char *)binary + at;
        if (text[2] != '/' || text[LETTERS] != '\0') continue;
        if (strspn(text, letters) == 2 && strspn(text + 3, letters) + strspn(text + LETTERS - 2, numerals) >= 37)
            return text;
    }
    return NULL;
}

bool clq_twin_name(int twin, unsigned char *binary, size_t bytes) {
    if (twin < 0) return true;
    char *hash = find_hash(binary, bytes);
    if (!hash) return twin == 0;
    hash[38] = numerals[twin / 16];
    hash[39] = numerals[twin % 16];
    return true;
}

void clq_twin_return(int twin) {
    if (twin < 0) return;
    pthread_mutex_lock(&lock);
    taken[twin] = false;
    pthread_mutex_unlock(&lock);
}

clq_status clq_twin_ask(const clq_device *device, clq_hash128 key) {
    if (device->twin < 0 || !device->cache_dir) return CLQ_OK;
    for (int i = 0; i < TWINS_MAX; i++) {
        clq_device *other = devices[i];
        if (other && other != device && other->cache_dir && strcmp(other->cache_dir, device->cache_dir) == 0)
            CLQ_TRY(clq_programs_offer(other, key));
    }
    return CLQ_OK;
}
