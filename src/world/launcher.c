/* Finds the launcher that started this process, by the environment variables that launchers set for their processes. */
#include "world/inside.h"

typedef struct trace {
    const char *variable; /* the first variable that is set tells the launcher; its value is the rank */
    const char *launcher, *engine;
    bool is_of_engine;
    const char *size; /* the variable with the number of processes; NULL: none is known */
} trace;

/* Open MPI's own variable comes first: its processes may have those of PMIx and PMI, too. */
static const trace traces[] = {
    {"OMPI_COMM_WORLD_RANK", "Open MPI's mpirun", "openmpi", true, "OMPI_COMM_WORLD_SIZE"},
    {"PMIX_RANK", "a launcher with PMIx", "openmpi", false, "SLURM_STEP_NUM_TASKS"},
    {"PMI_RANK", "a launcher with PMI", "mpich", false, "PMI_SIZE"},
};

static unsigned number_of(const char *variable) {
    uint64_t value = 0;
    const char *text = variable ? clq_environment(variable) : NULL;
    if (text) (void)clq_parse_u64(text, 0, UINT32_MAX, &value);
    return (unsigned)value;
}

clq_status clq_launcher_refuse(const clq_launcher *launcher, const char *engine) {
    return clq_fail(
        CLQ_ERROR_UNSUPPORTED,
        "%s started %u processes, and %s does not bring them together: this launcher is another MPI's. Use the "
        "mpirun of %s, or name the launcher's MPI in CLIQUE_ENGINE (openmpi, mpich)",
        launcher->name, launcher->size, engine, engine);
}

clq_launcher clq_launcher_find(void) {
    for (size_t i = 0; i < CLQ_COUNT_OF(traces); i++)
        if (clq_environment(traces[i].variable))
            return (clq_launcher){.name = traces[i].launcher,
                                  .engine = traces[i].engine,
                                  .is_of_engine = traces[i].is_of_engine,
                                  .size = number_of(traces[i].size),
                                  .rank = number_of(traces[i].variable)};
    return (clq_launcher){0};
}
