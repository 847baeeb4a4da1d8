/* Follows the masks that Keras gives tensors and takes off them. In Keras a mask lies on a tensor object, and
 * MultiHeadAttention takes it off its query, value and key (keras/src/layers/attention/multi_head_attention.py,
 * `call`), so that calls which run later see none. Which layers see a mask therefore depends on the order in which
 * Keras runs them, and on which of their tensors are one and the same: a layer may give the very tensor that it gets,
 * and an inner model works on the very tensors that it is applied to. */
#include "interop/keras_masks.h"
#include "interop/keras_order.h"
#include "interop/keras_reading.h"

/* Layers such as Dropout give their input itself in evaluation, and another tensor in training. Tensors that are the
 * same in training are the same in evaluation, and masks that end in training end in evaluation, too. */
enum { TRAINING, EVALUATION, VIEWS };

/* The tensors of a graph are numbered: first the outputs of all nodes, node by node, and then CLQ_KERAS_GIVEN. */
struct clq_keras_masks {
    size_t *turns;         /* by node: its place in Keras's order; SIZE_MAX: Keras does not run it */
    uint32_t *first;       /* by node: its first tensor; one more at the end */
    uint32_t *same[VIEWS]; /* by tensor: the first tensor that is the same in Keras; often itself */
    size_t *ends[VIEWS];   /* by tensor: the turn of the first call that ends its mask; SIZE_MAX: none does */
    size_t *heeded; /* by the first of the tensors that are the same in evaluation: the last turn in which a call may
                       look at the mask; 0: none does; SIZE_MAX: what runs after the graph may */
    uint32_t *inputs, *outputs; /* tensors of the graph */
    size_t input_count, output_count;
};

void clq_keras_release_masks(clq_keras_masks *m) {
    if (!m) return;
    clq_free(m->turns);
    clq_free(m->first);
    for (unsigned v = 0; v < VIEWS; v++) {
        clq_free(m->same[v]);
        clq_free(m->ends[v]);
    }
    clq_free(m->heeded);
    clq_free(m->inputs);
    clq_free(m->outputs);
    clq_free(m);
}

/* ---- layers that give what they get ---- */

typedef struct sameness_row {
    const char *class_name, *key, *word; /* the same if the key is `word`, or, without a word, if the key is 0 */
} sameness_row;

static const sameness_row *find_row(const char *class_name) {
    static const sameness_row rows[] = {{"Identity", NULL, NULL},           {"Activation", "activation", "linear"},
                                        {"Cast", "dtype", "float32"},       {"Dropout", "rate", NULL},
                                        {"SpatialDropout1D", "rate", NULL}, {"SpatialDropout2D", "rate", NULL},
                                        {"SpatialDropout3D", "rate", NULL}, {"AlphaDropout", "rate", NULL},
                                        {"GaussianDropout", "rate", NULL},  {"GaussianNoise", "stddev", NULL}};
    for (size_t i = 0; i < CLQ_COUNT_OF(rows); i++)
        if (strcmp(rows[i].class_name, class_name) == 0) return &rows[i];
    return NULL;
}

bool clq_keras_may_be_same(const char *class_name) { return find_row(class_name); }

clq_keras_sameness clq_keras_find_sameness(const char *class_name, json_t *config) {
    const sameness_row *row = find_row(class_name);
    if (!row) return CLQ_KERAS_OTHER;
    if (!row->key) return CLQ_KERAS_SAME;
    json_t *value = json_object_get(config, row->key);
    if (!row->word) return json_number_value(value) == 0 ? CLQ_KERAS_SAME : CLQ_KERAS_SAME_UNTRAINED;
    const char *word = json_string_value(value);
    return word && strcmp(word, row->word) == 0 ? CLQ_KERAS_SAME : CLQ_KERAS_OTHER;
}

/* Whether a slice in a call's arguments has a step other than 1. */
static bool has_steps(json_t *value) {
    const char *key;
    json_t *member;
    size_t i;
    json_array_foreach(value, i, member) if (has_steps(member)) return true;
    json_object_foreach(value, key, member) {
        if (strcmp(key, "step") == 0 && json_is_integer(member) && json_integer_value(member) != 1) return true;
        if (has_steps(member)) return true;
    }
    return false;
}

