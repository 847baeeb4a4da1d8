/* Transfers of variables of which each replica has a slice. A read gathers the slices on the host. A write cuts the
 * host's variable into slices. */
#include "strategy/module.h"

typedef struct place {
    const clq_variable *variable;
    clq_weight_slice slice;
    clq_buffer *memory;
    size_t offset, bytes;
    float *values; /* the slice's values on the host; the caller frees them */
} place;

static clq_status open_place(const clq_replica *replica, const clq_command *command, place *out) {
    const clq_weights *weights = replica->weights;
    *out = (place){.variable = &replica->strategy->model->variables[command->variable],
                   .slice = clq_weights_slice(weights, command->variable),
                   .memory = clq_weights_arena(weights, (clq_arena)command->memory),
                   .offset = clq_weights_offset(weights, command->variable),
                   .bytes = clq_weights_variable_bytes(weights, command->variable)};
    out->values = clq_alloc(out->bytes, 1);
    return out->values ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static clq_status read_slice(clq_worker *worker, const clq_command *command) {
    place p;
    CLQ_TRY(open_place(clq_replica_of(worker), command, &p));
    clq_status status = clq_queue_read(worker->queue, p.memory, p.offset, p.values, p.bytes, true);
    if (status == CLQ_OK) clq_weight_slice_paste(&p.slice, p.variable, p.values, command->to);
    clq_free(p.values);
    return status;
}

static clq_status write_slice(clq_worker *worker, const clq_command *command) {
    place p;
    CLQ_TRY(open_place(clq_replica_of(worker), command, &p));
    clq_weight_slice_cut(&p.slice, p.variable, command->from, p.values);
    clq_status status = clq_queue_write(worker->queue, p.memory, p.offset, p.values, p.bytes, true);
    clq_free(p.values);
    return status;
}

const clq_command_kind clq_write_slice = {.name = "write", .run = write_slice};
static const clq_command_kind read_kind = {.name = "read", .run = read_slice};

bool clq_replica_has_slice(const clq_replica *replica, size_t variable) {
    const clq_weight_slice slice = clq_weights_slice(replica->weights, variable);
    return clq_weight_slice_is_part(&slice, &replica->strategy->model->variables[variable]);
}

clq_status clq_strategy_read_slices(clq_strategy *strategy, clq_arena arena, size_t variable, float *to) {
    const clq_command command = {.kind = &read_kind, .memory = arena, .variable = variable, .to = to};
    for (unsigned r = 0; r < strategy->count; r++) CLQ_TRY(clq_worker_call(&strategy->replicas[r].worker, &command));
    return CLQ_OK;
}
