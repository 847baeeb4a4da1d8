#include "support/ops_rig.h"

#include "device/internal.h"
#include "support/pocl_names.h"
#include "support/unoptimized.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

enum { GUARD_BYTES = 512, BLANK = 0xFF };

static void must(const rig *r, clq_status status) {
    if (status != CLQ_OK) fail_msg("%s: %s: %s", r ? r->name : "rig", clq_status_text(status), clq_error_detail());
}

void *rig_alloc(size_t count, size_t size) {
    void *block = clq_alloc(count, size);
    if (!block) fail_msg("no memory");
    return block;
}

/* ---- devices ---- */

static bool is_basic(const clq_device_info *info) {
    return strcmp(info->driver, "pocl") == 0 && pocl_name_is(info->name, POCL_BASIC);
}
static bool is_simulator(const clq_device_info *info) { return strcmp(info->driver, "oclgrind") == 0; }

bool rig_is_simulated(const rig *r) { return is_simulator(clq_device_get_info(r->device)); }

bool rig_takes(const rig *r, size_t index) {
    if (rig_is_simulated(r) || getenv("CLQ_TEST_DEVICES")) return true;
    const size_t turn = index + (r->family == CLQ_FAMILY_LOCAL) + !is_basic(clq_device_get_info(r->device));
    return turn % 2 == 0;
}

/* The limit of the local family is lower: whole work-groups work even on its smallest case. */
bool rig_affords(const rig *r, size_t floats) {
    return floats <= (r->family == CLQ_FAMILY_LOCAL ? 1200 : 3000) || !rig_is_simulated(r);
}

/* ---- programs that are not optimized ---- */

void rig_alternate(rig *r, size_t index) {
    r->plain = !rig_is_simulated(r) && !getenv("CLQ_TEST_DEVICES") &&
               (index + !is_basic(clq_device_get_info(r->device))) % 2 == 1;
}

/* Whether the macro's number names one of several ways to compute. Two other such numbers are left out, and count as
 * sizes: the activation of a product or a pool (ACT), and the operations of elementwise programs (OP0, OP1, ...).
 * ops/activation optimizes each activation's forward kernel, whatever its numbers are (optimizes_all). */
static bool chooses_code(const char *macro, size_t length) {
    static const char *const names[] = {"CELL", "DECAY", "FACTORS", "FILL", "KIND", "SIDE", "STRIDE"};
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++)
        if (strlen(names[i]) == length && memcmp(macro, names[i], length) == 0) return true;
    return false;
}

static bool is_storage(const char *macro, size_t length) {
    static const char end[] = "_STORAGE";
    return length >= sizeof end && memcmp(macro + length + 1 - sizeof end, end, sizeof end - 1) == 0;
}

/* Kernels that were compiled with optimization: the device, the kernel, and how it was built. */
static char *paths[1024];
static size_t path_count;

/* The types that values are stored as are told together, whichever value has which. */
static char *path_of(const rig *r, const clq_launch_info *info) {
    clq_text path = {0};
    unsigned types = 0;
    clq_text_add(&path, "%s: %s %s", clq_device_label(r->device), info->file, info->function);
    for (const char *at = info->options; at && (at = strstr(at, "-D")); at++) {
        const size_t length = strcspn(at, " "), name = strcspn(at, " =");
        const bool is_number = name < length && strchr("-0123456789", at[name + 1]);
        if (is_number && is_storage(at + 2, name - 2)) types |= 1u << (at[name + 1] & 15);
        if (!is_number || chooses_code(at + 2, name - 2)) clq_text_add(&path, " %.*s", (int)length, at);
    }
    clq_text_add(&path, " %x", types);
    if (path.failed) fail_msg("no memory");
    return path.data;
}

/* Notes the list's kernels as compiled with optimization. False if all of them were already. */
static bool has_new_path(const rig *r) {
    const size_t before = path_count;
    for (size_t i = 0; i < clq_list_launch_count(r->list); i++) {
        clq_launch_info info;
        clq_list_launch_info(r->list, i, &info);
        if (!info.file) continue;
        char *path = path_of(r, &info);
        size_t at = 0;
        while (at < path_count && strcmp(paths[at], path) != 0) at++;
        if (at == path_count) {
            assert_true(path_count < CLQ_COUNT_OF(paths));
            paths[path_count++] = path;
        } else {
            clq_free(path);
        }
    }
    return path_count > before;
}

