#if defined(__x86_64__) && defined(__GNUC__)
#define VECTOR 32
#define TARGET __attribute__((target("avx2,f16c")))
#define TABLE clq_reduce_avx2
#include "comm/reduce/reduce_body.h"
#endif
