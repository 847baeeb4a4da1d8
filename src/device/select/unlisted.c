/* Finds GPUs that the machine has and no OpenCL driver lists. GPUs are found on the PCI bus or by their device files,
 * and compared with the list of devices. Each unlisted GPU is reported with what is missing. A program that falls back
 * to the CPU beside a GPU is slow, and nothing else would say why. */
#define _GNU_SOURCE /* faccessat's AT_EACCESS; NOLINT(bugprone-reserved-identifier) */
#include "device/internal.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { PATH_BYTES = 512, GPUS_MAX = 64, CLASS_DISPLAY = 0x03, CLASS_ACCELERATOR = 0x12, LISTED_MAX = 256 };

typedef struct vendor {
    const char *name, *in_text; /* as a driver's tag and in CL_DEVICE_VENDOR */
    unsigned id;
    const char *in_icd, *rusticl; /* part of the library's name in a vendor file; Mesa's driver for RUSTICL_ENABLE */
    const char *file;             /* a device file that tells of a GPU even if the PCI bus is hidden; or NULL */
    /* What to do if the kernel has no render node for the GPU, if its device file is missing, if no driver is
     * installed, and if the driver does not list the GPU. */
    const char *load, *give, *install, *silent;
} vendor;

enum { NVIDIA, AMD, INTEL, VENDORS };
static const vendor vendors[VENDORS] = {
    [NVIDIA] = {"nvidia", "NVIDIA", 0x10de, "nvidia", NULL, "/dev/nvidia0", NULL,
                "load NVIDIA's kernel module, or give the GPU to the container (docker run --gpus all)",
                "install nvidia-opencl-icd (and nvidia-driver, where nvidia-smi does not work)",
                "see whether nvidia-smi shows it: the driver's libraries must be of its kernel module's version"},
    [AMD] = {"amd", "Advanced Micro", 0x1002, "amdocl", "radeonsi", "/dev/kfd", "load the kernel module amdgpu",
             "give it to the container (docker run --device /dev/dri --device /dev/kfd)",
             "install rocm-opencl-icd, or mesa-opencl-icd (Mesa 24 or newer) and set RUSTICL_ENABLE=radeonsi",
             "ROCm does not support every GPU: install mesa-opencl-icd (Mesa 24 or newer) and set "
             "RUSTICL_ENABLE=radeonsi"},
    [INTEL] = {"intel", "Intel", 0x8086, "igdrcl", "iris", NULL, "load the kernel module i915 or xe",
               "give it to the container (docker run --device /dev/dri)", "install intel-opencl-icd",
               "install an intel-opencl-icd that is newer than the GPU"},
};

typedef struct gpu {
    const vendor *vendor;
    char pci[16]; /* "": known by its device file */
    bool listed;
} gpu;

typedef struct machine {
    const char *root;    /* in front of all paths; "": the machine's own */
    bool vendors_chosen; /* the user chooses by OCL_ICD_VENDORS which drivers there are */
    gpu gpus[GPUS_MAX];
    size_t count;
} machine;

/* ---- files ---- */

static bool may(const machine *m, const char *path, int mode) {
    char whole[PATH_BYTES];
    (void)snprintf(whole, sizeof whole, "%s%s", m->root, path);
    return faccessat(AT_FDCWD, whole, mode, AT_EACCESS) == 0;
}

/* The hexadecimal number in a file of a PCI device; 0 if there is none. */
static unsigned number_in(const machine *m, const char *pci, const char *name) {
    char path[PATH_BYTES];
    unsigned number = 0;
    (void)snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/%s", m->root, pci, name);
    FILE *file = fopen(path, "r");
    if (!file) return 0;
    if (fscanf(file, "%x", &number) != 1) number = 0;
    (void)fclose(file);
    return number;
}