/* Chooses whether programs are compiled without optimization from here on. Those of the tile family have another folder
 * then, since their keys are the same. The driver may complete programs as they are launched: what was compiled so far
 * is kept first. */
static void optimize(rig *r, bool on) {
    const bool apart = !on && r->family == CLQ_FAMILY_TILE;
    compile_unoptimized(!on);
    if (!r->folder || apart == r->is_apart) return;
    must(r, clq_device_keep_programs(r->device));
    char *other = r->folder;
    r->folder = r->device->cache_dir;
    r->device->cache_dir = other;
    r->is_apart = apart;
}

/* Devices stay open until the process ends, with the programs that they have. Otherwise a later test of the process
 * would compile a program once more if it wants it with optimization and an earlier test did not, or the other way
 * round. */
static struct {
    clq_system *system;
    struct {
        clq_device *device;
        clq_queue *queue;
    } devices[64]; /* by index */
} opened;

static void close_all(void) {
    for (size_t i = 0; i < CLQ_COUNT_OF(opened.devices); i++) {
        clq_queue_destroy(opened.devices[i].queue);
        clq_device_close(opened.devices[i].device);
        opened.devices[i].queue = NULL;
        opened.devices[i].device = NULL;
    }
    if (opened.system) clq_system_close(opened.system);
    opened.system = NULL;
}

/* Drivers have begun by now, with their own functions of atexit, which are called after close_all. */
static void close_at_exit(void) {
    static bool is_told;
    if (!is_told) assert_int_equal(atexit(close_all), 0);
    is_told = true;
}

static clq_system *open_system(void) {
    if (!opened.system) must(NULL, clq_system_open(NULL, &opened.system));
    return opened.system;
}

static void open_device(uint32_t index, rig *r) {
    assert_true(index < CLQ_COUNT_OF(opened.devices));
    clq_device **device = &opened.devices[index].device;
    clq_queue **queue = &opened.devices[index].queue;
    const clq_device_choice choice = {.index = index, .parts = 1};
    if (!*device) must(NULL, clq_device_open(open_system(), choice, device));
    if (!*queue) must(NULL, clq_queue_create(*device, 0, queue));
    r->device = *device;
    r->queue = *queue;
}

static void run_family(uint32_t index, clq_kernel_family family, bool is_simple, void (*body)(rig *r)) {
    const bool is_local = family == CLQ_FAMILY_LOCAL;
    rig r = {.family = family};
    open_device(index, &r);
    if (r.device->cache_dir && !rig_is_simulated(&r)) r.folder = clq_strprintf("%s-unoptimized", r.device->cache_dir);
    snprintf(r.name, sizeof r.name, "%.100s %s", clq_device_label(r.device), is_local ? "local" : "tile");
    optimize(&r, !is_local);
    compile_on_simple_devices(is_simple);
    body(&r);
    compile_on_simple_devices(false);
    optimize(&r, true);
    clq_free(r.folder);
}

/* The local family is never optimized. It runs on the second device. */
static void run_on(uint32_t index, uint32_t second, void (*body)(rig *r)) {
    const char *only = getenv("CLQ_TEST_FAMILY");
    if (!only || strcmp(only, "tile") == 0) run_family(index, CLQ_FAMILY_TILE, false, body);
    if (!only || strcmp(only, "local") == 0) run_family(second, CLQ_FAMILY_LOCAL, second != index, body);
}

/* The device with several compute units is Intel's, which has another compiler than PoCL. If there is no Intel driver,
 * it is PoCL's pool of threads. */
#if defined(__x86_64__)
#define SEVERAL_UNITS "Intel's CPU runtime"
static bool is_of_several_units(const clq_device_info *info) { return strcmp(info->driver, "intel") == 0; }
#else
#define SEVERAL_UNITS "PoCL's pthread device"
static bool is_of_several_units(const clq_device_info *info) {
    return strcmp(info->driver, "pocl") == 0 && pocl_name_is(info->name, POCL_POOL);
}
#endif

