/* What makes two arrays a dataset. Each function names the file in its message. */
#ifndef CLQ_DATA_CHECKS_H
#define CLQ_DATA_CHECKS_H

#include "data/data.h"

/* Leaves `samples` u8 or finite f32 with at least one sample of at least one value; f64 becomes f32. */
clq_status clq_check_samples(const char *where, clq_array *samples);
/* Leaves `labels` (n, …) int32 or f32, and describes them. */
clq_status clq_check_labels(const char *where, clq_array *labels, clq_labels_info *info);

#endif
