#include "cli/exit.h"

int clq_exit_code(clq_status status) {
    switch (status) {
    case CLQ_OK: return 0;
    case CLQ_ARGUMENT: return CLQ_EXIT_USAGE;
    case CLQ_NOT_FOUND:
    case CLQ_READ:
    case CLQ_FORMAT:
    case CLQ_UNSUPPORTED:
    case CLQ_MISMATCH: return CLQ_EXIT_DATA;
    case CLQ_NO_DEVICE:
    case CLQ_DEVICE:
    case CLQ_BUILD:
    case CLQ_TIMEOUT:
    case CLQ_DEVICE_MEMORY: return CLQ_EXIT_DEVICE;
    case CLQ_INTERRUPTED: return CLQ_EXIT_INTERRUPTED;
    default: return CLQ_EXIT_FAILED;
    }
}
