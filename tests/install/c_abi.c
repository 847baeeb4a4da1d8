/* What examples/all_reduce.rs takes the headers to say, once more in C: where they no longer do, this does not compile.
 * The constants come from the example's own text (-DRUST_NAME=value, tests/install/check). */
#include <clique/comm.h>

#define SAME(what, like) _Static_assert((long long)(what) == (long long)(like), #what " is not what the example says")

SAME(sizeof(clq_rank), 3 * sizeof(void *));
SAME(offsetof(clq_rank, context), 0);
SAME(offsetof(clq_rank, device), sizeof(void *));
SAME(offsetof(clq_rank, queue), 2 * sizeof(void *));
SAME(sizeof(clq_slice), sizeof(void *) + sizeof(size_t));
SAME(offsetof(clq_slice, memory), 0);
SAME(offsetof(clq_slice, offset), sizeof(void *));
SAME(sizeof(clq_status), sizeof(int));
SAME(sizeof(clq_dtype), sizeof(int));
SAME(sizeof(clq_redop), sizeof(int));
SAME(sizeof(cl_bool), sizeof(unsigned));
SAME(sizeof(cl_int), sizeof(int));
SAME(CLQ_OK, RUST_CLQ_OK);
SAME(CLQ_F32, RUST_CLQ_F32);
SAME(CLQ_REDOP_SUM, RUST_CLQ_REDOP_SUM);
SAME(CL_SUCCESS, RUST_CL_SUCCESS);
SAME(CL_TRUE, RUST_CL_TRUE);
SAME(CL_DEVICE_TYPE_ALL, RUST_CL_DEVICE_TYPE_ALL);

struct functions {
    clq_status (*create)(const clq_rank *, unsigned, const clq_group_config *, clq_group **);
    void (*destroy)(clq_group *);
    clq_status (*alloc)(clq_group *, unsigned, size_t, cl_mem *);
    clq_status (*all_reduce)(clq_group *, const clq_slice *, const clq_slice *, size_t, clq_dtype, clq_redop,
                             const cl_event *, cl_event *);
    clq_status (*wait)(clq_group *);
    const char *(*text)(clq_status);
    const char *(*detail)(void);
};
const struct functions functions = {clq_group_create, clq_group_destroy, clq_group_alloc, clq_all_reduce,
                                    clq_group_wait,   clq_status_text,   clq_error_detail};