static void run_on_chosen(clq_system *system, const char *spec, void (*body)(rig *r)) {
    clq_devices chosen;
    must(NULL, clq_devices_select(system, spec, &chosen));
    for (uint32_t i = 0; i < chosen.count; i++) run_on(chosen.items[i].index, chosen.items[i].index, body);
}

void rig_each(void (*body)(rig *r)) {
    bool (*const wanted[])(const clq_device_info *) = {is_basic, is_of_several_units};
    const char *const names[] = {"PoCL's basic device", SEVERAL_UNITS};
    const char *spec = getenv("CLQ_TEST_DEVICES");
    clq_system *system = open_system();
    if (spec) {
        run_on_chosen(system, spec, body);
        close_at_exit();
        return;
    }
    if (clq_system_device_count(system) > 0 && is_simulator(clq_system_device_info(system, 0))) {
        run_on(0, 0, body);
        close_all(); /* oclgrind ends in a double free if this is done at exit */
        return;
    }
    for (size_t w = 0; w < CLQ_COUNT_OF(wanted); w++) {
        size_t i = 0, count = clq_system_device_count(system);
        while (i < count && !wanted[w](clq_system_device_info(system, i))) i++;
        if (i == count) fail_msg("%s is missing", names[w]);
        const bool has_second = i + 1 < count && wanted[w](clq_system_device_info(system, i + 1));
        run_on((uint32_t)i, (uint32_t)(i + has_second), body);
    }
    close_at_exit();
}

/* ---- one list ---- */

void rig_begin(rig *r, uint32_t capacity) {
    must(r, clq_list_create(r->device, capacity, &r->list));
    r->params = (clq_step_params){0};
    clq_list_set_family(r->list, r->family);
    clq_list_scope(r->list, "test");
}

static void force(rig *r, const char *key, const char *candidate) {
    clq_selection *selection = &r->forced[r->selections.count];
    if (!candidate) return;
    assert_true(strlen(candidate) < sizeof selection->candidate);
    *selection = (clq_selection){.key = ""};
    memcpy(selection->key, key, strlen(key));
    memcpy(selection->candidate, candidate, strlen(candidate));
    r->selections.count++;
}

void rig_force(rig *r, const rig_variant *variant) {
    r->selections = (clq_selections){.entries = r->forced};
    force(r, "rows*", variant->product);
    force(r, "outer*", variant->product);
    force(r, "conv *", variant->conv);
    force(r, "pooled conv *", variant->conv);
    clq_list_set_selections(r->list, &r->selections);
}

clq_value rig_value(rig *r, const char *name, size_t fixed_bytes, size_t bytes_per_example) {
    clq_value value = clq_list_value(r->list, CLQ_VALUE_EXTERNAL, name, fixed_bytes + GUARD_BYTES, bytes_per_example);
    must(r, clq_list_status(r->list));
    assert_true(value <= RIG_VALUES);
    r->bytes[value] = fixed_bytes + bytes_per_example * clq_list_capacity(r->list);
    return value;
}

void rig_fill(rig *r, clq_value value, const void *data, size_t bytes) {
    size_t whole = clq_buffer_bytes(r->buffers[value]);
    assert_true(bytes <= r->bytes[value]);
    unsigned char *content = rig_alloc(whole, 1);
    memset(content, BLANK, whole);
    if (bytes) memcpy(content, data, bytes);
    must(r, clq_queue_write(r->queue, r->buffers[value], 0, content, whole, true));
    clq_free(content);
}

void rig_bind(rig *r) {
    must(r, clq_list_status(r->list));
    size_t count = clq_list_value_count(r->list);
    assert_true(count <= RIG_VALUES);
    for (clq_value v = 1; v <= count; v++) {
        clq_value_info info;
        clq_list_value_info(r->list, v, &info);
        if (r->bytes[v] == 0) r->bytes[v] = info.bytes;
        must(r, clq_buffer_create(r->device, CLQ_MEMORY_DEVICE, info.bytes, "test", &r->buffers[v]));
        clq_list_place(r->list, v, r->buffers[v], 0);
        rig_fill(r, v, NULL, 0);
    }
    optimize(r, r->family == CLQ_FAMILY_TILE && !r->plain && (has_new_path(r) || r->optimizes_all));
    must(r, clq_list_bind(r->list));
}

