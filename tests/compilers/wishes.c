/* Which programs Clique has a GPU's driver build: source and options of each, for the compilers that
 * tests/compilers/check asks. The device is PoCL's, described as another; what the library makes of that description is
 * its own affair: plans of the built-in models and of bench/models, the kernel of the all-reduce and the known-answer
 * tests. Nothing is compiled here: clBuildProgram writes down what it is given and fails.
 *
 * usage: wishes FOLDER MODELS_FOLDER      FOLDER/NNN.cl, and on stdout a line for each: number, device, file, options
 */
#include "comm/reduce/combine.h"
#include "device/device.h"
#include "graph/graph.h"
#include "interop/interop.h"
#include "ops/local/local.h"
#include "ops/product/product_local.h"

#include <CL/cl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define COMMON                                                                                                         \
    "cl_khr_global_int32_base_atomics cl_khr_local_int32_base_atomics cl_khr_fp64 cl_khr_byte_addressable_store "

enum {
    BATCH = 64,
    QUERY_MAX = 3,
    CAPABILITY_MAJOR_NV = 0x4000,
    WAVEFRONT_WIDTH_AMD = 0x4043,
    SUB_GROUP_SIZES_INTEL = 0x4108
};

/* As drivers describe their devices. */
typedef struct portrait {
    const char *label; /* tests/compilers/check knows the compilers for it by this */
    const char *platform, *vendor, *name, *version, *c_version, *extensions;
    cl_uint units;
    size_t group, local_bytes;
    struct {
        cl_device_info what;
        size_t bytes;
        size_t values[4];
    } queries[QUERY_MAX];
} portrait;

static const portrait portraits[] = {
    {"nvidia",
     "NVIDIA CUDA",
     "NVIDIA Corporation",
     "NVIDIA H100",
     "OpenCL 3.0 CUDA",
     "OpenCL C 1.2",
     COMMON "cl_khr_icd cl_nv_compiler_options cl_nv_device_attribute_query cl_nv_pragma_unroll",
     132,
     1024,
     48 << 10,
     {{CAPABILITY_MAJOR_NV, sizeof(cl_uint), {9}}}},
    {"amd-64",
     "AMD Accelerated Parallel Processing",
     "Advanced Micro Devices, Inc.",
     "gfx90a",
     "OpenCL 2.0",
     "OpenCL C 2.0",
     COMMON "cl_khr_fp16 cl_khr_subgroups cl_amd_device_attribute_query cl_amd_media_ops",
     104,
     256,
     64 << 10,
     {{WAVEFRONT_WIDTH_AMD, sizeof(cl_uint), {64}}}},
    {"amd-32",
     "AMD Accelerated Parallel Processing",
     "Advanced Micro Devices, Inc.",
     "gfx1030",
     "OpenCL 2.0",
     "OpenCL C 2.0",
     COMMON "cl_khr_fp16 cl_khr_subgroups cl_amd_device_attribute_query cl_amd_media_ops",
     36,
     256,
     64 << 10,
     {{WAVEFRONT_WIDTH_AMD, sizeof(cl_uint), {32}}}},
    {"intel",
     "Intel(R) OpenCL Graphics",
     "Intel(R) Corporation",
     "Intel(R) Arc(TM) A770 Graphics",
     "OpenCL 3.0 NEO",
     "OpenCL C 1.2",
     COMMON "cl_khr_fp16 cl_khr_subgroups cl_intel_subgroups cl_intel_subgroups_short cl_intel_required_subgroup_size "
            "cl_intel_subgroup_matrix_multiply_accumulate",
     512,
     1024,
     64 << 10,
     {{SUB_GROUP_SIZES_INTEL, 3 * sizeof(size_t), {8, 16, 32}}}},
};

static const portrait *shown;
static const char *folder;
static unsigned recorded;

/* ---- in place of the driver's and the library's own: the linker puts these in (--wrap) ---- */

cl_int __real_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out, size_t *needed);
cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out, size_t *needed);
cl_int __real_clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t bytes, void *out, size_t *needed);
cl_int __wrap_clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t bytes, void *out, size_t *needed);
cl_int __wrap_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                             void (*done)(cl_program, void *), void *context);
clq_status __wrap_clq_device_load_programs(clq_device *device, const clq_program_wish *wishes, size_t count,
                                           size_t *failed);
