/* clique doctor: known-answer tests of each device: the device layer's own, a matrix product, a training step. */
#include "cli/cli.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CHECKS_MAX = 32 };

/* ---- a matrix product whose exact result is known: small integers, so that no rounding happens ---- */

static clq_status multiply(clq_device *device, clq_queue *queue, size_t m, size_t n, size_t k, float *c) {
    clq_list *list = NULL;
    clq_placement placement = {0};
    clq_buffer *buffers[3] = {0};
    float *host = clq_alloc(CLQ_MAX(m * k, k * n), sizeof *host);
    if (!host) return CLQ_ERROR_MEMORY;
    const size_t counts[3] = {m * k, k * n, m * n};
    clq_value values[3];
    clq_status status;
    CLQ_TRY_OR(end, status, clq_list_create(device, 1, &list));
    for (int i = 0; i < 3; i++) {
        CLQ_TRY_OR(end, status,
                   clq_buffer_create(device, CLQ_MEMORY_DEVICE, counts[i] * sizeof(float), "a matrix", &buffers[i]));
        values[i] = clq_list_value(list, CLQ_VALUE_EXTERNAL, "matrix", counts[i] * sizeof(float), 0);
        clq_list_place(list, values[i], buffers[i], 0);
        for (size_t e = 0; e < counts[i] && i < 2; e++) host[e] = (float)((int)(e * 7 % 5) - 2);
        if (i < 2)
            CLQ_TRY_OR(end, status, clq_queue_write(queue, buffers[i], 0, host, counts[i] * sizeof(float), true));
    }
    clq_gemm(list, &(clq_gemm_problem){.m = m, .n = n, .k = k}, values[0], values[1], values[2]);
    CLQ_TRY_OR(end, status, clq_placement_create(list, &placement));
    CLQ_TRY_OR(end, status, clq_list_bind(list));
    clq_list_set_params(list, &(clq_step_params){.count = 1});
    CLQ_TRY_OR(end, status, clq_list_run(list, queue, 0, clq_list_launch_count(list)));
    status = clq_queue_read(queue, buffers[2], 0, c, counts[2] * sizeof(float), true);
end:
    clq_list_destroy(list);
    clq_placement_release(&placement);
    for (int i = 0; i < 3; i++) clq_buffer_destroy(buffers[i]);
    clq_free(host);
    return status;
}

static clq_status check_product(clq_device *device, clq_queue *queue, clq_check *out) {
    enum { M = 67, N = 45, K = 131 };
    float *c = clq_alloc((size_t)M * N, sizeof *c);
    if (!c) return CLQ_ERROR_MEMORY;
    clq_status status = multiply(device, queue, M, N, K, c);
    for (size_t i = 0; i < M && status == CLQ_OK && out->ok; i++)
        for (size_t j = 0; j < N && out->ok; j++) {
            int want = 0;
            for (size_t k = 0; k < K; k++) want += ((int)((i * K + k) * 7 % 5) - 2) * ((int)((k * N + j) * 7 % 5) - 2);
            if (c[i * N + j] == (float)want) continue;
            out->ok = false;
            clq_format(out->detail, sizeof out->detail, "element (%zu, %zu) is %g and should be %d", i, j,
                       (double)c[i * N + j], want);
        }
    clq_free(c);
    return status;
}

/* ---- a training step: the loss of equal logits is log(classes), and it must fall ---- */

static clq_status train_steps(clq_system *system, clq_device_choice choice, double losses[2]) {
    clq_model *model = NULL;
    clq_dataset *data = NULL;
    clq_trainer *trainer = NULL;
    clq_devices devices = {.system = system, .count = 1, .items = {choice}};
    clq_trainer_config config = clq_trainer_config_default();
    clq_status status;
    CLQ_TRY_OR(end, status, clq_model_builtin("mlp", &model));
    CLQ_TRY_OR(end, status, clq_dataset_open("synthetic", "test", &data));
    CLQ_TRY_OR(end, status, clq_dataset_take(data, 64));
    CLQ_TRY_OR(end, status, clq_dataset_batch(data, 64, false));
    CLQ_TRY_OR(end, status, clq_trainer_create(model, &devices, &config, &trainer));
    static const float zeros[128 * 10]; /* the last kernel: all zero makes all logits equal */
    CLQ_TRY_OR(end, status, clq_trainer_set_variable(trainer, 2, zeros));
    for (int epoch = 0; epoch < 2; epoch++) {
        clq_totals totals;
        CLQ_TRY_OR(end, status, clq_evaluate(trainer, data, &totals));
        losses[epoch] = totals.loss;
        clq_fit_config fit = {.steps = 5};
        CLQ_TRY_OR(end, status, clq_dataset_seek(data, 0, 0));
        CLQ_TRY_OR(end, status, clq_fit(trainer, data, &fit));
    }
end:
    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    return status;
}

