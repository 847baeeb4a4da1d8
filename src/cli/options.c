/* The options that commands share, and the frame of a command that has them. */
#include "cli/cli.h"

#include <stdio.h>
#include <string.h>

/* An option's key tells its field of clq_options, and its kind what is written there: TEXT a const char *, GIVEN a
 * bool, NUMBER a uint64_t from min to max, SECONDS a double, NAMED is added to a clq_named_texts. */
typedef enum kind { TEXT, GIVEN, NUMBER, SECONDS, NAMED } kind;
enum { FIRST_KEY = 256 };
#define KEY(field) (FIRST_KEY + (int)offsetof(clq_options, field))
/* Of train, and not of why, which takes what else train takes. */
#define TRAIN_ALONE "train alone"

static const struct {
    struct argp_option option;
    const char *commands; /* that take it; looked for as a part of this text: no name of one may be within another's */
    struct {
        kind kind;
        uint64_t min, max;
    } value;
} known[] = {
    {{"model", KEY(model), "NAME|FILE", 0, "mlp, cnn, cnn1, or a Keras model's to_json() file (default cnn)", 0},
     "train eval predict plan tune",
     {TEXT, 0, 0}},
    {{"weights", KEY(weights), "FILE", 0, "safetensors, as --save writes them", 0}, "eval predict", {TEXT, 0, 0}},
    {{"data", KEY(data), "NAME|DIR", 0,
      "fashion-mnist, synthetic, or a folder of IDX, .npy or CIFAR-10 files (default fashion-mnist)", 0},
     "train eval predict tune",
     {TEXT, 0, 0}},
    {{"devices", KEY(devices), "SPEC", 0,
      "indices, types or driver tags, e.g. 0,2 gpu pocl:1 gpu*2 cpu/2; auto: what why, tune or --tune chose, else GPUs "
      "or the fastest CPU device (default auto)",
      0},
     "doctor train eval predict plan tune",
     {TEXT, 0, 0}},
    {{"memory-limit", KEY(memory_limit), "BYTES", 0,
      "the most memory to allocate on each replica's device (default: what the device reports)", 0},
     "train eval predict plan tune",
     {NUMBER, 1, UINT64_MAX}},
    {{"batch", KEY(batch), "N", 0, "global batch (default 64)", 0},
     "train eval predict plan tune",
     {NUMBER, 1, 1u << 24}},
    {{"batch-per-replica", KEY(batch_per_replica), "N", 0, "instead of --batch: samples per replica", 0},
     "train",
     {NUMBER, 1, 1u << 24}},
    {{"accumulate", KEY(accumulate), "K", 0,
      "batches that make one update, by the mean over all their samples (default 1)", 0},
     "train",
     {NUMBER, 1, CLQ_ACCUMULATE_MAX}},
    {{"epochs", KEY(epochs), "N", 0, "times through the data (default 3)", 0}, "train", {NUMBER, 1, 1000000000}},
    {{"steps", KEY(steps), "N", 0, "updates, instead of epochs", 0}, "train", {NUMBER, 1, 1000000000000}},
    {{"shuffle", KEY(shuffle), "N|off", 0, "shuffle buffer (default the whole set)", 0}, "train", {TEXT, 0, 0}},
    {{"seed", KEY(seed), "N", 0, "of initial weights and shuffling (default 0)", 0}, "train", {NUMBER, 0, UINT64_MAX}},
    {{"drop-remainder", KEY(drop_remainder), 0, 0, "leave out an epoch's last, smaller batch", 0},
     "train",
     {GIVEN, 0, 0}},
    {{"no-test", KEY(no_test), 0, 0, "no test set", 0}, "train", {GIVEN, 0, 0}},
    {{"take", KEY(take), "N", 0, "only the first N samples", 0}, "train eval predict tune", {NUMBER, 1, UINT64_MAX}},
    {{"optimizer", KEY(optimizer), "NAME[:…]", 0,
      "of Keras, with Keras's defaults: adam, sgd, …, e.g. sgd:lr=0.01,momentum=0.9,nesterov=1 (default adam)", 0},
     "train plan tune",
     {TEXT, 0, 0}},
    {{"optimizer-of", KEY(optimizers), "NAMES=NAME[:…]", 0,
      "another optimizer for these layers or variables, e.g. 'dense*,*/bias=sgd:lr=0.1'; up to three times, the first "
      "that names a variable has it",
      0},
     "train plan tune",
     {NAMED, 0, 0}},
    {{"clip", KEY(clip), "KIND=X", 0,
      "of the gradient before the update: value=X each element, norm=X each variable, global_norm=X all together "
      "(default off)",
      0},
     "train plan tune",
     {TEXT, 0, 0}},
    {{"no-decay", KEY(no_decay), "NAME,…", 0,
      "variables with one of these in their names do not decay, e.g. bias,gamma,beta (default: all decay)", 0},
     "train plan tune",
     {TEXT, 0, 0}},
    {{"ema", KEY(ema), "M", 0,
      "keep a moving average of the weights, with this momentum, which the weights become at the end, e.g. 0.99", 0},
     "train plan tune",
     {TEXT, 0, 0}},
    {{"schedule", KEY(schedule), "NAME[:…]", 0,
      "of the learning rate, as Keras's: constant, exponential, inverse_time, polynomial, cosine, cosine_restarts or "
      "piecewise, e.g. cosine:decay_steps=1000,warmup=100 or piecewise:boundaries=100/200,values=1/0.5/0.1 (default "
      "constant)",
      0},
     "train",
     {TEXT, 0, 0}},
    {{"loss", KEY(losses), "[OUTPUT=]NAME[:…]", 0,
      "sparse_categorical_crossentropy, categorical_crossentropy, binary_crossentropy (with from_logits=1, "
      "label_smoothing=0.1), mse, mae, huber, log_cosh, poisson, kl_divergence, binary_focal_crossentropy, … (default "
      "sparse_categorical_crossentropy); of a model of several outputs, once for each",
      0},
     "train eval plan tune",
     {NAMED, 0, 0}},
    {{"loss-weight", KEY(loss_weights), "OUTPUT=W", 0,
      "the loss of the model is the sum of each output's loss times W (default 1)", 0},
     "train eval",
     {NAMED, 0, 0}},
    {{"class-weights", KEY(class_weights), "CLASS=W,…", 0,
      "how often the loss of a sample of each class counts, as 0=1,1=2.5 (default 1 for all)", 0},
     "train",
     {TEXT, 0, 0}},
    {{"sample-weights", KEY(sample_weights), "FILE.npy", 0,
      "how often the loss of each training sample counts: as many numbers as the set has samples", 0},
     "train",
     {TEXT, 0, 0}},
    {{"metrics", KEY(metrics), "[OUTPUT=]NAME,…", 0,
      "what is measured beside the loss: accuracy, mae, mse, precision, recall, …, or none (default accuracy for "
      "losses of classes, else none)",
      0},
     "train eval",
     {NAMED, 0, 0}},
    {{"strategy", KEY(strategy), "NAME[:…]", 0,
      "auto, single, mirrored, central, ps, tensor, or pipeline, e.g. pipeline:stages=2 (default auto)", 0},
     "train eval predict plan tune",
     {TEXT, 0, 0}},
    {{"micro-batches", KEY(micro_batches), "M", 0,
      "of pipeline: micro-batches that a batch is cut into (default four for each stage, of at least 4 samples)", 0},
     "train eval predict plan tune",
     {NUMBER, 1, 1u << 24}},
    {{"staleness", KEY(staleness), "N", 0,
      "of ps: at most N other updates are made between a replica's read of the parameters and the update by its "
      "gradient; 0: synchronous (default 4)",
      0},
     "train",
     {TEXT, 0, 0}},
    {{"backup", KEY(backup), "K", 0,
      "of ps with --staleness 0: an update does not wait for the K slowest replicas (default 0)", 0},
     "train",
     {NUMBER, 0, CLQ_REPLICAS_MAX}},
    {{"shares", KEY(shares), "equal|auto|W,W,…", 0,
      "how a batch is split over the replicas: evenly, by measured speed, or in these proportions (default equal)", 0},
     "train plan",
     {TEXT, 0, 0}},
    {{"shard-optimizer", KEY(shard_optimizer), 0, 0,
      "each of n replicas keeps the optimizer's state of one n-th of the parameters, and updates these (ZeRO stage 1)",
      0},
     "train plan",
     {GIVEN, 0, 0}},
    {{"cross-device-ops", KEY(cross_device_ops), "NAME", 0,
      "algorithm of the all-reduce: auto, ring, direct, reduce-to-one, doubling or hierarchical (default auto)", 0},
     "train",
     {TEXT, 0, 0}},
    {{"compress", KEY(compress), "off|f16|topk=R", 0,
      "what replicas exchange of the gradient: all of it, in 16 bits, or the fraction R of its elements with the "
      "largest "
      "absolute values (default off)",
      0},
     "train",
     {TEXT, 0, 0}},
    {{"local-steps", KEY(local_steps), "K", 0,
      "local SGD: each replica makes K updates by its own gradients, then weights are averaged", 0},
     "train",
     {NUMBER, 1, UINT64_MAX}},
    {{"bucket-bytes", KEY(bucket_bytes), "N", 0,
      "exchange the gradient in buckets of at least N bytes while backward goes on (default: where it is profitable)",
      0},
     "train",
     {NUMBER, 1, SIZE_MAX}},
    {{"deadline", KEY(deadline), "SECONDS", 0,
      "how long replicas wait for the slowest one in an exchange before the training fails (default 600)", 0},
     "train",
     {SECONDS, 0, 0}},
    {{"init", KEY(init), "FILE", 0, "initial weights (safetensors)", 0}, "train", {TEXT, 0, 0}},
    {{"save", KEY(save), "FILE", 0, "final weights (safetensors)", 0}, "train", {TEXT, 0, 0}},
    {{"checkpoint", KEY(checkpoint), "DIR", 0,
      "checkpoints of the training: at its end, where it is interrupted, and as --checkpoint-every says", 0},
     TRAIN_ALONE,
     {TEXT, 0, 0}},
    {{"checkpoint-every", KEY(checkpoint_every), "N", 0, "updates between two checkpoints (default: none between)", 0},
     TRAIN_ALONE,
     {NUMBER, 1, 1000000000000}},
    {{"keep", KEY(keep), "K", 0, "the newest K checkpoints stay (default 3)", 0}, TRAIN_ALONE, {NUMBER, 1, 1000000}},
    {{"resume", KEY(resume), 0, 0, "go on from the newest whole checkpoint of --checkpoint DIR, if it has one", 0},
     TRAIN_ALONE,
     {GIVEN, 0, 0}},
    {{"check-replicas", KEY(check_replicas), "N", 0,
      "each N updates, compare hashes of the weights that replicas have alike (default: never)", 0},
     "train",
     {NUMBER, 1, 1000000000000}},
    {{"check-numerics", KEY(check_numerics), 0, 0,
      "end with the step, layer and value of the first number that is not finite; slow", 0},
     "train",
     {GIVEN, 0, 0}},
    {{"early-stopping", KEY(early_stopping), "KEY=VALUE,…", 0,
      "end behind epochs without an improvement: monitor=val_loss, patience=0, min_delta=0, mode=auto, baseline=X, "
      "start_from_epoch=0, restore_best=0",
      0},
     TRAIN_ALONE,
     {TEXT, 0, 0}},
    {{"reduce-lr", KEY(reduce_lr), "KEY=VALUE,…", 0,
      "lower the learning rate on a plateau: monitor=val_loss, factor=0.1, patience=10, min_delta=0.0001, mode=auto, "
      "cooldown=0, min_lr=0",
      0},
     TRAIN_ALONE,
     {TEXT, 0, 0}},
    {{"save-best", KEY(save_best), "FILE", 0, "weights (safetensors) of each epoch that is the best so far", 0},
     TRAIN_ALONE,
     {TEXT, 0, 0}},
    {{"monitor", KEY(monitor), "NAME", 0, "what --save-best goes by (default val_loss)", 0}, TRAIN_ALONE, {TEXT, 0, 0}},
    {{"csv", KEY(csv), "FILE", 0, "a line per epoch: loss, metrics, learning rate", 0}, TRAIN_ALONE, {TEXT, 0, 0}},
    {{"log", KEY(log), "FILE", 0, "a line of JSON per update", 0}, "train", {TEXT, 0, 0}},
    {{"trace", KEY(trace), "FILE", 0, "explain this file, which train --trace wrote: where each queue waited", 0},
     "why",
     {TEXT, 0, 0}},
    {{"trace", KEY(trace), "FILE", 0,
      "when each kernel, upload and exchange of the first 200 steps ran, for ui.perfetto.dev (JSON)", 0},
     "train",
     {TEXT, 0, 0}},
    {{"matmul-precision", KEY(matmul_precision), "highest|high|medium", 0,
      "products of float32, on GPUs with units for fewer bits: exact, by TF32, or by bfloat16 (default highest)", 0},
     "train tune",
     {TEXT, 0, 0}},
    {{"precision", KEY(precision), "f32|mixed|mixed-bf16", 0,
      "store activations and their gradients in 32 bits, as float16 with a scaled loss, or as bfloat16 (default f32)",
      0},
     "train plan tune eval predict",
     {TEXT, 0, 0}},
    {{"loss-scale", KEY(loss_scale), "S", 0, "with --precision mixed: the loss scale to begin with (default 32768)", 0},
     "train",
     {TEXT, 0, 0}},
    {{"recompute", KEY(recompute), "off|auto|all", 0,
      "activations that are computed again in backward, in place of being kept: none, as little as fits the memory "
      "limit, or as much as saves memory (default off)",
      0},
     "train plan tune",
     {TEXT, 0, 0}},
    {{"measure", KEY(measure), 0, 0, "also measure how long a step of each plan with recomputation takes", 0},
     "plan",
     {GIVEN, 0, 0}},
    {{"tune", KEY(tune), "off|quick|full", 0,
      "measure which kernels are the fastest before the first step: what is not known yet, for at most 2 s, or "
      "everything (default off)",
      0},
     "train",
     {TEXT, 0, 0}},
    {{"budget", KEY(budget), "SECONDS", 0, "for each kind of device (default: until all is measured)", 0},
     "tune",
     {SECONDS, 0, 0}},
    {{"progress", KEY(progress), "auto|off", 0, "the line that is redrawn on a terminal", 0}, "train", {TEXT, 0, 0}},
    {{"out", KEY(out), "FILE.npy", 0, "where the outputs go", 0}, "predict", {TEXT, 0, 0}},
    {{"graph", KEY(graph), 0, 0, "also the operations of the step, after each pass over them", 0},
     "plan",
     {GIVEN, 0, 0}},
    {{"json", KEY(json), 0, 0, "one JSON document on stdout; all else on stderr", 0},
     "devices doctor train eval plan tune",
     {GIVEN, 0, 0}},
};