bool __wrap_clq_local_works(clq_device *device, const char *name, const char *what, const clq_local_trial *trials,
                            size_t count);

static cl_int answer(const void *value, size_t length, size_t bytes, void *out, size_t *needed) {
    if (needed) *needed = length;
    if (out && bytes < length) return CL_INVALID_VALUE;
    if (out) memcpy(out, value, length);
    return CL_SUCCESS;
}

static cl_int answer_text(const char *text, size_t bytes, void *out, size_t *needed) {
    return answer(text, strlen(text) + 1, bytes, out, needed);
}

cl_int __wrap_clGetDeviceInfo(cl_device_id device, cl_device_info what, size_t bytes, void *out, size_t *needed) {
    for (size_t i = 0; i < QUERY_MAX; i++) {
        const size_t *values = shown->queries[i].values;
        cl_uint word = (cl_uint)values[0];
        if (shown->queries[i].what != what || what == 0) continue;
        return answer(shown->queries[i].bytes == sizeof word ? (const void *)&word : values, shown->queries[i].bytes,
                      bytes, out, needed);
    }
    switch (what) {
    case CL_DEVICE_TYPE:
        return answer(&(cl_device_type){CL_DEVICE_TYPE_GPU}, sizeof(cl_device_type), bytes, out, needed);
    case CL_DEVICE_NAME: return answer_text(shown->name, bytes, out, needed);
    case CL_DEVICE_VENDOR: return answer_text(shown->vendor, bytes, out, needed);
    case CL_DEVICE_VERSION: return answer_text(shown->version, bytes, out, needed);
    case CL_DEVICE_OPENCL_C_VERSION: return answer_text(shown->c_version, bytes, out, needed);
    case CL_DEVICE_EXTENSIONS: return answer_text(shown->extensions, bytes, out, needed);
    case CL_DEVICE_MAX_COMPUTE_UNITS: return answer(&shown->units, sizeof shown->units, bytes, out, needed);
    case CL_DEVICE_NATIVE_VECTOR_WIDTH_FLOAT: return answer(&(cl_uint){1}, sizeof(cl_uint), bytes, out, needed);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: return answer(&shown->group, sizeof shown->group, bytes, out, needed);
    case CL_DEVICE_LOCAL_MEM_SIZE: return answer(&(cl_ulong){shown->local_bytes}, sizeof(cl_ulong), bytes, out, needed);
    case CL_DEVICE_HOST_UNIFIED_MEMORY: return answer(&(cl_bool){CL_FALSE}, sizeof(cl_bool), bytes, out, needed);
    default: return __real_clGetDeviceInfo(device, what, bytes, out, needed);
    }
}

cl_int __wrap_clGetPlatformInfo(cl_platform_id id, cl_platform_info what, size_t bytes, void *out, size_t *needed) {
    if (what == CL_PLATFORM_NAME) return answer_text(shown->platform, bytes, out, needed);
    return __real_clGetPlatformInfo(id, what, bytes, out, needed);
}

static void must(bool good, const char *what) {
    if (good) return;
    (void)fprintf(stderr, "wishes: error: %s: %s\n", what, clq_error_detail());
    exit(1);
}

static void record(const char *source, const char *options) {
    char path[1024], file[64] = "";
    const char *named = strstr(source, "\n#line 1 \"");
    must(named && sscanf(named, "\n#line 1 \"%63[^\"]", file) == 1, "a source without the name of its file");
    (void)snprintf(path, sizeof path, "%s/%03u.cl", folder, recorded);
    FILE *out = fopen(path, "w");
    must(out && fputs(source, out) >= 0 && fclose(out) == 0, path);
    printf("%03u\t%s\t%s\t%s\n", recorded++, shown->label, file, options);
}