void rig_run(rig *r, uint32_t count) {
    r->params.count = count;
    clq_list_set_params(r->list, &r->params);
    must(r, clq_list_run(r->list, r->queue, 0, clq_list_launch_count(r->list)));
    must(r, clq_queue_finish(r->queue));
}

void rig_read(rig *r, clq_value value, void *out, size_t bytes) {
    if (bytes) must(r, clq_queue_read(r->queue, r->buffers[value], 0, out, bytes, true));
}

void rig_store(void *to, size_t index, clq_dtype dtype, double number) {
    const float value = (float)number;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    switch (dtype) {
    case CLQ_U8: ((unsigned char *)to)[index] = (unsigned char)number; break;
    case CLQ_F16: ((uint16_t *)to)[index] = clq_half_of_float(value); break;
    case CLQ_BF16: ((uint16_t *)to)[index] = (uint16_t)(bits >> 16); break; /* exact: tests store numbers of few bits */
    default: ((float *)to)[index] = value; break;
    }
}

void rig_read_stored(rig *r, clq_value value, clq_dtype dtype, float *out, size_t n) {
    uint16_t *halves = rig_alloc(n + 1, sizeof *halves);
    rig_read(r, value, dtype == CLQ_F32 ? (void *)out : halves, n * clq_dtype_bytes(dtype));
    for (size_t i = 0; i < n && dtype != CLQ_F32; i++) {
        const uint32_t bits = (uint32_t)halves[i] << 16;
        if (dtype == CLQ_F16)
            out[i] = clq_half_to_float(halves[i]);
        else
            memcpy(&out[i], &bits, sizeof bits);
    }
    clq_free(halves);
}

void rig_check_untouched(rig *r, clq_value value, size_t from) {
    size_t whole = clq_buffer_bytes(r->buffers[value]);
    unsigned char *content = rig_alloc(whole, 1);
    rig_read(r, value, content, whole);
    for (size_t i = from; i < whole; i++)
        if (content[i] != BLANK)
            fail_msg("%s: byte %zu of value %u (%zu bytes) was written", r->name, i, value, r->bytes[value]);
    clq_free(content);
}

void rig_read_both(rig *r, const rig_result *results, size_t n, uint32_t count, void **got) {
    for (size_t i = 0; i < n; i++) {
        got[i] = rig_alloc(results[i].bytes + 1, 1);
        rig_read(r, results[i].value, got[i], results[i].bytes);
        rig_check_untouched(r, results[i].value, results[i].bytes);
    }
    if (rig_is_simulated(r)) return;
    for (size_t i = 0; i < n; i++) rig_fill(r, results[i].value, NULL, 0);
    rig_run(r, count);
    for (size_t i = 0; i < n; i++) {
        char *second = rig_alloc(results[i].bytes + 1, 1);
        rig_read(r, results[i].value, second, results[i].bytes);
        if (memcmp(got[i], second, results[i].bytes) != 0)
            fail_msg("%s: %s of two runs differs", r->name, results[i].what);
        rig_check_untouched(r, results[i].value, results[i].bytes);
        clq_free(second);
    }
}

void rig_end(rig *r) {
    for (clq_value v = 1; v <= clq_list_value_count(r->list); v++) rig_check_untouched(r, v, r->bytes[v]);
    clq_list_destroy(r->list);
    r->list = NULL;
    for (size_t v = 0; v <= RIG_VALUES; v++) {
        clq_buffer_destroy(r->buffers[v]);
        r->buffers[v] = NULL;
        r->bytes[v] = 0;
    }
}

/* ---- numbers ---- */

