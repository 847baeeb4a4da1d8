#include "base/base.h"

const char *clq_version(void) { return CLQ_VERSION; }
