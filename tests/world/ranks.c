/* One rank of a run that an MPI launcher started, for tests/world/check_ranks.py. The first argument says what the rank
 * does. The rank prints its result in one line, and exits with 0 if everything is as expected.
 *
 * - works: checks rank numbers, gathers, messages of many sizes, agreement
 * - meets [DEADLINE_S]: prints "READY RANK PID", then runs barriers until one fails, and prints the failure
 * - idle SECONDS: prints the CPU time that the process used meanwhile, as a fraction of a core
 * - opens: prints how long opening took */
#include "world/world.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define CHECK(condition)                                                                                               \
    do {                                                                                                               \
        if (!(condition)) {                                                                                            \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, clq_error_detail());                    \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

static unsigned char byte_of(unsigned rank, size_t at, unsigned turn) {
    return (unsigned char)(31 * rank + 7 * at + turn);
}

static int gathers(clq_world *world) {
    static const size_t sizes[] = {1, 17, 4096, 300001};
    const unsigned size = clq_world_size(world), rank = clq_world_rank(world);
    for (unsigned turn = 0; turn < CLQ_COUNT_OF(sizes); turn++) {
        unsigned char *mine = malloc(sizes[turn]), *all = malloc(size * sizes[turn]);
        CHECK(mine && all);
        for (size_t i = 0; i < sizes[turn]; i++) mine[i] = byte_of(rank, i, turn);
        CHECK(clq_world_gather(world, mine, sizes[turn], all) == CLQ_OK);
        for (size_t i = 0; i < size * sizes[turn]; i++)
            CHECK(all[i] == byte_of((unsigned)(i / sizes[turn]), i % sizes[turn], turn));
        free(mine);
        free(all);
    }
    return 0;
}

/* Each rank sends to the next rank of a ring, and receives from the rank before. Even ranks send first. */
static int pass_on(clq_world *world, unsigned tag, size_t bytes) {
    const unsigned size = clq_world_size(world), rank = clq_world_rank(world);
    const unsigned next = (rank + 1) % size, before = (rank + size - 1) % size;
    unsigned char *out = malloc(bytes + 1), *in = malloc(bytes + 1);
    CHECK(out && in);
    for (size_t i = 0; i < bytes; i++) out[i] = byte_of(rank, i, tag);
    for (unsigned turn = 0; turn < 2; turn++)
        CHECK((rank % 2 == turn ? clq_world_send(world, next, tag, out, bytes, 0)
                                : clq_world_receive(world, before, tag, in, bytes, 0)) == CLQ_OK);
    for (size_t i = 0; i < bytes; i++) CHECK(in[i] == byte_of(before, i, tag));
    free(out);
    free(in);
    return 0;
}

static int works(const void *communicator) {
    clq_world *world;
    unsigned tag;
    CHECK(clq_world_open(&(clq_world_config){.communicator = communicator}, &world) == CLQ_OK);
    const unsigned size = clq_world_size(world), rank = clq_world_rank(world);
    CHECK(gathers(world) == 0);
    CHECK(clq_world_new_tags(world, 1, &tag) == CLQ_OK);
    for (size_t bytes = 0; size % 2 == 0 && bytes < (size_t)70 << 20; bytes = bytes * 37 + 1)
        CHECK(pass_on(world, tag, bytes) == 0);
    CHECK(clq_world_agree(world, "model", (clq_hash128){1, 2}) == CLQ_OK);
    printf("%u of %u: %s\n", rank, size, clq_world_name(world, rank));
    clq_world_close(world);
    return 0;
}

static int meets(double deadline_s) {
    clq_world *world;
    clq_status status = CLQ_OK;
    CHECK(clq_world_open(&(clq_world_config){.deadline_s = deadline_s}, &world) == CLQ_OK);
    printf("READY %u %d\n", clq_world_rank(world), (int)getpid());
    fflush(stdout);
    while (status == CLQ_OK) status = clq_world_barrier(world);
    printf("%u ended by: %s\n", clq_world_rank(world), clq_error_detail());
    fflush(stdout);
    clq_world_close(world);
    _exit(3); /* after a failure, MPI is not finalized */
}

static double cpu_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static int idles(double seconds) {
    clq_world *world;
    CHECK(clq_world_open(NULL, &world) == CLQ_OK);
    CHECK(clq_world_barrier(world) == CLQ_OK);
    const double begun = cpu_s(), began = clq_now();
    nanosleep(&(struct timespec){.tv_sec = (time_t)seconds}, NULL);
    const double used = (cpu_s() - begun) / (clq_now() - began);
    CHECK(clq_world_barrier(world) == CLQ_OK);
    printf("%u idle: %.5f of a core\n", clq_world_rank(world), used);
    clq_world_close(world);
    return 0;
}

static int opens(void) {
    clq_world *world;
    const double began = clq_now();
    CHECK(clq_world_open(NULL, &world) == CLQ_OK);
    printf("%u open after %.4f s\n", clq_world_rank(world), clq_now() - began);
    clq_world_close(world);
    return 0;
}

int main(int count, char **arguments) {
    const char *what = count > 1 ? arguments[1] : "";
    const double number = count > 2 ? atoi(arguments[2]) : 0;
    if (strcmp(what, "works") == 0) return works(NULL);
    if (strcmp(what, "meets") == 0) return meets(number);
    if (strcmp(what, "idle") == 0) return idles(number);
    if (strcmp(what, "opens") == 0) return opens();
    return 2;
}
