/* Domain-adversarial training (Ganin and Lempitsky, 2015): the classes are known only for one domain's samples. A
 * second output tells the domains apart. Its gradient reaches the features with the sign reversed, so that the features
 * become alike in both domains.
 *
 *     cc layer_gradient_reversal.c -o layer_gradient_reversal $(pkg-config --cflags --libs clique)
 *     ./layer_gradient_reversal [DEVICES [EPOCHS [FACTOR]]]        FACTOR below 0: reversal; 0: no effect */
#include <clique/clique.h>

#include <stdlib.h>

enum { SAMPLES = 2048, FEATURES = 8 };
static float samples[SAMPLES][2], classes[SAMPLES][2], domains[SAMPLES][2];
static int truth[SAMPLES];

/* The sum of four uniform random numbers: about a normal distribution with mean 0 and deviation 0.3. */
static float noise(void) {
    float sum = 0;
    for (int i = 0; i < 4; i++) sum += (float)rand() / (float)RAND_MAX - 0.5f;
    return sum * 0.52f;
}

/* In both domains, the sign of a sample's first number is its class; the sign of its second number is its domain.
 * Samples of the second domain have no class labels: their targets are zeros, whose cross-entropy is 0. */
static clq_status make_samples(clq_dataset **out) {
    srand(7);
    for (int i = 0; i < SAMPLES; i++) {
        const int domain = i % 2, class_of = i / 2 % 2;
        truth[i] = class_of;
        samples[i][0] = (class_of ? 1.0f : -1.0f) + noise();
        samples[i][1] = (domain ? 1.0f : -1.0f) + noise();
        domains[i][domain] = 1;
        if (domain == 0) classes[i][class_of] = 1;
    }
    clq_status status = clq_dataset_arrays(samples, CLQ_F32, SAMPLES, 1, (size_t[]){2}, classes, CLQ_F32, 2, out);
    return status == CLQ_OK ? clq_dataset_add_labels(*out, domains, CLQ_F32, 2) : status;
}

static clq_status network(clq_model *model, double factor) {
    const clq_dense_config hidden = {.units = FEATURES, .activation = CLQ_ACTIVATION_TANH};
    clq_tensor x = clq_dense(model, clq_input(model, CLQ_SHAPE(2)), &hidden);
    clq_tensor y =
        clq_dense(model, x, &(clq_dense_config){.units = 2, .activation = CLQ_ACTIVATION_SOFTMAX, .name = "class"});
    clq_tensor z = clq_dense(model, clq_gradient_scale(model, x, factor, "reversal"), &hidden);
    z = clq_dense(model, z, &(clq_dense_config){.units = 2, .activation = CLQ_ACTIVATION_SOFTMAX, .name = "domain"});
    return clq_model_finish_outputs(model, CLQ_TENSORS(y, z));
}

int main(int argc, char **argv) {
    const char *spec = argc > 1 ? argv[1] : "auto";
    unsigned long long epochs = argc > 2 ? strtoull(argv[2], NULL, 10) : 50;
    const double factor = argc > 3 ? strtod(argv[3], NULL) : -0.5;

    clq_system *system;
    clq_devices devices;
    CLQ_CHECK(clq_system_open(NULL, &system));
    CLQ_CHECK(clq_devices_select(system, spec, &devices));

    clq_model *model;
    CLQ_CHECK(clq_model_create("domains", &model));
    CLQ_CHECK(network(model, factor));

    clq_dataset *data;
    CLQ_CHECK(make_samples(&data));
    CLQ_CHECK(clq_dataset_batch(data, 64, false));

    clq_output_config outputs[] = {clq_output_config_default("class"), clq_output_config_default("domain")};
    for (int i = 0; i < 2; i++) outputs[i].loss = clq_loss_default(CLQ_LOSS_CATEGORICAL);
    clq_trainer_config config = clq_trainer_config_default(); /* Adam, batch 64 */
    config.sample_dtype = CLQ_F32;
    config.outputs = outputs;
    config.output_count = 2;
    CLQ_CHECK(clq_optimizer_set(&config.optimizer, "lr", 0.01));

    clq_trainer *trainer;
    CLQ_CHECK(clq_trainer_create(model, &devices, &config, &trainer));
    CLQ_CHECK(clq_fit(trainer, data, &(clq_fit_config){.epochs = epochs}));

    static float class_of[SAMPLES][2], domain_of[SAMPLES][2];
    int right = 0, told_apart = 0;
    CLQ_CHECK(clq_predict_outputs(trainer, data, (float *const[]){&class_of[0][0], &domain_of[0][0]}));
    for (int i = 0; i < SAMPLES; i++) {
        told_apart += (domain_of[i][1] > domain_of[i][0]) == i % 2;
        if (i % 2) right += (class_of[i][1] > class_of[i][0]) == truth[i];
    }
    printf("of the domain without labels %.3f are classified right; %.3f of all are told apart by domain\n",
           (double)right / (SAMPLES / 2), (double)told_apart / SAMPLES);

    clq_trainer_destroy(trainer);
    clq_dataset_destroy(data);
    clq_model_destroy(model);
    clq_system_close(system);
    return 0;
}
