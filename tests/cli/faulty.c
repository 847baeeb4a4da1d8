/* A command that fails on order, which check_faults.py runs. It wraps the main of the file CLQ_FAULTY_MAIN. Before that
 * main, it arms the faults that the environment asks for. At the end, it tells how many calls could have failed.
 *
 * CLQ_FAULT_ALLOCATION, CLQ_FAULT_CALL: N or N+. The N-th allocation (Clique's and Jansson's are counted together), or
 * the N-th OpenCL call, fails. With +, all later ones fail, too. CLQ_FAULT_COUNTS: the file for the numbers of both. */
#include "support/faults.h"

#include <errno.h>
#include <jansson.h>

#define main program_main
#include CLQ_FAULTY_MAIN
#undef main

static faults layer;

/* Like malloc, but never fails for the sizes that Jansson's buffer for text grows to. Jansson 2.14 does not notice that
 * this buffer could not grow, and then writes beyond it or ends the program by an assertion. */
static void *allocate(size_t bytes) {
    bool is_text = bytes >= 16 && (bytes & (bytes - 1)) == 0;
    void *block = is_text ? malloc(bytes) : clq_alloc(bytes, 1);
    if (!block) errno = ENOMEM;
    return block;
}

/* Reads an order such as "12" or "12+" from the environment. Returns 0 if there is none. */
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
