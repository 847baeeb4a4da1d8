/* PoCL before 7.0 keeps one list of loaded kernels for the whole process, and looks up what a finished command used by
 * kernel and local size alone. Where a kernel was loaded more than once, for different global sizes, and runs on two
 * devices at once, it drops the wrong reference and ends the process. So no two devices that are open at the same time
 * build the same program: each has a number of its own among its build options. (The list is the driver's and the
 * process's, so is the table here.) */
#include "device/internal.h"

#include <stdio.h>
#include <string.h>

enum { TWINS_MAX = 256 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static bool taken[TWINS_MAX];

static bool confuses_twins(const clq_device *device) {
    if (strcmp(device->info.driver, "pocl") != 0 || device->info.type != CLQ_DEVICE_CPU) return false;
    const char *at = strstr(device->platform_version, "PoCL ");
    int major = 0;
    return !at || sscanf(at, "PoCL %d", &major) != 1 || major < 7;
}

clq_status clq_twin_take(const clq_device *device, int *out) {
    *out = -1;
    if (!confuses_twins(device)) return CLQ_OK;
    int twin = 0;
    pthread_mutex_lock(&lock);
    while (twin < TWINS_MAX && taken[twin]) twin++;
    if (twin < TWINS_MAX) taken[twin] = true;
    pthread_mutex_unlock(&lock);
    if (twin == TWINS_MAX) return clq_fail(CLQ_NO_DEVICE, "%d devices of PoCL are open: close some first", TWINS_MAX);
    *out = twin;
    return CLQ_OK;
}

void clq_twin_return(int twin) {
    if (twin < 0) return;
    pthread_mutex_lock(&lock);
    taken[twin] = false;
    pthread_mutex_unlock(&lock);
}
