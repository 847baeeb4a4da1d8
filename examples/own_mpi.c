/* Makes a world in a program that uses MPI itself. Clique uses a communicator of its own, which it makes from the
 * program's.
 *
 *     mpicc own_mpi.c $(pkg-config --cflags --libs clique); mpirun -n 2 ./a.out */
#include <clique/world.h>

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>

static void check(clq_status status) {
    if (status == CLQ_OK) return;
    fprintf(stderr, "%s: %s\n", clq_status_text(status), clq_error_detail());
    MPI_Abort(MPI_COMM_WORLD, 1);
}

int main(int count, char **arguments) {
    MPI_Comm half = MPI_COMM_NULL;
    clq_world *world;
    int provided, rank, sum = 0;
    MPI_Init_thread(&count, &arguments, MPI_THREAD_MULTIPLE, &provided);
    if (provided < MPI_THREAD_MULTIPLE) MPI_Abort(MPI_COMM_WORLD, 1); /* the world's thread calls MPI, too */
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half); /* the even ranks are one world, the odd ranks another */

    check(clq_world_open(&(clq_world_config){.communicator = &half}, &world));
    int *all = malloc(clq_world_size(world) * sizeof *all);
    if (!all) MPI_Abort(MPI_COMM_WORLD, 1);
    check(clq_world_gather(world, &rank, sizeof rank, all));
    for (unsigned r = 0; r < clq_world_size(world); r++) sum += all[r];
    printf("rank %d of the program is %s, of %u whose numbers make %d\n", rank,
           clq_world_name(world, clq_world_rank(world)), clq_world_size(world), sum);
    MPI_Allreduce(MPI_IN_PLACE, &sum, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
    free(all);
    clq_world_close(world);

    MPI_Comm_free(&half);
    MPI_Finalize();
    return 0;
}
