/* What clique bench peers needs before it can run a peer. */
#define _XOPEN_SOURCE 700 /* nftw; NOLINT(bugprone-reserved-identifier) */
#include "peers.h"

#include "cli/interrupt.h"

#include <errno.h>
#include <ftw.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- the folder ---- */

static clq_status join(const clq_peers *peers, const char *name, char **out) {
    *out = clq_strprintf("%s/%s", peers->folder, name);
    return *out ? CLQ_OK : CLQ_ERROR_MEMORY;
}

/* Writes an embedded file into the folder. The caller frees *path, also after an error. */
static clq_status write_source(const clq_peers *peers, const char *part, const char *name, char **path) {
    const clq_peer_file *file = clq_peer_files;
    while (strcmp(file->name, part) != 0) file++;
    CLQ_TRY(join(peers, name, path));
    FILE *out = fopen(*path, "w");
    bool written = out && fputs(file->text, out) >= 0;
    if (out && fclose(out) != 0) written = false;
    return written ? CLQ_OK : clq_fail(CLQ_ERROR_WRITE, "%s: %s", *path, strerror(errno));
}

static clq_status write_sources(clq_peers *peers) {
    static const struct {
        const char *part, *name;
    } files[CLQ_PEER_COUNT] = {[CLQ_PEER_MPI] = {"peer_mpi", "peer_mpi.c"},
                               [CLQ_PEER_TORCH] = {"peer_torch", "peer_torch.py"},
                               [CLQ_PEER_TENSORFLOW] = {"peer_tensorflow", "peer_tensorflow.py"},
                               [CLQ_PEER_BLAS] = {"peer_blas", "peer_blas.c"}};
    for (unsigned i = 0; i < CLQ_PEER_COUNT; i++)
        CLQ_TRY(write_source(peers, files[i].part, files[i].name, &peers->sources[i]));
    char *models = NULL; /* peer_torch.py imports it */
    const clq_status status = write_source(peers, "torch_models", "torch_models.py", &models);
    clq_free(models);
    return status;
}

static clq_status find_self(clq_peers *peers) {
    char path[4096];
    ssize_t length = readlink("/proc/self/exe", path, sizeof path - 1);
    if (length < 0) return clq_fail(CLQ_ERROR_SYSTEM, "cannot find this program's own file: %s", strerror(errno));
    path[length] = '\0';
    peers->self = clq_strdup(path);
    return peers->self ? CLQ_OK : CLQ_ERROR_MEMORY;
}

clq_status clq_peers_open(clq_peers *peers) {
    (void)clq_interrupted(); /* from here on Ctrl-C ends the run in order, as there is a folder to remove */
    const char *parent = clq_environment("TMPDIR");
    char *folder = clq_strprintf("%s/clique-peers-XXXXXX", parent ? parent : "/tmp");
    if (!folder) return CLQ_ERROR_MEMORY;
    if (!mkdtemp(folder)) {
        clq_status status =
            clq_fail(CLQ_ERROR_WRITE, "cannot make a folder in %s: %s; set TMPDIR to one that is writable",
                     parent ? parent : "/tmp", strerror(errno));
        clq_free(folder);
        return status;
    }
    peers->folder = folder;
    CLQ_TRY(find_self(peers));
    CLQ_TRY(join(peers, "peer_mpi", &peers->programs[CLQ_PEER_MPI]));
    CLQ_TRY(join(peers, "peer_blas", &peers->programs[CLQ_PEER_BLAS]));
    CLQ_TRY(join(peers, "out", &peers->out_path));
    CLQ_TRY(join(peers, "err", &peers->err_path));
    CLQ_TRY(join(peers, "own.json", &peers->json_path));
    return write_sources(peers);
}

static int remove_one(const char *path, const struct stat *status, int type, struct FTW *at) {
    (void)status, (void)type, (void)at;
    return remove(path);
}

void clq_peers_close(clq_peers *peers) {
    if (peers->folder) (void)nftw(peers->folder, remove_one, 8, FTW_DEPTH | FTW_PHYS);
    for (unsigned i = 0; i < CLQ_PEER_COUNT; i++) {
        clq_free(peers->starters[i]);
        clq_free(peers->sources[i]);
        clq_free(peers->programs[i]);
    }
    clq_free(peers->json_path);
    clq_free(peers->err_path);
    clq_free(peers->out_path);
    clq_free(peers->self);
    clq_free(peers->folder);
}

/* ---- which are there ---- */

/* Finds the mpicc beside that mpirun, or otherwise the one in PATH. */
static clq_status find_compiler(const char *mpirun, char **out) {
    const char *slash = strrchr(mpirun, '/');
    char *beside = clq_strprintf("%.*s/mpicc", (int)(slash - mpirun), mpirun);
    if (!beside) return CLQ_ERROR_MEMORY;
    clq_status status = clq_bench_find_program(beside, out);
    clq_free(beside);
    return status == CLQ_OK && !*out ? clq_bench_find_program("mpicc", out) : status;
}