static bool ascends(json_t *axes) {
    for (size_t i = 1; i < json_array_size(axes); i++)
        if (json_integer_value(json_array_get(axes, i)) <= json_integer_value(json_array_get(axes, i - 1)))
            return false;
    return true;
}

/* Whether the axes may be moved to where they are already. The rank is not known here, so an axis below 0 may be any
 * axis. */
static bool may_stay(json_t *from, json_t *to) {
    const size_t count = json_is_array(from) ? json_array_size(from) : 1;
    for (size_t i = 0; i < count; i++) {
        json_t *a = json_is_array(from) ? json_array_get(from, i) : from;
        json_t *b = json_is_array(to) ? json_array_get(to, i) : to;
        const json_int_t before = json_integer_value(a), after = json_integer_value(b);
        if (before != after && (before < 0) == (after < 0)) return false;
    }
    return true;
}

bool clq_keras_may_do_nothing(json_t *layer, const clq_keras_node *n) {
    static const char *const by_shape[] = {"Reshape",    "Flatten",    "Cropping1D",  "Cropping2D",
                                           "Cropping3D", "CenterCrop", "BroadcastTo", "Einsum"};
    const char *class_name = clq_keras_class(layer);
    json_t *config = json_object_get(layer, "config");
    for (size_t i = 0; i < CLQ_COUNT_OF(by_shape); i++)
        if (strcmp(by_shape[i], class_name) == 0) return true;
    if (strcmp(class_name, "Permute") == 0) return ascends(json_object_get(config, "dims"));
    if (strcmp(class_name, "Transpose") == 0) return ascends(json_object_get(config, "axes"));
    if (strcmp(class_name, "Swapaxes") == 0)
        return may_stay(json_object_get(config, "axis1"), json_object_get(config, "axis2"));
    if (strcmp(class_name, "Moveaxis") == 0)
        return may_stay(json_object_get(config, "source"), json_object_get(config, "destination"));
    return strcmp(class_name, "GetItem") == 0 && !has_steps(n->arguments);
}

/* ---- what calls do ---- */

static size_t *turn_end(clq_keras_masks *m, unsigned view, uint32_t tensor) {
    return &m->ends[view][m->same[view][tensor]];
}
static void end_mask(clq_keras_masks *m, unsigned view, uint32_t tensor, size_t turn) {
    size_t *end = turn_end(m, view, tensor);
    *end = CLQ_MIN(*end, turn);
}

static uint32_t tensor_of(const clq_keras_graph *f, const clq_keras_masks *m, const clq_keras_source *from) {
    return from->node == CLQ_KERAS_GIVEN ? m->first[f->node_count] : m->first[from->node] + from->output;
}
static uint32_t input_of(const clq_keras_graph *f, const clq_keras_masks *m, const clq_keras_node *n, uint32_t i) {
    return tensor_of(f, m, &f->sources[n->first_source + i]);
}

/* Ends the masks of the query, the value and the key of MultiHeadAttention. */
static void end_masks(const clq_keras_graph *f, clq_keras_masks *m, unsigned view, const clq_keras_node *n,
                      size_t turn) {
    for (uint32_t i = 0; i < CLQ_MIN(n->positional, 3u); i++) end_mask(m, view, input_of(f, m, n, i), turn);
}

/* Follows a call of an inner model: which masks of its inputs and outputs it ends, and which of its outputs are the
 * very tensor of an input or of another output. */
static void follow_model(const clq_keras_graph *f, clq_keras_masks *m, unsigned view, uint32_t node, size_t turn) {
    const clq_keras_node *n = &f->nodes[node];
    const clq_keras_masks *in = f->inner[n->layer]->masks;
    const uint32_t inputs = (uint32_t)CLQ_MIN(in->input_count, (size_t)(n->source_count - n->masks)),
                   given = m->first[node + 1] - m->first[node];
    for (uint32_t o = 0; o < given && o < in->output_count; o++) {
        const uint32_t y = in->outputs[o], out = m->first[node] + o;
        for (uint32_t p = o; p-- > 0;)
            if (in->same[view][in->outputs[p]] == in->same[view][y]) m->same[view][out] = m->first[node] + p;
        m->same[view][out] = m->same[view][m->same[view][out]];
        for (uint32_t i = 0; i < inputs; i++)
            if (in->same[view][in->inputs[i]] == in->same[view][y])
                m->same[view][out] = m->same[view][input_of(f, m, n, i)];
        if (in->ends[view][y] < SIZE_MAX) end_mask(m, view, out, turn);
    }
    for (uint32_t i = 0; i < inputs; i++)
        if (in->ends[view][in->inputs[i]] < SIZE_MAX) end_mask(m, view, input_of(f, m, n, i), turn);
}