static clq_status check_training(clq_system *system, clq_device_choice choice, clq_check *out) {
    double losses[2];
    CLQ_TRY(train_steps(system, choice, losses));
    out->ok = fabs(losses[0] - log(10.0)) < 1e-5 && losses[1] < losses[0];
    if (!out->ok)
        clq_format(out->detail, sizeof out->detail, "loss %.7f at the start (log 10 = %.7f) and %.7f after five steps",
                   losses[0], log(10.0), losses[1]);
    return CLQ_OK;
}

/* ---- all checks of one device ---- */

/* A check that could not be carried out has failed, and says why. */
static void conclude(clq_check *check, clq_status status, double started) {
    if (status != CLQ_OK) {
        check->ok = false;
        snprintf(check->detail, sizeof check->detail, "%s", clq_error_detail());
    }
    check->ms = (clq_now() - started) * 1e3;
}

static clq_status examine(clq_system *system, clq_device_choice choice, clq_check *rows, size_t *count) {
    clq_device *device;
    clq_queue *queue = NULL;
    CLQ_TRY(clq_device_open(system, choice, &device));
    clq_status status = clq_device_checks(device, rows, CHECKS_MAX - 2, count);
    if (status == CLQ_OK) status = clq_queue_create(device, 0, &queue);
    if (status == CLQ_OK) {
        clq_check *product = &rows[(*count)++];
        *product = (clq_check){.name = "gemm", .ok = true};
        double started = clq_now();
        conclude(product, check_product(device, queue, product), started);
    }
    clq_queue_destroy(queue);
    clq_device_close(device);
    if (status != CLQ_OK) return status;
    clq_check *training = &rows[(*count)++];
    *training = (clq_check){.name = "training step", .ok = true};
    double started = clq_now();
    conclude(training, check_training(system, choice, training), started);
    return CLQ_OK;
}

static json_t *describe(const clq_check *rows, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++)
        list = clq_json_append(list, json_pack("{s:s, s:b, s:o, s:f}", "name", rows[i].name, "ok", (int)rows[i].ok,
                                               "detail", clq_json_text(rows[i].detail), "ms", rows[i].ms));
    return list;
}

static void print(FILE *talk, const clq_device_info *device, const clq_check *rows, size_t count) {
    fprintf(talk, "%u: %s (%s)\n", device->index, device->name, device->driver);
    for (size_t i = 0; i < count; i++)
        clq_fprintf(talk, "   %-4s %-24s %8.1f ms  %s\n", rows[i].ok ? "ok" : "FAIL", rows[i].name, rows[i].ms,
                    rows[i].detail);
}

/* Each device once, whatever the number of replicas; without --devices, all of them, usable or not. */
static clq_status choose(clq_system *system, const clq_options *options, clq_devices *out) {
    if (strcmp(options->devices, "auto") != 0) return clq_devices_select(system, options->devices, out);
    *out = (clq_devices){.system = system};
    for (size_t i = 0; i < clq_system_device_count(system) && out->count < CLQ_REPLICAS_MAX; i++)
        out->items[out->count++] = (clq_device_choice){.index = (uint32_t)i, .parts = 1};
    return out->count ? CLQ_OK
                      : clq_fail(CLQ_ERROR_NO_DEVICE,
                                 "no OpenCL device: install a driver (for the CPU: apt install pocl-opencl-icd)");
}

clq_status clq_command_doctor(clq_setup *setup, const clq_options *options) {
    CLQ_TRY(clq_setup_system(setup, options));
    clq_system *system = setup->system;
    clq_devices devices;
    clq_print_unlisted(clq_talk(options), system);
    CLQ_TRY(choose(system, options, &devices));
    json_t *list = json_array();
    unsigned failures = 0;
    for (uint32_t i = 0; i < devices.count; i++) {
        clq_check rows[CHECKS_MAX];
        size_t count = 0;
        clq_status status = examine(system, devices.items[i], rows, &count);
        if (status != CLQ_OK) {
            rows[count] = (clq_check){.name = "opening", .ok = false};
            conclude(&rows[count++], status, clq_now());
        }
        bool ok = true;
        for (size_t c = 0; c < count; c++) ok = ok && rows[c].ok;
        failures += !ok;
        print(clq_talk(options), clq_system_device_info(system, devices.items[i].index), rows, count);
        list = clq_json_append(
            list, json_pack("{s:i, s:o}", "index", (int)devices.items[i].index, "checks", describe(rows, count)));
    }
    if (options->json)
        CLQ_TRY(clq_print_json(json_pack("{s:o, s:b, s:o}", "devices", list, "ok", failures == 0, "unlisted",
                                         clq_describe_unlisted(system))));
    else
        json_decref(list);
    return failures
               ? clq_fail(CLQ_ERROR_DEVICE,
                          "%u of %u devices failed a known-answer test: see above, and leave them out by --devices",
                          failures, devices.count)
               : CLQ_OK;
}