cl_int __wrap_clBuildProgram(cl_program program, cl_uint count, const cl_device_id *devices, const char *options,
                             void (*done)(cl_program, void *), void *context) {
    (void)count, (void)devices, (void)done, (void)context;
    size_t bytes = 0;
    must(clGetProgramInfo(program, CL_PROGRAM_SOURCE, 0, NULL, &bytes) == CL_SUCCESS, "a program's source");
    char *source = malloc(bytes + 1);
    must(source && clGetProgramInfo(program, CL_PROGRAM_SOURCE, bytes, source, NULL) == CL_SUCCESS,
         "a program's source");
    source[bytes] = '\0';
    record(source, options);
    free(source);
    return CL_BUILD_PROGRAM_FAILURE;
}

/* Each of them, though all fail. */
clq_status __wrap_clq_device_load_programs(clq_device *device, const clq_program_wish *wishes, size_t count,
                                           size_t *failed) {
    clq_status status = CLQ_OK;
    clq_kernel *kernel;
    for (size_t i = 0; i < count; i++) {
        status = clq_kernel_create_among(device, &wishes[i], "", &kernel);
        must(status == CLQ_ERROR_BUILD, wishes[i].file);
    }
    *failed = 0;
    return status;
}

bool __wrap_clq_local_works(clq_device *device, const char *name, const char *what, const clq_local_trial *trials,
                            size_t count) {
    (void)device, (void)name, (void)what, (void)trials, (void)count;
    return true;
}

/* ---- what the library wants ---- */

static void plan(clq_device *device, const clq_model *model, clq_loss_kind kind, const clq_optimizer *update,
                 const clq_update_options *options, clq_matmul_precision precision) {
    const clq_loss_problem loss = {.kind = kind,
                                   .alpha = 0.25f,
                                   .gamma = 2,
                                   .classes = clq_model_output_shape(model, 0).dims[0],
                                   .weight = 1,
                                   .metric_count = 1,
                                   .metrics = {CLQ_METRIC_CATEGORICAL_ACCURACY}};
    const clq_plan_config config = {.capacity = BATCH,
                                    .sample_dtype = CLQ_U8,
                                    .loss = &loss,
                                    .update = update,
                                    .update_options = *options,
                                    .gradient_norms = true,
                                    .metric_slots = 1,
                                    .precision = precision};
    unsigned before = recorded;
    clq_plan *made = NULL;
    must(clq_plan_create_alone(model, device, &config, &made) == CLQ_ERROR_BUILD && recorded >= before,
         clq_model_name(model));
}

static void plans(clq_device *device, const char *models) {
    static const char *const names[] = {"mlp", "cnn", "cnn1", "vgg.json", "lenet5.json", "cnn3x3.json"};
    const clq_optimizer updates[] = {clq_optimizer_default(CLQ_OPTIMIZER_ADAM),
                                     clq_optimizer_default(CLQ_OPTIMIZER_SGD),
                                     {CLQ_OPTIMIZER_SGD, {0.01, 0.9, 1}},
                                     {CLQ_OPTIMIZER_ADAMW, {0.01, 0.9, 0.999, 1e-7, 1, 0.004}},
                                     {CLQ_OPTIMIZER_RMSPROP, {0.01, 0.9, 0.9, 1e-7, 1, 0.004}},
                                     clq_optimizer_default(CLQ_OPTIMIZER_NADAM),
                                     clq_optimizer_default(CLQ_OPTIMIZER_ADADELTA),
                                     clq_optimizer_default(CLQ_OPTIMIZER_LION),
                                     clq_optimizer_default(CLQ_OPTIMIZER_LAMB)};
    const clq_treatment treatments[16] = {{.spared = true}};
    const clq_update_options options[CLQ_COUNT_OF(updates)] = {
        [3] = {.clip = {.kind = CLQ_CLIP_NORM, .limit = 1}, .averages = true, .treatments = treatments},
        [4] = {.clip = {.kind = CLQ_CLIP_GLOBAL_NORM, .limit = 1}},
        [5] = {.clip = {.kind = CLQ_CLIP_VALUE, .limit = 1}},
    };
    const clq_loss_kind losses[CLQ_COUNT_OF(updates)] = {
        CLQ_LOSS_SPARSE_CATEGORICAL, CLQ_LOSS_CATEGORICAL,       CLQ_LOSS_CATEGORICAL_FOCAL, CLQ_LOSS_BINARY_FOCAL,
        CLQ_LOSS_COSINE_SIMILARITY,  CLQ_LOSS_CATEGORICAL_HINGE, CLQ_LOSS_KL_DIVERGENCE,     CLQ_LOSS_LOG_COSH};
    for (size_t i = 0; i < CLQ_COUNT_OF(names); i++) {
        clq_model *model = NULL;
        char path[1024];
        (void)snprintf(path, sizeof path, "%s/%s", models, names[i]);
        must((strchr(names[i], '.') ? clq_model_read_keras_json(path, &model) : clq_model_builtin(names[i], &model)) ==
                 CLQ_OK,
             names[i]);
        for (size_t u = 0; u < (i == 0 ? CLQ_COUNT_OF(updates) : 1); u++)
            plan(device, model, losses[u], &updates[u], &options[u], CLQ_MATMUL_HIGHEST);
        if (clq_device_matrix_unit(device) != CLQ_UNIT_NONE) {
            plan(device, model, losses[0], &updates[0], &options[0], CLQ_MATMUL_HIGH);
            plan(device, model, losses[0], &updates[0], &options[0], CLQ_MATMUL_MEDIUM);
        }
        clq_model_destroy(model);
    }
}

