#include "base/base.h"

#define TEXT_OF(number) #number
#define RELEASE(major, minor, patch) TEXT_OF(major) "." TEXT_OF(minor) "." TEXT_OF(patch)

const char *clq_version(void) { return RELEASE(CLQ_VERSION_MAJOR, CLQ_VERSION_MINOR, CLQ_VERSION_PATCH); }
unsigned clq_version_number(void) { return CLQ_VERSION; }
