#if defined(__x86_64__) && defined(__GNUC__)
#define VECTOR 64
#define TARGET __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl")))
#define TABLE clq_reduce_avx512
#include "comm/reduce/reduce_body.h"
#endif
