"""Structs and enumerations of the library's headers, as this package reads and writes them.

tests/test_layouts.py compares every struct and member here with those of a C compiler that reads the headers, and every
enumeration with the headers'. So no difference from the headers can go unnoticed.
"""

from __future__ import annotations

import ctypes as c
import enum

size_t = c.c_size_t
SHAPE_MAX = 6
OUTPUTS_MAX = 8
REPLICAS_MAX = 64
NAME_MAX = 192
REASON_MAX = 512
METRIC_VALUES_MAX = 32
HYPERPARAMETERS_MAX = 12
MONITOR_NAME_MAX = 160
STATE_MAX = 1024


class Dtype(enum.IntEnum):
    """clq_dtype."""

    F32 = 0
    F64 = 1
    F16 = 2
    BF16 = 3
    I8 = 4
    I16 = 5
    I32 = 6
    I64 = 7
    U8 = 8
    U16 = 9
    U32 = 10
    U64 = 11
    BOOL = 12


class Redop(enum.IntEnum):
    """clq_redop."""

    SUM = 0
    PROD = 1
    MIN = 2
    MAX = 3
    AVG = 4


class Algorithm(enum.IntEnum):
    """clq_algorithm."""

    AUTO = 0
    RING = 1
    DIRECT = 2
    REDUCE_TO_ONE = 3
    DOUBLING = 4
    HIERARCHICAL = 5
    TORUS = 6


class Transport(enum.IntEnum):
    """clq_transport."""

    AUTO = 0
    STAGED = 1
    PEER = 2
    MAPPED = 3


class clq_shape(c.Structure):
    _fields_ = [("rank", c.c_uint), ("dims", size_t * SHAPE_MAX)]


class clq_device_info(c.Structure):
    _fields_ = [
        ("index", c.c_uint32),
        ("driver", c.c_char * 16),
        ("name", c.c_char * NAME_MAX),
        ("vendor", c.c_char * NAME_MAX),
        ("platform", c.c_char * NAME_MAX),
        ("driver_version", c.c_char * NAME_MAX),
        ("opencl_version", c.c_char * NAME_MAX),
        ("type", c.c_int),
        ("compute_units", c.c_uint32),
        ("vector_width", c.c_uint32),
        ("global_mem_bytes", c.c_uint64),
        ("max_alloc_bytes", c.c_uint64),
        ("local_mem_bytes", c.c_uint64),
        ("max_work_group", size_t),
        ("host_unified", c.c_bool),
        ("fine_grain_svm", c.c_bool),
        ("fp64", c.c_bool),
        ("pci", c.c_char * 16),
        ("usable", c.c_bool),
        ("reason", c.c_char * REASON_MAX),
        ("reserved", c.c_uint64 * 8),
    ]


class clq_system_config(c.Structure):
    _fields_ = [
        ("cache_dir", c.c_char_p),
        ("memory_limit_bytes", c.c_uint64),
        ("build_deadline_s", c.c_double),
        ("reserved", c.c_double * 4),
    ]


class clq_device_choice(c.Structure):
    _fields_ = [("index", c.c_uint32), ("part", c.c_uint32), ("parts", c.c_uint32)]


class clq_devices(c.Structure):
    _fields_ = [
        ("system", c.c_void_p),
        ("count", c.c_uint32),
        ("items", clq_device_choice * REPLICAS_MAX),
        ("reserved", c.c_uint64 * 4),
    ]


class clq_keras_sizes(c.Structure):
    _fields_ = [
        ("open", size_t),
        ("shapes", c.POINTER(clq_shape)),
        ("count", size_t),
        ("reserved", c.c_double * 2),
    ]


class clq_variable_info(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("shape", clq_shape),
        ("elements", size_t),
        ("fan_in", size_t),
        ("fan_out", size_t),
        ("is_bias", c.c_bool),
        ("trainable", c.c_bool),
        ("reserved", c.c_double * 4),
    ]


class clq_labels_info(c.Structure):
    _fields_ = [
        ("is_float", c.c_bool),
        ("elements", size_t),
        ("classes", size_t),
        ("least", c.c_double),
        ("least_at", size_t),
    ]


class clq_dataset_info(c.Structure):
    _fields_ = [
        ("samples", size_t),
        ("rank", c.c_uint),
        ("shape", size_t * SHAPE_MAX),
        ("sample_elements", size_t),
        ("sample_dtype", c.c_int),
        ("float_labels", c.c_bool),
        ("label_elements", size_t),
        ("classes", size_t),
        ("name", c.c_char * 64),
        ("label_least", c.c_double),
        ("label_least_at", size_t),
        ("labels_count", size_t),
        ("labels", clq_labels_info * OUTPUTS_MAX),
        ("weighted", c.c_bool),
        ("labels_are_samples", c.c_bool),
    ]


