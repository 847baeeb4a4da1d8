/* Datasets by name. */
#include "data/dataset.h"
#include "data/sources.h"

#include <stdio.h>
#include <string.h>

/* Where packages put Fashion-MNIST. */
static const char *const fashion_mnist_folders[] = {
    "/usr/share/datasets/fashion-mnist",
    "/usr/local/share/datasets/fashion-mnist",
};

clq_status clq_source_fashion_mnist(const char *const *folders, size_t count, const char *part, clq_dataset **out) {
    clq_dataset *dataset;
    for (size_t i = 0; i < count; i++)
        if (clq_folder_check(folders[i]) == CLQ_OK) {
            CLQ_TRY(clq_dataset_idx(folders[i], part, &dataset));
            snprintf(dataset->info.name, sizeof dataset->info.name, "fashion-mnist (%s)", part);
            *out = dataset;
            return CLQ_OK;
        }
    return clq_fail(CLQ_NOT_FOUND, "fashion-mnist is not installed: apt install dataset-fashion-mnist, "
                                   "or give the folder of its four IDX files");
}

static clq_status open_folder(const char *folder, const char *part, clq_dataset **out) {
    bool test = false;
    CLQ_TRY(clq_part_parse(part, &test));
    CLQ_TRY(clq_folder_check(folder));
    if (clq_folder_has_idx(folder, test)) return clq_dataset_idx(folder, part, out);
    if (clq_folder_has_npy(folder, test)) return clq_dataset_npy(folder, part, out);
    if (clq_folder_has_cifar10(folder, test)) return clq_dataset_cifar10(folder, part, out);
    return clq_fail(CLQ_NOT_FOUND, "%s has no %s set: expected %s, %s or %s", folder, part,
                    test ? "t10k-images-idx*-ubyte[.gz]" : "train-images-idx*-ubyte[.gz]",
                    test ? "x_test.npy" : "x_train.npy", test ? "test_batch.bin" : "data_batch_1.bin");
}

clq_status clq_dataset_open(const char *name_or_folder, const char *part, clq_dataset **out) {
    const char *name = name_or_folder, synthetic[] = "synthetic";
    size_t prefix = sizeof synthetic - 1;
    if (strcmp(name, "fashion-mnist") == 0)
        return clq_source_fashion_mnist(fashion_mnist_folders, CLQ_COUNT_OF(fashion_mnist_folders), part, out);
    if (strncmp(name, synthetic, prefix) == 0 && (name[prefix] == '\0' || name[prefix] == ':'))
        return clq_source_synthetic(name[prefix] ? name + prefix + 1 : "", part, out);
    return open_folder(name, part, out);
}