/* Whether the device's own way to multiply is what the block is for, for numbers of that kind. */
static bool is_for(const clq_device *device, const clq_local_block *block, const clq_local_terms *terms) {
    const clq_device_info *info = clq_device_get_info(device);
    const clq_dtype factors = clq_local_factors(terms);
    bool sub_groups_required, plain = factors == CLQ_F32 && terms->precision == CLQ_MATMUL_HIGHEST;
    size_t items = block->group_columns, results = block->rows * block->columns / items / block->group_rows;
    clq_matrix_unit unit = clq_device_matrix_unit(device);
    switch (block->way) {
    case CLQ_LOCAL_ITEMS: return (plain || factors != CLQ_F32) && results <= clq_local_results_most(info);
    case CLQ_LOCAL_SUB_GROUPS:
        return plain && clq_device_has_sub_groups(device, items, &sub_groups_required) &&
               results <= clq_local_sub_group_results(info, items);
    case CLQ_LOCAL_DOTS: return factors == CLQ_F16 && strcmp(info->driver, "amd") == 0;
    case CLQ_LOCAL_MMA: return unit == CLQ_UNIT_MMA;
    case CLQ_LOCAL_DPAS:
        return unit == (items == 8 ? CLQ_UNIT_DPAS8 : CLQ_UNIT_DPAS16) &&
               (factors != CLQ_F32 || terms->precision == CLQ_MATMUL_MEDIUM);
    }
    return false;
}

/* Every block that `clique tune` and `clique bench gemm` can come to, though no plan takes it unmeasured. */
static void products(clq_device *device) {
    enum { SIDE = 1024 };
    static const clq_local_terms kinds[] = {{{CLQ_F32, CLQ_F32, CLQ_F32}, CLQ_MATMUL_HIGHEST},
                                            {{CLQ_F32, CLQ_F32, CLQ_F32}, CLQ_MATMUL_HIGH},
                                            {{CLQ_F32, CLQ_F32, CLQ_F32}, CLQ_MATMUL_MEDIUM},
                                            {{CLQ_F16, CLQ_F16, CLQ_F16}, CLQ_MATMUL_HIGHEST},
                                            {{CLQ_BF16, CLQ_F32, CLQ_BF16}, CLQ_MATMUL_HIGHEST}};
    for (size_t i = 0; i < CLQ_COUNT_OF(kinds) * CLQ_LOCAL_BLOCKS; i++) {
        const clq_local_terms *terms = &kinds[i / CLQ_LOCAL_BLOCKS];
        const clq_local_block *block = clq_local_block_get(i % CLQ_LOCAL_BLOCKS);
        const clq_gemm_problem problem = {.m = SIDE, .n = SIDE, .k = SIDE};
        clq_list *list;
        clq_value values[3];
        if (!clq_local_block_fits(device, block) || !is_for(device, block, terms)) continue;
        must(clq_list_create(device, 1, &list) == CLQ_OK, "a list");
        clq_selection forced = {.key = "rows*"};
        clq_local_block_name(i % CLQ_LOCAL_BLOCKS, forced.candidate);
        clq_list_set_selections(list, &(clq_selections){.entries = &forced, .count = 1});
        clq_list_set_precision(list, terms->precision);
        for (size_t v = 0; v < 3; v++)
            values[v] = clq_list_value(list, CLQ_VALUE_EXTERNAL, "matrix", SIDE * SIDE * sizeof(float), 0);
        for (size_t v = 0; v < 3; v++) clq_list_set_storage(list, values[v], terms->storage[v]);
        clq_gemm(list, &problem, values[0], values[1], values[2]);
        must(clq_list_bind(list) == CLQ_ERROR_BUILD, "a product");
        clq_list_destroy(list);
    }
}

