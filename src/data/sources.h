/* Sources of datasets. folder.c reads folders, synthetic.c makes samples, open.c chooses by name. */
#ifndef CLQ_DATA_SOURCES_H
#define CLQ_DATA_SOURCES_H

#include "data/data.h"

/* "train" or "test"; anything else is ARGUMENT. */
clq_status clq_part_parse(const char *part, bool *test);

/* Whether it is there and can be read. Errors: NOT_FOUND, READ. */
clq_status clq_folder_check(const char *folder);

/* Whether a folder has something of a kind for this part: one file is enough, so that a missing partner
 * is reported. */
bool clq_folder_has_idx(const char *folder, bool test);
bool clq_folder_has_npy(const char *folder, bool test);
bool clq_folder_has_cifar10(const char *folder, bool test);

/* From the first of `count` folders that exists. NOT_FOUND says how to install it. */
clq_status clq_source_fashion_mnist(const char *const *folders, size_t count, const char *part, clq_dataset **out);

/* description: "" or "28x28/10/60000", as far as wanted: shape, classes, training samples. */
clq_status clq_source_synthetic(const char *description, const char *part, clq_dataset **out);

#endif
