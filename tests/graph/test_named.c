/* Models by name: parameter counts against published counts or formulas, and refused names. */
#include "graph/graph.h"
#include "support/check.h"

#include <stdio.h>
#include <string.h>

static clq_model *built(const char *name) {
    clq_model *model = NULL;
    assert_ok(clq_model_builtin(name, &model));
    return model;
}

static size_t trainable(const clq_model *model) {
    size_t sum = 0;
    for (size_t i = 0; i < clq_model_variable_count(model); i++) {
        clq_variable_info info;
        assert_ok(clq_model_variable(model, i, &info));
        if (info.trainable) sum += info.elements;
    }
    return sum;
}

/* ---- parameters ---- */

#define IMAGENET ":input=224x224x3,classes=1000"
/* The parameters of a transformer block of width w: norms, attention and dense layers. */
#define BLOCK(w) ((w) * (12 * (w) + 13))

static const struct {
    const char *name;
    size_t trainable; /* parameters */
    const char *from;
} published[] = {
    {"lenet5", 61706, "LeNet-5 with dense connections of its second convolution"},
    {"resnet18" IMAGENET, 11689512, "torchvision"},
    {"resnet34" IMAGENET, 21797672, "torchvision"},
    {"resnet50" IMAGENET, 25557032, "torchvision"},
    {"resnet18:input=32x32x3", 11173962, "kuangliu/pytorch-cifar"},
    {"resnet20:input=32x32x3", 269722 + 16 * 32 + 2 * 32 + 32 * 64 + 2 * 64,
     "section 4.2, with two shortcuts of 1 x 1"},
    {"vgg11" IMAGENET, 132868840 - 2752, "torchvision's vgg11_bn, whose convolutions have biases"},
    {"mobilenetv2" IMAGENET, 3504872, "keras.applications"},
    {"efficientnetb0" IMAGENET, 5288548, "keras.applications"},
    {"vit-tiny" IMAGENET, 5717416 - 2 * 192, "timm's vit_tiny_patch16_224, which has a token for the class"},
    {"bert-tiny:context=512,classes=2", 4385920 - 2 * 128 + 2 * 128 + 2,
     "google/bert_uncased_L-2_H-128_A-2, which has segments"},
    {"bilstm:classes=1", 2757761, "keras.io's example"},
    {"gpt", 2 * 256 * 128 + 128 * 128 + 4 * BLOCK(128) + 2 * 128, "the formula"},
    {"gpt:layers=12,width=768,heads=12,context=1024,vocabulary=50257", 124439808 + 50257 * 768,
     "GPT-2, whose last layer has the embedding's weights"},
    {"convmixer:input=32x32x3", 4 * 3 * 256 + 3 * 256 + 8 * (25 * 256 + 256 * 256 + 6 * 256) + 2570, "the formula"},
    {"unet:input=32x32x3,width=8,levels=1,classes=3",
     9 * (3 * 8 + 8 * 8 + 8 * 16 + 16 * 16 + 16 * 8 + 8 * 8) + 4 * 16 * 8 + 8 * 3 + 4 * 8 + 2 * 16 + 8 + 3,
     "the formula"},
    {"autoencoder", 784 * 128 + 128 * 64 + 64 * 32 + 32 * 64 + 64 * 128 + 128 * 784 + 2 * (128 + 64) + 32 + 784,
     "the formula"},
};

static void parameters_are_those_of_the_papers(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(published); i++) {
        clq_model *model = built(published[i].name);
        if (trainable(model) != published[i].trainable)
            fail_msg("%s: %zu parameters, and %zu of %s", published[i].name, trainable(model), published[i].trainable,
                     published[i].from);
        clq_model_destroy(model);
    }
}

/* ---- shapes and classes from the data ---- */

static void expect(const char *name, clq_shape input, size_t classes, clq_shape takes, clq_shape gives) {
    clq_model *model = NULL;
    assert_ok(clq_model_builtin_for(name, input, classes, &model));
    const clq_shape in = clq_model_input_shape(model), out = clq_model_output_shape(model, 0);
    assert_int_equal(in.rank, takes.rank);
    assert_memory_equal(in.dims, takes.dims, takes.rank * sizeof *takes.dims);
    assert_int_equal(out.rank, gives.rank);
    assert_memory_equal(out.dims, gives.dims, gives.rank * sizeof *gives.dims);
    clq_model_destroy(model);
}