/* What replicas exchange in place of gradients. */
static void compression(clq_list *list) {
    enum { FLOATS = 1 << 16, CHOSEN = FLOATS / 100, RANKS = 2 };
    clq_value gradient = clq_list_value(list, CLQ_VALUE_EXTERNAL, "gradient", FLOATS * sizeof(float), 0);
    clq_value error = clq_list_value(list, CLQ_VALUE_EXTERNAL, "error", FLOATS * sizeof(float), 0);
    clq_value message = clq_list_value(list, CLQ_VALUE_EXTERNAL, "message", FLOATS * sizeof(float), 0);
    clq_compress_halves(list, FLOATS, RANKS, gradient, error, message);
    clq_expand_halves(list, FLOATS, message, gradient);
    clq_choose_largest(list, FLOATS, CHOSEN, gradient, error, message);
    clq_weigh(list, FLOATS, gradient);
    clq_add_pairs(list, FLOATS, CHOSEN, RANKS, message, gradient);
}

/* Losses of class numbers, of rows and of values, each with the metrics that count into bins. */
static void counting(clq_list *list) {
    enum { CLASSES = 10 };
    static const clq_loss_problem losses[] = {
        {.kind = CLQ_LOSS_SPARSE_CATEGORICAL, .metric_count = 1, .metrics = {CLQ_METRIC_CONFUSION}},
        {.kind = CLQ_LOSS_CATEGORICAL,
         .from_logits = true,
         .metric_count = 3,
         .metrics = {CLQ_METRIC_CONFUSION, CLQ_METRIC_AUC, CLQ_METRIC_BINARY_CONFUSION},
         .metric_values = {0, 200, 0.5f}},
        {.kind = CLQ_LOSS_BINARY,
         .from_logits = true,
         .skipped = CLQ_ACTIVATION_SIGMOID,
         .metric_count = 3,
         .metrics = {CLQ_METRIC_AUC, CLQ_METRIC_PR_AUC, CLQ_METRIC_BINARY_CONFUSION},
         .metric_values = {200, 50, 0.5f}},
        {.kind = CLQ_LOSS_SPARSE_CATEGORICAL, .from_logits = true, .weighted = true, .mask_steps = 1},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(losses); i++) {
        clq_loss_problem p = losses[i];
        p.classes = CLASSES;
        p.weight = 1;
        const size_t width = clq_loss_metrics_width(&p) * sizeof(float);
        clq_value x = clq_list_value(list, CLQ_VALUE_EXTERNAL, "x", 0, CLASSES * sizeof(float));
        clq_value targets = clq_list_value(list, CLQ_VALUE_EXTERNAL, "targets", 0, clq_loss_target_bytes(&p));
        clq_value metrics = clq_list_value(list, CLQ_VALUE_EXTERNAL, "metrics", width, 0);
        clq_loss_and_metrics(list, &p,
                             &(clq_loss_values){.x = x,
                                                .targets = targets,
                                                .mask = p.mask_steps ? targets : CLQ_NO_VALUE,
                                                .counting = p.mask_steps ? targets : CLQ_NO_VALUE,
                                                .steps = p.mask_steps ? targets : CLQ_NO_VALUE,
                                                .dx = x,
                                                .metrics = metrics});
    }
}

/* Operations that no plan of these models has: normalisation, means over positions, slices of channels, sums of
 * gradients, metrics that count, and dropout forward and with the sums of a bias's gradient. */