/* Compiles a peer's program. If that fails, prints a note and leaves the peer unready. */
static clq_status compile(clq_peers *peers, clq_bench_run *run, clq_peer_system system, const char *compiler,
                          const char *libraries) {
    clq_peer_command command = {0};
    clq_bench_ending ending = {0};
    const char *program = peers->programs[system];
    clq_peer_command_add(&command, "%s", compiler);
    clq_peer_command_add_words(&command, "-O2 -o");
    clq_peer_command_add(&command, "%s", program);
    clq_peer_command_add(&command, "%s", peers->sources[system]);
    clq_peer_command_add_words(&command, "%s", libraries);
    clq_status status = clq_bench_child_run(
        &(clq_bench_child){command.argv, peers->out_path, peers->err_path, peers->limit_s}, &ending);
    if (status != CLQ_OK && status != CLQ_ERROR_SYSTEM) return status;
    peers->ready[system] = status == CLQ_OK && ending.code == 0 && access(program, X_OK) == 0;
    if (peers->ready[system]) return CLQ_OK;
    char line[CLQ_BENCH_LINE_MAX];
    clq_bench_line_of(peers->err_path, NULL, line);
    clq_bench_print(run, "note: %s is left out: %s does not compile its program%s: %s\n",
                    system == CLQ_PEER_MPI ? "Open MPI" : "OpenBLAS", compiler,
                    system == CLQ_PEER_MPI ? "" : ", install libopenblas-dev",
                    status == CLQ_OK ? line : clq_error_detail());
    return CLQ_OK;
}

static clq_status find_mpi(clq_peers *peers, clq_bench_run *run, const char *mpirun) {
    char **starter = &peers->starters[CLQ_PEER_MPI], *compiler = NULL;
    CLQ_TRY(clq_bench_find_program(mpirun, starter));
    if (*starter) CLQ_TRY(find_compiler(*starter, &compiler));
    if (!compiler) {
        clq_bench_print(run,
                        "note: Open MPI is left out: %s is not installed; install openmpi-bin and libopenmpi-dev, or "
                        "give --mpirun\n",
                        *starter ? "mpicc" : mpirun);
        return CLQ_OK;
    }
    clq_status status = compile(peers, run, CLQ_PEER_MPI, compiler, "");
    clq_free(compiler);
    return status;
}

static clq_status find_blas(clq_peers *peers, clq_bench_run *run, const char *cc) {
    char *compiler;
    CLQ_TRY(clq_bench_find_program(cc, &compiler));
    if (!compiler) {
        clq_bench_print(run, "note: OpenBLAS is left out: %s is not installed; install a C compiler, or give --cc\n",
                        cc);
        return CLQ_OK;
    }
    clq_status status = compile(peers, run, CLQ_PEER_BLAS, compiler, "-lopenblas -lm");
    clq_free(compiler);
    return status;
}

static clq_status probe(clq_peers *peers, clq_bench_run *run, clq_peer_system system, const char *python) {
    const char *name = system == CLQ_PEER_TORCH ? "PyTorch" : "TensorFlow";
    const char *package = system == CLQ_PEER_TORCH ? "torch" : "tensorflow";
    CLQ_TRY(clq_bench_find_program(python, &peers->starters[system]));
    if (!peers->starters[system]) {
        clq_bench_print(
            run, "note: %s is left out: %s is not installed; install python3 and the package %s, or give --python\n",
            name, python, package);
        return CLQ_OK;
    }
    char reason[CLQ_PEER_REASON_MAX];
    clq_peer_command command = {0};
    json_t *answer;
    clq_peer_command_add(&command, "%s", peers->starters[system]);
    clq_peer_command_add(&command, "%s", peers->sources[system]);
    clq_peer_command_add(&command, "probe");
    CLQ_TRY(clq_peer_run(peers, &command, reason, &answer));
    const json_t *installed = json_object_get(answer, "installed");
    peers->ready[system] = json_is_true(installed);
    if (json_is_false(installed))
        clq_bench_print(run, "note: %s is left out: %s has no package %s; pip install %s, or give --python\n", name,
                        python, package, package);
    else if (!peers->ready[system])
        clq_bench_print(run, "note: %s is left out: %s: %s\n", name, python, reason[0] ? reason : "printed no result");
    json_decref(answer);
    return CLQ_OK;
}

clq_status clq_peers_find(clq_peers *peers, clq_bench_run *run, const char *mpirun, const char *python,
                          const char *cc) {
    CLQ_TRY(find_mpi(peers, run, mpirun));
    CLQ_TRY(probe(peers, run, CLQ_PEER_TORCH, python));
    CLQ_TRY(probe(peers, run, CLQ_PEER_TENSORFLOW, python));
    return cc ? find_blas(peers, run, cc) : CLQ_OK;
}