static void models_fit_the_data(void **state) {
    (void)state;
    const clq_shape photo = CLQ_SHAPE(40, 36, 3);
    expect("cnn", photo, 7, photo, CLQ_SHAPE(7));
    expect("cnn", CLQ_SHAPE(20, 30), 4, CLQ_SHAPE(20, 30, 1), CLQ_SHAPE(4)); /* grey */
    expect("cnn", CLQ_SHAPE(784), 4, CLQ_SHAPE(28, 28, 1), CLQ_SHAPE(4));    /* no image: the default input */
    expect("cnn:classes=9", photo, 7, photo, CLQ_SHAPE(9));                  /* options in the name win */
    expect("cnn:input=16x16x2", photo, 7, CLQ_SHAPE(16, 16, 2), CLQ_SHAPE(7));
    expect("mlp", CLQ_SHAPE(20), 3, CLQ_SHAPE(20), CLQ_SHAPE(3));
    expect("mlp", (clq_shape){0}, 0, CLQ_SHAPE(28, 28, 1), CLQ_SHAPE(10));
    expect("unet:width=2", photo, 5, photo, CLQ_SHAPE(40, 36, 5));
    expect("autoencoder", CLQ_SHAPE(6, 5), 0, CLQ_SHAPE(6, 5, 1), CLQ_SHAPE(6, 5, 1));
    expect("gpt:width=8,context=16", (clq_shape){0}, 256, CLQ_SHAPE(16), CLQ_SHAPE(16, 256));
    expect("gpt:width=8", CLQ_SHAPE(33), 9, CLQ_SHAPE(33), CLQ_SHAPE(33, 256));
    expect("bilstm:vocabulary=50", CLQ_SHAPE(12), 3, CLQ_SHAPE(12), CLQ_SHAPE(3));
    expect("bilstm:vocabulary=50,context=7", CLQ_SHAPE(12), 3, CLQ_SHAPE(7), CLQ_SHAPE(3));
}

/* ---- bad input ---- */

static void refusals(void **state) {
    (void)state;
    static const struct {
        const char *name, *message;
    } wrong[] = {
        {"resnet", "model 'resnet' is unknown: expected mlp, cnn, cnn1, lenet5"},
        {"", "model '' is unknown"},
        {"mlp:", "mlp: '': expected KEY=VALUE"},
        {"mlp:units", "mlp: 'units': expected KEY=VALUE"},
        {"mlp:units=0", "mlp: units '0': expected a whole number from 1 to 1048576"},
        {"mlp:units=12x", "mlp: units '12x': expected a whole number"},
        {"mlp:width=3", "mlp has no option 'width': its options are units, classes, input"},
        {"gpt:classes=3", "gpt has no option 'classes': its options are layers, width, heads, context, vocabulary"},
        {"autoencoder:classes=3", "autoencoder has no option 'classes': its options are code, input"},
        {"cnn:input=28x28", "cnn: input: expected an image as HEIGHTxWIDTHxCHANNELS"},
        {"cnn:input=28x28x0", "cnn: input '28x28x0': expected 1 to 6 sizes, such as 32x32x3"},
        {"mlp:input=1x1x1x1x1x1x1", "mlp: input '1x1x1x1x1x1x1': expected 1 to 6 sizes"},
        {"cnn:input=4x4x1", "layer 'conv2d_1'"},
        {"gpt:width=10,heads=4", "gpt: a width of 10 cannot be shared by 4 heads"},
        {"vit-tiny:patch=5", "vit-tiny: images of 28 x 28 are no whole patches of 5 x 5"},
        {"unet:levels=3", "unet: images of 28 x 28 cannot be halved 3 times"},
        {"unet:input=9x8x1", "unet: images of 9 x 8 cannot be halved 1 times"},
    };
    for (size_t i = 0; i < CLQ_COUNT_OF(wrong); i++) {
        clq_model *none = NULL;
        assert_fails(CLQ_ERROR_ARGUMENT, wrong[i].message, clq_model_builtin(wrong[i].name, &none));
        assert_null(none);
    }
}

static clq_status take(void *context) {
    clq_model *model = NULL;
    const clq_status status = clq_model_builtin(context, &model);
    if (status != CLQ_OK && model) return CLQ_ERROR_STATE; /* an output was written by a failure */
    clq_model_destroy(model);
    return status;
}

static clq_status be_refused(void *context) {
    const clq_status status = take(context);
    return status == CLQ_ERROR_ARGUMENT ? CLQ_OK : status;
}

static void runs_out_of_memory(void **state) {
    (void)state;
    assert_true(walk_allocations(take, (void *)(uintptr_t) "gpt:layers=1,width=8,heads=2") >= 3);
    assert_true(walk_allocations(take, (void *)(uintptr_t) "bilstm:vocabulary=9,units=2") >= 3);
    assert_true(walk_allocations(be_refused, (void *)(uintptr_t) "none") >= 1);
    assert_true(walk_allocations(be_refused, (void *)(uintptr_t) "mlp:none=1") >= 1);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(parameters_are_those_of_the_papers),
        cmocka_unit_test(models_fit_the_data),
        cmocka_unit_test(refusals),
        cmocka_unit_test(runs_out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