static void follow_call(const clq_keras_graph *f, clq_keras_masks *m, unsigned view, uint32_t node) {
    const clq_keras_node *n = &f->nodes[node];
    json_t *layer = clq_keras_layer_at(f, n->layer);
    const size_t turn = m->turns[node];
    if (clq_keras_is_input(layer) || n->source_count == 0) return;
    if (clq_keras_is_inner_model(layer)) {
        follow_model(f, m, view, node, turn);
        return;
    }
    const clq_keras_sameness same = clq_keras_find_sameness(clq_keras_class(layer), json_object_get(layer, "config"));
    if (same == CLQ_KERAS_SAME || (same == CLQ_KERAS_SAME_UNTRAINED && view == EVALUATION))
        m->same[view][m->first[node]] = m->same[view][input_of(f, m, n, 0)];
    if (clq_keras_block_ends_mask(layer)) end_mask(m, view, input_of(f, m, n, 0), turn);
    if (!clq_keras_is_model(layer) && clq_keras_ends_masks(layer)) end_masks(f, m, view, n, turn);
}

/* ---- a graph ---- */

static clq_status find_turns(const clq_keras_graph *f, clq_keras_masks *m, const clq_keras_source *outputs) {
    size_t *layers = clq_alloc(f->node_count, sizeof *layers), *ends = clq_alloc(f->node_count, sizeof *ends),
           *inputs = clq_alloc(CLQ_MAX(f->source_count, 1u), sizeof *inputs),
           *last = clq_alloc(m->output_count, sizeof *last), count = 0;
    clq_status status = layers && ends && inputs && last ? CLQ_OK : CLQ_ERROR_MEMORY;
    for (uint32_t k = 0; k < f->node_count && status == CLQ_OK; k++) {
        const clq_keras_node *n = &f->nodes[k];
        layers[k] = n->layer;
        for (uint32_t i = 0; i < n->source_count; i++) {
            const uint32_t from = f->sources[n->first_source + i].node;
            if (from != CLQ_KERAS_GIVEN) inputs[count++] = from;
        }
        ends[k] = count;
    }
    for (size_t i = 0; i < m->output_count && status == CLQ_OK; i++) last[i] = outputs[i].node;
    const clq_keras_calls calls = {.layer_count = json_array_size(f->layers),
                                   .call_count = f->node_count,
                                   .layer_of = layers,
                                   .inputs = inputs,
                                   .input_end = ends,
                                   .outputs = last,
                                   .output_count = m->output_count};
    if (status == CLQ_OK) status = clq_keras_find_turns(&calls, m->turns);
    clq_free(layers);
    clq_free(ends);
    clq_free(inputs);
    clq_free(last);
    return status;
}

/* Gives each node as many tensors as any call, or the graph's outputs, ask for. */
static void number_tensors(const clq_keras_graph *f, clq_keras_masks *m, const clq_keras_source *outputs) {
    uint32_t next = 0;
    for (uint32_t k = 0; k < f->node_count; k++) m->first[k] = 1;
    for (uint32_t i = 0; i < f->source_count; i++)
        if (f->sources[i].node != CLQ_KERAS_GIVEN)
            m->first[f->sources[i].node] = CLQ_MAX(m->first[f->sources[i].node], f->sources[i].output + 1);
    for (size_t i = 0; i < m->output_count; i++)
        if (outputs[i].node != CLQ_KERAS_GIVEN)
            m->first[outputs[i].node] = CLQ_MAX(m->first[outputs[i].node], outputs[i].output + 1);
    for (uint32_t k = 0; k <= f->node_count; k++) {
        const uint32_t count = k < f->node_count ? m->first[k] : 0;
        m->first[k] = next;
        next += count;
    }
}