class clq_metric_values(c.Structure):
    _fields_ = [
        ("count", c.c_uint),
        ("names", c.c_char_p * METRIC_VALUES_MAX),
        ("values", c.c_double * METRIC_VALUES_MAX),
    ]


class clq_totals(c.Structure):
    _fields_ = [
        ("loss", c.c_double),
        ("samples", size_t),
        ("seconds", c.c_double),
        ("input_s", c.c_double),
        ("metrics", clq_metric_values),
        ("reserved", c.c_double * 4),
    ]


class clq_step_info(c.Structure):
    _fields_ = [
        ("step", c.c_uint64),
        ("loss", c.c_double),
        ("grad_norm", c.c_double),
        ("lr", c.c_double),
        ("samples", size_t),
        ("metrics", clq_metric_values),
        ("seconds", c.c_double),
        ("replica", c.c_int32),
        ("staleness", c.c_uint32),
    ]


class clq_progress(c.Structure):
    _fields_ = [
        ("epoch", c.c_uint64),
        ("epochs", c.c_uint64),
        ("batch", c.c_uint64),
        ("batches", c.c_uint64),
        ("step", c.c_uint64),
        ("totals", clq_totals),
        ("validation_batch", c.c_uint64),
        ("validation_batches", c.c_uint64),
    ]


class clq_epoch_info(c.Structure):
    _fields_ = [("epoch", c.c_uint64), ("train", clq_totals), ("validation", clq_totals)]


#: Functions that the library calls.
ON_STEP = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(clq_step_info))
ON_PROGRESS = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(clq_progress))
ON_EPOCH = c.CFUNCTYPE(c.c_int, c.c_void_p, c.POINTER(clq_epoch_info))
ON_CHECKPOINT = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_uint64)
BEGIN = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_void_p)
STEP = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.POINTER(clq_step_info))
EPOCH = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.POINTER(clq_epoch_info))
END = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, c.c_int)
SAVE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, size_t)
RESTORE = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_char_p)
DESTROY = c.CFUNCTYPE(None, c.c_void_p)
WEIGHTS = c.CFUNCTYPE(c.c_void_p, c.c_void_p)
RESTORE_WEIGHTS = c.CFUNCTYPE(c.c_int, c.c_void_p, c.c_void_p, size_t)
LOG_SINK = c.CFUNCTYPE(None, c.c_void_p, c.c_int, c.c_char_p)


class clq_callback(c.Structure):
    _fields_ = [
        ("name", c.c_char_p),
        ("context", c.c_void_p),
        ("on_begin", BEGIN),
        ("on_step", STEP),
        ("on_epoch", EPOCH),
        ("on_end", END),
        ("save", SAVE),
        ("restore", RESTORE),
        ("destroy", DESTROY),
        ("weights", WEIGHTS),
        ("restore_weights", RESTORE_WEIGHTS),
        ("reserved", c.c_void_p * 5),
    ]


class clq_fit_config(c.Structure):
    _fields_ = [
        ("epochs", c.c_uint64),
        ("steps", c.c_uint64),
        ("validation", c.c_void_p),
        ("context", c.c_void_p),
        ("on_step", ON_STEP),
        ("on_progress", ON_PROGRESS),
        ("on_epoch", ON_EPOCH),
        ("on_log", ON_STEP),
        ("log_every", c.c_uint32),
        ("log_every_s", c.c_double),
        ("checkpoints", c.c_void_p),
        ("on_checkpoint", ON_CHECKPOINT),
        ("callbacks", c.POINTER(clq_callback)),
        ("callback_count", size_t),
        ("validation_freq", c.c_uint64),
    ]


class clq_monitor(c.Structure):
    _fields_ = [
        ("name", c.c_char * MONITOR_NAME_MAX),
        ("mode", c.c_int),
        ("min_delta", c.c_double),
        ("reserved", c.c_double * 4),
    ]


class clq_early_stopping(c.Structure):
    _fields_ = [
        ("monitor", clq_monitor),
        ("patience", c.c_uint64),
        ("start_from_epoch", c.c_uint64),
        ("has_baseline", c.c_bool),
        ("baseline", c.c_double),
        ("restore_best_weights", c.c_bool),
        ("reserved", c.c_double * 4),
    ]


