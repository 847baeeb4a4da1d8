/* The schedule "one forward, one backward", as arithmetic. */
#include "strategy/pipeline/pipeline.h"

static unsigned warm_up(unsigned stage, unsigned stages, unsigned count) { return CLQ_MIN(stages - 1 - stage, count); }

clq_turn clq_pipeline_turn(unsigned stage, unsigned stages, unsigned count, unsigned index) {
    const unsigned warm = warm_up(stage, stages, count), pairs = 2 * (count - warm);
    if (index < warm) return (clq_turn){false, index};
    index -= warm;
    if (index < pairs) return (clq_turn){index % 2, index % 2 ? index / 2 : warm + index / 2};
    return (clq_turn){true, index - pairs + count - warm};
}

unsigned clq_pipeline_in_flight(unsigned stage, unsigned stages, unsigned count) {
    return CLQ_MIN(stages - stage, CLQ_MAX(count, 1u));
}

/* Simulates when turns end. Keeps each stage's last `stages` micro-batches, as many as another stage may wait for. */
typedef struct simulation {
    unsigned stages, count;
    const double *seconds[2];                            /* forward, backward */
    double hop_s;                                        /* until a stage that waited for another one goes on */
    unsigned turns[CLQ_REPLICAS_MAX];                    /* by stage: turns so far */
    unsigned done[2][CLQ_REPLICAS_MAX];                  /* by stage: forward and backward turns so far */
    double ended[2][CLQ_REPLICAS_MAX][CLQ_REPLICAS_MAX]; /* by stage, and by micro-batch modulo `stages` */
    double free_at[CLQ_REPLICAS_MAX];
} simulation;

/* Carries out a stage's next turn. False: it has none left, or the turn waits for one whose end is not known yet. */
static bool advance(simulation *t, unsigned stage) {
    if (t->turns[stage] == 2 * t->count) return false;
    const clq_turn turn = clq_pipeline_turn(stage, t->stages, t->count, t->turns[stage]);
    const bool first = turn.backward ? stage + 1 == t->stages : stage == 0;
    const unsigned from = first ? stage : turn.backward ? stage + 1 : stage - 1, place = turn.micro_batch % t->stages;
    double begin = t->free_at[stage];
    if (!first && t->done[turn.backward][from] <= turn.micro_batch) return false;
    if (!first && t->ended[turn.backward][from][place] > begin) begin = t->ended[turn.backward][from][place] + t->hop_s;
    t->free_at[stage] = begin + t->seconds[turn.backward][stage];
    t->ended[turn.backward][stage][place] = t->free_at[stage];
    t->done[turn.backward][stage]++;
    t->turns[stage]++;
    return true;
}

double clq_pipeline_seconds(unsigned stages, unsigned count, const double *forward, const double *backward,
                            double hop_s) {
    simulation t = {.stages = stages, .count = count, .seconds = {forward, backward}, .hop_s = hop_s};
    double last = 0;
    for (bool any = true; any;) {
        any = false;
        for (unsigned s = 0; s < stages; s++)
            while (advance(&t, s)) any = true;
    }
    for (unsigned s = 0; s < stages; s++) last = CLQ_MAX(last, t.free_at[s]);
    return last;
}

double clq_pipeline_bubble(unsigned stages, unsigned count, const double *forward, const double *backward) {
    const double last = clq_pipeline_seconds(stages, count, forward, backward, 0);
    double busy = 0;
    for (unsigned s = 0; s < stages; s++) busy += count * (forward[s] + backward[s]);
    return last > 0 ? 1 - busy / (stages * last) : 0;
}