static clq_status follow(const clq_keras_graph *f, clq_keras_masks *m) {
    const uint32_t tensors = m->first[f->node_count] + 1;
    uint32_t *by_turn = clq_alloc(f->node_count, sizeof *by_turn), run = 0;
    if (!by_turn) return CLQ_ERROR_MEMORY;
    for (uint32_t k = 0; k < f->node_count; k++) {
        if (m->turns[k] == SIZE_MAX) continue;
        by_turn[m->turns[k]] = k;
        run++;
    }
    for (unsigned v = 0; v < VIEWS; v++) {
        m->same[v] = clq_alloc(tensors, sizeof *m->same[v]);
        m->ends[v] = clq_alloc(tensors, sizeof *m->ends[v]);
        if (!m->same[v] || !m->ends[v]) break;
        for (uint32_t t = 0; t < tensors; t++) m->same[v][t] = t;
        for (uint32_t t = 0; t < tensors; t++) m->ends[v][t] = SIZE_MAX;
        for (uint32_t k = 0; k < run; k++) follow_call(f, m, v, by_turn[k]);
        for (uint32_t t = 0; t < tensors; t++) m->ends[v][t] = *turn_end(m, v, t);
    }
    clq_free(by_turn);
    return m->same[VIEWS - 1] && m->ends[VIEWS - 1] ? CLQ_OK : CLQ_ERROR_MEMORY;
}

static clq_status note_heeded(const clq_keras_graph *f, clq_keras_masks *m) {
    const uint32_t *same = m->same[EVALUATION];
    m->heeded = clq_alloc(m->first[f->node_count] + 1, sizeof *m->heeded);
    if (!m->heeded) return CLQ_ERROR_MEMORY;
    for (uint32_t k = 0; k < f->node_count; k++) {
        const clq_keras_node *n = &f->nodes[k];
        json_t *layer = clq_keras_layer_at(f, n->layer);
        if (m->turns[k] == SIZE_MAX || !(clq_keras_is_model(layer) || clq_keras_heeds_masks(layer))) continue;
        for (uint32_t i = 0; i < n->source_count; i++) {
            size_t *last = &m->heeded[same[input_of(f, m, n, i)]];
            *last = CLQ_MAX(*last, m->turns[k]);
        }
    }
    for (size_t i = 0; i < m->output_count; i++) m->heeded[same[m->outputs[i]]] = SIZE_MAX;
    for (size_t i = 0; i < m->input_count && f->scope; i++) /* of an inner model: layers around it may read them */
        m->heeded[same[m->inputs[i]]] = SIZE_MAX;
    return CLQ_OK;
}

clq_status clq_keras_note_masks(clq_keras_graph *f, const clq_keras_source *inputs, size_t input_count,
                                const clq_keras_source *outputs, size_t output_count) {
    clq_keras_masks *m = f->masks = clq_alloc(1, sizeof *m);
    if (!m) return CLQ_ERROR_MEMORY;
    m->input_count = input_count;
    m->output_count = output_count;
    m->turns = clq_alloc(f->node_count, sizeof *m->turns);
    m->first = clq_alloc(f->node_count + 1, sizeof *m->first);
    m->inputs = clq_alloc(input_count, sizeof *m->inputs);
    m->outputs = clq_alloc(output_count, sizeof *m->outputs);
    if (!m->turns || !m->first || !m->inputs || !m->outputs) return CLQ_ERROR_MEMORY;
    number_tensors(f, m, outputs);
    for (size_t i = 0; i < input_count; i++) m->inputs[i] = tensor_of(f, m, &inputs[i]);
    for (size_t i = 0; i < output_count; i++) m->outputs[i] = tensor_of(f, m, &outputs[i]);
    CLQ_TRY(find_turns(f, m, outputs));
    CLQ_TRY(follow(f, m));
    return note_heeded(f, m);
}

/* ---- what readers see ---- */