class clq_early_stopping_result(c.Structure):
    _fields_ = [
        ("stopped", c.c_bool),
        ("has_best", c.c_bool),
        ("best_epoch", c.c_uint64),
        ("best", c.c_double),
        ("restored_best_weights", c.c_bool),
        ("reserved", c.c_uint64 * 4),
    ]


class clq_reduce_lr(c.Structure):
    _fields_ = [
        ("monitor", clq_monitor),
        ("factor", c.c_double),
        ("patience", c.c_uint64),
        ("cooldown", c.c_uint64),
        ("min_lr", c.c_double),
        ("reserved", c.c_double * 4),
    ]


class clq_checkpoints_config(c.Structure):
    _fields_ = [
        ("folder", c.c_char_p),
        ("every", c.c_uint64),
        ("keep", c.c_uint32),
        ("resume", c.c_bool),
        ("world", c.c_void_p),
    ]


class clq_rank(c.Structure):
    _fields_ = [("context", c.c_void_p), ("device", c.c_void_p), ("queue", c.c_void_p)]


class clq_slice(c.Structure):
    _fields_ = [("memory", c.c_void_p), ("offset", size_t)]


class clq_group_config(c.Structure):
    _fields_ = [
        ("algorithm", c.c_int),
        ("transport", c.c_int),
        ("chunk_bytes", size_t),
        ("slots", c.c_uint),
        ("deadline_s", c.c_double),
        ("bucket_bytes", size_t),
        ("reserved", c.c_double * 6),
    ]


class clq_optimizer(c.Structure):
    _fields_ = [("kind", c.c_int), ("values", c.c_double * HYPERPARAMETERS_MAX)]


class clq_lr_schedule(c.Structure):
    _fields_ = [("kind", c.c_int), ("values", c.c_double * HYPERPARAMETERS_MAX)]


class clq_loss(c.Structure):
    _fields_ = [
        ("kind", c.c_int),
        ("from_logits", c.c_bool),
        ("apply_class_balancing", c.c_bool),
        ("label_smoothing", c.c_double),
        ("delta", c.c_double),
        ("alpha", c.c_double),
        ("gamma", c.c_double),
        ("reserved", c.c_double * 2),
    ]


class clq_clip(c.Structure):
    _fields_ = [("kind", c.c_int), ("limit", c.c_double), ("reserved", c.c_double * 2)]


class clq_compression(c.Structure):
    _fields_ = [("kind", c.c_int), ("fraction", c.c_double), ("reserved", c.c_double * 2)]


class clq_strategy_options(c.Structure):
    _fields_ = [
        ("accumulate", c.c_uint64),
        ("shares", c.c_int),
        ("share_count", c.c_uint32),
        ("share_weights", c.c_void_p),
        ("shard_optimizer", c.c_uint32),
        ("staleness", c.c_int32),
        ("backup", c.c_uint32),
        ("stages", c.c_uint32),
        ("micro_batches", c.c_uint32),
        ("unused", c.c_uint32),
        ("compression", clq_compression),
        ("local_steps", c.c_uint64),
        ("reserved", c.c_double * 21),
    ]


class clq_trainer_config(c.Structure):
    _fields_ = [
        ("optimizer", clq_optimizer),
        ("loss", clq_loss),
        ("strategy", c.c_int),
        ("global_batch", size_t),
        ("sample_dtype", c.c_int),
        ("seed", c.c_uint64),
        ("measure_gradient", c.c_bool),
        ("inference_only", c.c_bool),
        ("group", clq_group_config),
        ("bucket_bytes", size_t),
        ("trace_steps", size_t),
        ("matmul_precision", c.c_int),
        ("tuning", c.c_int),
        ("tuning_s", c.c_double),
        ("metrics", c.c_char_p),
        ("disabled_paths", c.c_char_p),
        ("schedule", clq_lr_schedule),
        ("outputs", c.c_void_p),
        ("output_count", size_t),
        ("strategy_options", clq_strategy_options),
        ("parts", c.c_uint32),
        ("part", c.c_uint32),
        ("clip", clq_clip),
        ("no_decay", c.c_char_p),
        ("average", c.c_double),
        ("learning_rate", c.c_void_p),
        ("learning_rate_context", c.c_void_p),
        ("check_replicas", c.c_uint64),
        ("sample_weights", c.c_bool),
        ("class_weights", c.c_void_p),
        ("class_weight_count", size_t),
        ("precision", c.c_int),
        ("loss_scale", c.c_double),
        ("loss_scale_interval", c.c_uint32),
        ("check_numerics", c.c_bool),
        ("optimizers", c.c_void_p),
        ("optimizer_count", size_t),
        ("recompute", c.c_int),
        ("world", c.c_void_p),
        ("shard", c.c_int),
    ]
