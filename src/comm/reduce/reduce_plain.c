/* For any processor: vectors of 16 bytes. */
#define VECTOR 16
#define TARGET
#define TABLE clq_reduce_plain
#include "comm/reduce/reduce_body.h"