clq_keras_mask_state clq_keras_mask_state_of(const clq_keras_graph *f, const clq_keras_source *from, uint32_t reader) {
    const clq_keras_masks *m = f->masks;
    if (!m) return CLQ_KERAS_MASK_STAYS;
    const size_t turn = reader == CLQ_KERAS_GIVEN ? SIZE_MAX - 1 : m->turns[reader];
    const uint32_t x = tensor_of(f, m, from);
    if (turn == SIZE_MAX) return CLQ_KERAS_MASK_STAYS;
    if (m->ends[TRAINING][x] < turn) return CLQ_KERAS_MASK_ENDED;
    return m->ends[EVALUATION][x] < turn ? CLQ_KERAS_MASK_UNSURE : CLQ_KERAS_MASK_STAYS;
}

bool clq_keras_mixes_masks(const clq_keras_graph *f, const clq_keras_node *n) {
    const clq_keras_masks *m = f->masks, *in = f->inner[n->layer] ? f->inner[n->layer]->masks : NULL;
    if (!m || !in) return false;
    const uint32_t inputs = (uint32_t)CLQ_MIN(in->input_count, (size_t)(n->source_count - n->masks));
    for (uint32_t i = 0; i < inputs; i++)
        for (uint32_t j = 0; j < inputs && in->ends[EVALUATION][in->inputs[i]] < SIZE_MAX; j++)
            if (i != j && m->same[EVALUATION][input_of(f, m, n, i)] == m->same[EVALUATION][input_of(f, m, n, j)])
                return true;
    return false;
}

/* Whether anything that runs after a node may look at the mask of a tensor. */
static bool is_heeded(const clq_keras_graph *f, uint32_t node, uint32_t tensor) {
    const clq_keras_masks *m = f->masks;
    return m->heeded[m->same[EVALUATION][tensor]] > m->turns[node];
}

bool clq_keras_heeds_input(const clq_keras_graph *f, uint32_t node, uint32_t input) {
    return !f->masks || is_heeded(f, node, input_of(f, f->masks, &f->nodes[node], input));
}

bool clq_keras_heeds_output(const clq_keras_graph *f, uint32_t node) {
    return !f->masks || is_heeded(f, node, f->masks->first[node]);
}

unsigned clq_keras_find_masked(const clq_keras_graph *block, const clq_tensor *inputs) {
    unsigned masked = 0;
    for (unsigned i = 0; block->heeded >> i; i++)
        if ((block->heeded >> i & 1) && block->model->tensors[inputs[i].id - 1].mask) masked |= 1u << i;
    return masked;
}

/* ---- masks that are computed twice ---- */

static bool same_attribute(const clq_attribute *row, const void *a, const void *b) {
    json_t *(*write)(const clq_keras_writing *, const void *) = clq_keras_types[row->type].write;
    const clq_keras_writing to = {.row = row};
    const char *left = (const char *)a + row->at, *right = (const char *)b + row->at;
    if (row->type == CLQ_ATTRIBUTE_TENSOR) return *(const size_t *)left == *(const size_t *)right;
    if (!write) return true;
    json_t *one = write(&to, left), *other = write(&to, right);
    const bool same = one && other && json_equal(one, other);
    json_decref(one);
    json_decref(other);
    return same;
}

/* budget: how many pairs of tensors may still be compared. */
static bool same_within(const clq_model *model, uint32_t a, uint32_t b, unsigned depth, unsigned *budget) {
    const clq_model_tensor *x = &model->tensors[a - 1], *y = &model->tensors[b - 1];
    const clq_layer *left = &model->layers[x->layer - 1], *right = &model->layers[y->layer - 1];
    if (a == b) return true;
    if (*budget == 0) return false;
    --*budget;
    if (depth == 0 || left->kind != right->kind || x->input_count != y->input_count || x->input_count == 0 ||
        left->variable_places > 0)
        return false;
    for (size_t i = 0; i < left->kind->attribute_count; i++)
        if (!same_attribute(&left->kind->attributes[i], left->config, right->config)) return false;
    for (uint32_t i = 0; i < x->input_count; i++)
        if (!same_within(model, model->inputs[x->first_input + i], model->inputs[y->first_input + i], depth - 1,
                         budget))
            return false;
    return true;
}

bool clq_keras_same_numbers(const clq_model *model, clq_tensor a, clq_tensor b) {
    enum { DEPTH = 6, PAIRS = 1000 };
    unsigned budget = PAIRS;
    return same_within(model, a.id, b.id, DEPTH, &budget);
}
