/* Topics about what no table of the code has: the language of --devices, environment variables, exit codes.
 * docs/command-line.md and docs/contract.md specify them. */
#include "cli/topics.h"

const char clq_devices_sentence[] = "--devices takes these items, with commas between, as in --devices 0,pocl:1*2.";
const char clq_failure_sentence[] = "A failure is one line on stderr: clique: error: what, where, what to do.";

const clq_fact clq_device_facts[] = {
    {"3", "the device with this index in clique devices"},
    {CLQ_SPEC_GPU ", " CLQ_SPEC_CPU ", " CLQ_SPEC_ACCELERATOR, "all devices of this type"},
    {CLQ_SPEC_ALL, "all devices"},
    {"pocl, nvidia, amd, intel", "all devices of this driver; clique devices shows its tag"},
    {"pocl:1", "the second device of this driver"},
    {CLQ_SPEC_AUTO, "what was chosen for this machine and model by clique why, clique tune or clique train --tune; "
                    "else every GPU that "
                    "is at least a third as fast as the fastest; without a GPU, the fastest CPU device"},
    {"…*K", "use it as K replicas, as in gpu*2"},
    {"…/K", "split it into K sub-devices, as in cpu/2"},
    {"…/K:p", "split it into K sub-devices, and take the one with number p, from 0"},
    {0}};

const clq_fact clq_variable_facts[] = {
    {"CLIQUE_CACHE_DIR", "the folder of built kernels, measurements and choices (default $XDG_CACHE_HOME/clique, "
                         "else ~/.cache/clique)"},
    {"CLIQUE_ALL_DRIVERS", "1: open all OpenCL drivers, also if one is enough"},
    {"CLIQUE_MACHINE_ROOT", "look for GPUs, vendor files and libraries below this folder, in place of /"},
    {"CLIQUE_ENGINE", "what carries bytes between processes: openmpi, mpich, or the path of a library"},
    {"CLIQUE_LIBRARY, CLIQUE_COMMAND", "for the Python package: the library that it loads, and the command of its why()"},
    {"CLIQUE_LAUNCH", "set by clique launch for its ranks: the run's id"},
    {"TF_CONFIG", "the hosts of clique launch, as of tf.distribute"},
    {"PRTE_MCA_plm_ssh_agent, OMPI_MCA_plm_rsh_agent, HYDRA_LAUNCHER_EXEC",
     "the MPIs': what reaches other hosts, for clique launch, too"},
    {"OCL_ICD_VENDORS", "the loader's: which OpenCL drivers there are"},
    {"POCL_WORK_GROUP_SPECIALIZATION", "PoCL's; commands set it to 0 unless it is set"},
    {"RUSTICL_ENABLE", "Mesa's: which of its drivers offer devices"},
    {"TMPDIR", "where temporary files go"},
    {"PATH", "clique bench peers: where mpirun, python3 and cc are found"},
    {0}};

const clq_fact clq_exit_facts[] = {{"0", "done"},
                                   {"1", "failed while running; clique compare --fail-below: a row is slower"},
                                   {"2", "wrong usage: an unknown name, or a value out of its range"},
                                   {"3", "bad input: data or a file that cannot be used"},
                                   {"4", "no usable device, or a device failed, or a deadline passed"},
                                   {"130", "interrupted by Ctrl-C (SIGINT)"},
                                   {"143", "interrupted by SIGTERM"},
                                   {0}};

static void add_facts(const clq_fact *facts, clq_text *to) {
    for (; facts->what; facts++) clq_help_entry(facts->what, facts->means, to);
}

void clq_topic_add_devices(clq_text *to) {
    clq_help_paragraph(0, clq_devices_sentence, to);
    clq_text_add(to, "\n");
    add_facts(clq_device_facts, to);
}

void clq_topic_add_environment(clq_text *to) { add_facts(clq_variable_facts, to); }

void clq_topic_add_exit_codes(clq_text *to) {
    add_facts(clq_exit_facts, to);
    clq_text_add(to, "\n");
    clq_help_paragraph(0, clq_failure_sentence, to);
}