/* The name of the kernel's driver of a PCI device; "" if it has none. */
static void kernel_driver(const machine *m, const char *pci, char *out, size_t bytes) {
    char path[PATH_BYTES], target[PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/sys/bus/pci/devices/%s/driver", m->root, pci);
    ssize_t length = readlink(path, target, sizeof target - 1);
    target[length > 0 ? length : 0] = '\0';
    const char *base = strrchr(target, '/');
    (void)snprintf(out, bytes, "%.63s", base ? base + 1 : target);
}

/* Calls `visit` with each name in the folder, in order, until it returns true. Returns whether it did. */
static bool any_in(const machine *m, const char *folder, bool (*visit)(const char *name, void *context),
                   void *context) {
    char whole[PATH_BYTES];
    struct dirent **names;
    bool found = false;
    (void)snprintf(whole, sizeof whole, "%s%s", m->root, folder);
    int count = scandir(whole, &names, NULL, alphasort);
    for (int i = 0; i < count; i++) {
        if (!found && names[i]->d_name[0] != '.') found = visit(names[i]->d_name, context);
        free(names[i]);
    }
    if (count >= 0) free(names);
    return found;
}

/* ---- what there is ---- */

/* The vendor of a PCI device that is a GPU; otherwise NULL. GPUs are display controllers, and AMD's accelerators
 * (Intel's of that class compute no OpenCL). Not counted are GPUs that were or may be given to a virtual machine, and
 * GPUs that the kernel serves by radeon, which is too old. */
static const vendor *vendor_of(const machine *m, const char *pci) {
    char driver[64], physical[PATH_BYTES];
    unsigned class = number_in(m, pci, "class") >> 16;
    if (class != CLASS_DISPLAY && class != CLASS_ACCELERATOR) return NULL;
    unsigned id = number_in(m, pci, "vendor");
    kernel_driver(m, pci, driver, sizeof driver);
    (void)snprintf(physical, sizeof physical, "/sys/bus/pci/devices/%s/physfn", pci);
    if (driver[0] == '\0' && may(m, physical, F_OK)) return NULL;
    if (strcmp(driver, "vfio-pci") == 0 || strcmp(driver, "pciback") == 0 || strcmp(driver, "radeon") == 0) return NULL;
    for (size_t i = 0; i < VENDORS; i++)
        if (vendors[i].id == id) return class == CLASS_DISPLAY || i == AMD ? &vendors[i] : NULL;
    return NULL;
}

static bool add_pci(const char *name, void *context) {
    machine *m = context;
    const vendor *made_by = vendor_of(m, name);
    if (!made_by || strlen(name) >= sizeof m->gpus[0].pci) return false;
    gpu *added = &m->gpus[m->count++];
    *added = (gpu){.vendor = made_by};
    (void)snprintf(added->pci, sizeof added->pci, "%s", name);
    return m->count == GPUS_MAX;
}

static void find_gpus(machine *m) {
    (void)any_in(m, "/sys/bus/pci/devices", add_pci, m);
    for (size_t i = 0; i < VENDORS; i++) {
        bool known = !vendors[i].file || !may(m, vendors[i].file, F_OK) || m->count == GPUS_MAX;
        for (size_t k = 0; k < m->count; k++) known = known || m->gpus[k].vendor == &vendors[i];
        if (!known) m->gpus[m->count++] = (gpu){.vendor = &vendors[i]};
    }
}

/* ---- what is listed ---- */

static bool is_listed_as(const clq_device_info *info, const gpu *g, bool by_address) {
    if (info->type == CLQ_DEVICE_CPU) return false;
    if (by_address) return clq_pci_same(info->pci, g->pci);
    if (info->pci[0] && g->pci[0]) return false;
    return strcmp(info->driver, g->vendor->name) == 0 || strstr(info->vendor, g->vendor->in_text) != NULL;
}

/* Matches each listed device with one GPU: by address, or, if a driver tells no address, with some GPU of its vendor. A
 * device that is not usable is matched, too, since the list itself tells why. */
static void match(const clq_system *system, machine *m, bool by_address, bool *taken) {
    for (size_t k = 0; k < m->count; k++)
        for (size_t i = 0; i < CLQ_MIN(system->count, (size_t)LISTED_MAX) && !m->gpus[k].listed; i++) {
            if (taken[i] || !is_listed_as(&system->entries[i].info, &m->gpus[k], by_address)) continue;
            taken[i] = m->gpus[k].listed = true;
        }
}

/* ---- why it is not ---- */

static const char vendor_folder[] = "/etc/OpenCL/vendors";

typedef struct search {
    const machine *m;
    const char *wanted;
    char found[PATH_BYTES];
} search;

static bool is_render_node(const char *name, void *context) {
    search *s = context;
    if (strncmp(name, "renderD", strlen("renderD")) != 0) return false;
    (void)snprintf(s->found, sizeof s->found, "/dev/dri/%.64s", name);
    return true;
}

/* Whether a vendor file names a library whose name has s->wanted in it. */
static bool names_library(const char *name, void *context) {
    search *s = context;
    char path[PATH_BYTES], line[PATH_BYTES] = "";
    const char *end = strrchr(name, '.');
    if (!end || strcmp(end, ".icd") != 0) return false;
    int length = snprintf(path, sizeof path, "%s%s/%s", s->m->root, vendor_folder, name);
    FILE *file = length > 0 && (size_t)length < sizeof path ? fopen(path, "r") : NULL;
    if (!file) return false;
    bool read = fgets(line, sizeof line, file) != NULL;
    (void)fclose(file);
    return read && strcasestr(line, s->wanted) != NULL;
}

static bool is_registered(const machine *m, const char *library) {
    search s = {.m = m, .wanted = library};
    return any_in(m, vendor_folder, names_library, &s);
}

/* NVIDIA's library; NULL if there is none. It may be there without a vendor file: container runtimes mount libraries
 * alone. */
static const char *nvidia_library(const machine *m) {
    static const char *const places[] = {"/usr/lib/x86_64-linux-gnu/libnvidia-opencl.so.1",
                                         "/usr/lib/aarch64-linux-gnu/libnvidia-opencl.so.1",
                                         "/usr/lib64/libnvidia-opencl.so.1", "/usr/lib/libnvidia-opencl.so.1",
                                         "/usr/local/nvidia/lib64/libnvidia-opencl.so.1"};
    for (size_t i = 0; i < CLQ_COUNT_OF(places); i++)
        if (may(m, places[i], F_OK)) return places[i];
    return NULL;
}

static void say(clq_unlisted *out, const char *remedy, const char *reason, ...) CLQ_PRINTF(3, 4);
static void say(clq_unlisted *out, const char *remedy, const char *reason, ...) {
    va_list arguments;
    va_start(arguments, reason);
    (void)clq_format_list(out->reason, sizeof out->reason, reason, arguments);
    va_end(arguments);
    (void)snprintf(out->remedy, sizeof out->remedy, "%s", remedy);
}

/* Returns false if the file is there and may be opened. Otherwise *out says what to do. */
static bool lacks_file(const machine *m, const char *path, const char *give, const char *permit, clq_unlisted *out) {
    if (!may(m, path, F_OK))
        say(out, give, "there is no %s", path);
    else if (!may(m, path, R_OK | W_OK))
        say(out, permit, "this user may not open %s", path);
    else
        return false;
    return true;
}

static bool lacks_files_of_others(const machine *m, const gpu *g, clq_unlisted *out) {
    static const char permit[] = "add the user to the groups render and video, and log in again";
    const char *give = g->vendor->give;
    char folder[PATH_BYTES];
    search s = {.m = m};
    (void)snprintf(folder, sizeof folder, "/sys/bus/pci/devices/%s/drm", g->pci);
    if (g->pci[0] && !any_in(m, folder, is_render_node, &s)) {
        say(out, g->vendor->load, "the kernel has no /dev/dri/renderD* for it");
        return true;
    }
    if (s.found[0] && lacks_file(m, s.found, give, permit, out)) return true;
    return g->vendor == &vendors[AMD] && is_registered(m, vendors[AMD].in_icd) &&
           lacks_file(m, "/dev/kfd", give, permit, out);
}

static void explain(const machine *m, const gpu *g, clq_unlisted *out) {
    const char *library = g->vendor == &vendors[NVIDIA] ? nvidia_library(m) : NULL;
    const char *enabled = clq_environment("RUSTICL_ENABLE");
    if (library && lacks_file(m, g->vendor->file, g->vendor->give, "give the user access to /dev/nvidia*", out)) return;
    if (g->vendor != &vendors[NVIDIA] && lacks_files_of_others(m, g, out)) return;
    bool registered = is_registered(m, g->vendor->in_icd);
    if (registered && m->vendors_chosen)
        say(out, "unset OCL_ICD_VENDORS, or add the driver's .icd file to what it names",
            "OCL_ICD_VENDORS selects other OpenCL drivers than this GPU's");
    else if (registered)
        say(out, g->vendor->silent, "its OpenCL driver is installed and does not list it");
    else if (library)
        say(out, "write a file /etc/OpenCL/vendors/nvidia.icd that holds the line libnvidia-opencl.so.1",
            "%s is there, but no file in /etc/OpenCL/vendors names it", library);
    else if (g->vendor->rusticl && is_registered(m, "rusticl") && !(enabled && strstr(enabled, g->vendor->rusticl))) {
        say(out, "", "Mesa's OpenCL driver is installed, but not enabled for it");
        (void)snprintf(out->remedy, sizeof out->remedy, "set RUSTICL_ENABLE=%s in the environment", g->vendor->rusticl);
    } else
        say(out, g->vendor->install, "no OpenCL driver for it is installed");
}

size_t clq_system_unlisted(const clq_system *system, const char *root, clq_unlisted *out, size_t capacity) {
    /* If the list was recalled, not the user but Clique has set OCL_ICD_VENDORS. */
    machine m = {.root = root, .vendors_chosen = !system->recalled && clq_environment("OCL_ICD_VENDORS")};
    bool taken[LISTED_MAX] = {false};
    size_t count = 0;
    find_gpus(&m);
    match(system, &m, true, taken);
    match(system, &m, false, taken);
    for (size_t k = 0; k < m.count && count < capacity; k++) {
        if (m.gpus[k].listed) continue;
        clq_unlisted *row = &out[count++];
        (void)snprintf(row->vendor, sizeof row->vendor, "%s", m.gpus[k].vendor->name);
        (void)snprintf(row->pci, sizeof row->pci, "%s", m.gpus[k].pci);
        explain(&m, &m.gpus[k], row);
    }
    return count;
}