/* why takes what train takes, where it has no row of its own. */
static bool takes(const char *command, size_t row) {
    if (strcmp(command, "why") != 0 || strstr(known[row].commands, command))
        return strstr(known[row].commands, command) != NULL;
    for (size_t i = 0; i < CLQ_COUNT_OF(known); i++)
        if (known[i].option.key == known[row].option.key && strstr(known[i].commands, command)) return false;
    return strstr(known[row].commands, "train") && strcmp(known[row].commands, TRAIN_ALONE) != 0;
}

static clq_status set_number(const struct argp_option *option, const char *text, uint64_t min, uint64_t max,
                             uint64_t *out) {
    if (clq_parse_u64(text, min, max, out)) return CLQ_OK;
    if (max == UINT64_MAX)
        return clq_fail(CLQ_ARGUMENT, "--%s '%s': expected a whole number of at least %llu", option->name, text,
                        (unsigned long long)min);
    return clq_fail(CLQ_ARGUMENT, "--%s '%s': expected a whole number from %llu to %llu", option->name, text,
                    (unsigned long long)min, (unsigned long long)max);
}

static clq_status set_option(void *context, const struct argp_option *option, const char *text) {
    char *field = (char *)context + (option->key - FIRST_KEY);
    size_t row = 0;
    while (known[row].option.key != option->key) row++;
    switch (known[row].value.kind) {
    case NAMED: return clq_named_texts_add((clq_named_texts *)(void *)field, option->name, text);
    case NUMBER: return set_number(option, text, known[row].value.min, known[row].value.max, (uint64_t *)(void *)field);
    case SECONDS: return clq_argument_seconds(option, text, (double *)(void *)field);
    case TEXT: *(const char **)(void *)field = text; return CLQ_OK;
    case GIVEN: *(bool *)field = true; return CLQ_OK;
    }
    return CLQ_OK;
}

clq_status clq_command_run(const char *about, int argc, char **argv,
                           clq_status (*body)(clq_setup *, const clq_options *)) {
    clq_options options = {.model = "cnn",
                           .data = "fashion-mnist",
                           .devices = "auto",
                           .accumulate = 1,
                           .optimizer = "adam",
                           .clip = "off",
                           .schedule = "constant",
                           .shares = "equal",
                           .strategy = "auto",
                           .cross_device_ops = "auto",
                           .compress = "off",
                           .progress = "auto",
                           .tune = "off",
                           .precision = "f32",
                           .matmul_precision = "highest",
                           .recompute = "off"};
    struct argp_option table[CLQ_COUNT_OF(known) + 1] = {{0}};
    for (size_t i = 0, taken = 0; i < CLQ_COUNT_OF(known); i++)
        if (takes(argv[0], i)) table[taken++] = known[i].option;
    char program[64];
    snprintf(program, sizeof program, "clique %s", argv[0]);
    CLQ_TRY(clq_arguments_parse(program, about, table, argc, argv, set_option, &options));
    clq_setup setup = {0};
    clq_status status = body(&setup, &options);
    clq_setup_release(&setup);
    return status;
}