void rig_check_close(const rig *r, const char *what, const float *got, const double *want, size_t n, double relative,
                     double absolute) {
    for (size_t i = 0; i < n; i++) {
        double error = fabs((double)got[i] - want[i]);
        if (error <= relative * fabs(want[i]) + absolute || (isnan(want[i]) && isnan(got[i])) ||
            (double)got[i] == want[i])
            continue;
        fail_msg("%s: %s[%zu of %zu] is %.9g, should be %.9g: off by %.3g", r->name, what, i, n, (double)got[i],
                 want[i], error);
    }
}

double rig_uniform(clq_random *random, double low, double high) { return low + (high - low) * clq_random_unit(random); }
size_t rig_below(clq_random *random, size_t bound) { return (size_t)clq_random_below(random, bound); }

void rig_numbers(clq_random *random, size_t n, double low, double high, float **floats, double **doubles) {
    *floats = rig_alloc(n + 1, sizeof(float));
    *doubles = rig_alloc(n + 1, sizeof(double));
    for (size_t i = 0; i < n; i++) {
        (*floats)[i] = (float)rig_uniform(random, low, high);
        (*doubles)[i] = (double)(*floats)[i];
    }
}

static uint16_t bfloat_of(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    uint32_t below = bits & 0xFFFF, upper = bits >> 16;
    return (uint16_t)(upper + (below > 0x8000 || (below == 0x8000 && upper % 2)));
}

void *rig_stored(clq_dtype dtype, float *floats, double *doubles, size_t n) {
    void *stored = rig_alloc(n + 1, sizeof(float));
    for (size_t i = 0; i < n; i++) {
        uint16_t bits = dtype == CLQ_F16 ? clq_half_of_float(floats[i]) : bfloat_of(floats[i]);
        if (dtype == CLQ_F32) {
            ((float *)stored)[i] = floats[i];
            continue;
        }
        ((uint16_t *)stored)[i] = bits;
        floats[i] = dtype == CLQ_F16 ? clq_half_to_float(bits) : clq_bfloat_to_float(bits);
        doubles[i] = (double)floats[i];
    }
    return stored;
}

float *rig_floats(clq_dtype dtype, const void *stored, size_t n) {
    float *floats = rig_alloc(n + 1, sizeof *floats);
    const uint16_t *bits = stored;
    for (size_t i = 0; i < n; i++)
        floats[i] = dtype == CLQ_F32   ? ((const float *)stored)[i]
                    : dtype == CLQ_F16 ? clq_half_to_float(bits[i])
                                       : clq_bfloat_to_float(bits[i]);
    return floats;
}

double rig_half_bit(clq_dtype dtype, double number) {
    if (dtype == CLQ_F16) return ldexp(fabs(number), -11) + ldexp(1, -25);
    return dtype == CLQ_BF16 ? ldexp(fabs(number), -8) : 0;
}

clq_value rig_value_of(rig *r, const char *name, clq_dtype dtype, size_t fixed, size_t per_example) {
    clq_value value = rig_value(r, name, clq_values_bytes(dtype, fixed), clq_values_bytes(dtype, per_example));
    clq_list_set_storage(r->list, value, dtype);
    return value;
}

void rig_sizes(double *numbers, size_t n) {
    for (size_t i = 0; i < n; i++) numbers[i] = fabs(numbers[i]);
}

rig_data rig_make(clq_random *random, clq_dtype dtype, size_t n, double low, double high) {
    rig_data data;
    rig_numbers(random, n, low, high, &data.floats, &data.exact);
    data.stored = rig_stored(dtype, data.floats, data.exact, n);
    return data;
}

void rig_release(rig_data *data) {
    clq_free(data->floats);
    clq_free(data->exact);
    clq_free(data->stored);
}

void rig_check_value(rig *r, const char *what, clq_value value, clq_dtype dtype, const double *want, size_t n,
                     double relative, double absolute) {
    void *bytes = rig_alloc(n + 1, sizeof(float));
    rig_read(r, value, bytes, clq_values_bytes(dtype, n));
    float *got = rig_floats(dtype, bytes, n);
    rig_check_close(r, what, got, want, n, relative + rig_half_bit(dtype, 1.001), absolute);
    rig_check_untouched(r, value, clq_values_bytes(dtype, n));
    clq_free(bytes);
    clq_free(got);
}
