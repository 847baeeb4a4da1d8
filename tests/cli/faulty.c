/* A command that fails on order: CLQ_FAULTY_MAIN, the file of its main, behind a main that arms what the environment
 * asks for and tells at the end what could have failed. check_faults.py runs it.
 *
 * CLQ_FAULT_ALLOCATION, CLQ_FAULT_CALL: N or N+; the N-th allocation (of Clique's and of Jansson's, which count as
 * one), or the N-th OpenCL call, fails, and with + all after it. CLQ_FAULT_COUNTS: where the numbers of both are
 * written. */
#include "support/faults.h"

#include <errno.h>
#include <jansson.h>

#define main program_main
#include CLQ_FAULTY_MAIN
#undef main

static faults layer;

/* As malloc does. Never of the sizes that Jansson's buffer for text grows to: Jansson 2.14 does not see that it could
 * not grow, and writes behind it or ends the program by an assertion. */
static void *allocate(size_t bytes) {
    bool is_text = bytes >= 16 && (bytes & (bytes - 1)) == 0;
    void *block = is_text ? malloc(bytes) : clq_alloc(bytes, 1);
    if (!block) errno = ENOMEM;
    return block;
}

/* Of the environment's "12" or "12+"; 0 where there is none. */
static unsigned order(const char *name, bool *sticky) {
    const char *text = clq_environment(name);
    char *end = NULL;
    unsigned long nth = text ? strtoul(text, &end, 10) : 0;
    *sticky = end && *end == '+';
    return (unsigned)nth;
}

static void tell(void) {
    unsigned long long allocations = clq_memory_fail_at(0, false);
    unsigned calls = layer.arm(0, CL_SUCCESS, false);
    const char *path = clq_environment("CLQ_FAULT_COUNTS");
    FILE *file = path ? fopen(path, "w") : NULL;
    if (!file) return;
    fprintf(file, "%llu %u\n", allocations, calls);
    fclose(file);
}

int main(int argc, char **argv) {
    bool all_allocations, all_calls;
    unsigned allocation = order("CLQ_FAULT_ALLOCATION", &all_allocations), call = order("CLQ_FAULT_CALL", &all_calls);
    if (faults_load(&layer) != 0 || atexit(tell) != 0) {
        fputs("the fault layer cannot be loaded\n", stderr);
        return 99;
    }
    json_set_alloc_funcs(allocate, clq_free);
    layer.arm(call, CL_OUT_OF_RESOURCES, all_calls);
    clq_memory_fail_at(allocation, all_allocations);
    return program_main(argc, argv);
}