static void operations(clq_device *device) {
    enum {
        CHANNELS = 24,
        POSITIONS = 49,
        ROW = CHANNELS * POSITIONS * sizeof(float),
        ROWS = 4 * CHANNELS * sizeof(float)
    };
    const clq_normalise_problem p = {.positions = POSITIONS, .channels = CHANNELS, .epsilon = 1e-3, .momentum = 0.99};
    clq_element_program dropout = {.output_count = 1};
    clq_list *list;
    must(clq_list_create(device, BATCH, &list) == CLQ_OK, "a list");
    clq_value x = clq_list_value(list, CLQ_VALUE_EXTERNAL, "x", 0, ROW);
    clq_value rows = clq_list_value(list, CLQ_VALUE_EXTERNAL, "rows", ROWS, 0);
    clq_value wide = clq_list_value(list, CLQ_VALUE_EXTERNAL, "wide", 0, 2 * ROW);
    clq_normalise_moments(list, &p, x, 0, 1, rows);
    clq_normalise_statistics(list, &p, rows, 1, rows, rows, rows, rows);
    clq_normalise_moving(list, &p, rows, rows, rows, rows);
    clq_normalise_forward(list, &p, x, rows, rows, x);
    clq_normalise_gradients(list, &p, x, x, rows, rows, rows);
    clq_normalise_corrections(list, &p, rows, rows, rows, rows);
    clq_normalise_backward(list, &p, x, x, rows, rows, x);
    clq_reduce_axis(list, &(clq_repeat_problem){1, POSITIONS, CHANNELS, 1}, x, wide);
    clq_repeat(list, &(clq_repeat_problem){1, POSITIONS, CHANNELS, 1}, wide, x);
    clq_copy_channels(list, POSITIONS, CHANNELS, (clq_slice_of_channels){CHANNELS, 0},
                      (clq_slice_of_channels){2 * CHANNELS, CHANNELS}, x, wide);
    clq_accumulate(list, 4 * CHANNELS, wide, rows);
    clq_block_hashes(list, 1, wide, rows);
    clq_find_not_finite(list, CHANNELS, true, 1, x, rows);
    dropout.sums[0] = clq_element_do(
        &dropout, (clq_instruction){.op = CLQ_ELEMENT_DROPOUT,
                                    .a = clq_element_take(&dropout, (struct clq_element_input){.kind = CLQ_EACH_ELEMENT,
                                                                                               .dtype = CLQ_F32}),
                                    .number = 0.5});
    dropout.outputs[0].from = dropout.sums[0];
    for (dropout.sum_count = 0; dropout.sum_count < 2; dropout.sum_count++)
        clq_elementwise(
            list, "dropout", &dropout,
            &(clq_element_values){
                .elements = CHANNELS * POSITIONS, .channels = CHANNELS, .inputs = {x}, .outputs = {x}, .sums = {rows}});
    compression(list);
    counting(list);
    must(clq_list_bind(list) == CLQ_ERROR_BUILD, "the operations");
    clq_list_destroy(list);
}

/* Programs that several plans want are written down each time: the check takes each once. */
static void show(const portrait *of, const char *models) {
    clq_system *system;
    clq_device *device;
    clq_kernel *kernel;
    shown = of;
    must(clq_system_open(&(clq_system_config){.cache_dir = ""}, &system) == CLQ_OK, "the system");
    must(clq_device_open(system, (clq_device_choice){.index = 0, .parts = 1}, &device) == CLQ_OK, "the device");
    plans(device, models);
    products(device);
    operations(device);
    must(clq_combine_create(device, CLQ_F32, CLQ_REDOP_SUM, &kernel) == CLQ_ERROR_BUILD, "the all-reduce's kernel");
    must(clq_kernel_create(device, "selftest", "", "", &kernel) == CLQ_ERROR_BUILD, "the known-answer tests");
    clq_device_close(device);
    clq_system_close(system);
}

int main(int argc, char **argv) {
    if (argc != 3) {
        (void)fprintf(stderr, "usage: wishes FOLDER MODELS_FOLDER\n");
        return 2;
    }
    folder = argv[1];
    for (size_t i = 0; i < CLQ_COUNT_OF(portraits); i++) show(&portraits[i], argv[2]);
    return 0;
}
