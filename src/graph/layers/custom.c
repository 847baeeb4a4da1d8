/* Operations that a program defines itself, as layers. */
#include "graph/custom.h"
#include "graph/layers/layer.h"

#include <math.h>
#include <string.h>

enum { NAME_BYTES = 40, FUNCTION_BYTES = 100 };

/* The config is the operation. The layer owns copies of its texts. */
#define TEXT_ROW(member)                                                                                               \
    { CLQ_LAYER_ATTRIBUTE(#member, CLQ_ATTRIBUTE_COPY, clq_custom_operation, member) }
#define NUMBER_ROW(i)                                                                                                  \
    { CLQ_LAYER_ATTRIBUTE("number" #i, CLQ_ATTRIBUTE_NUMBER, clq_custom_operation, numbers[i]) }
#define FLAG_ROW(member)                                                                                               \
    { CLQ_LAYER_ATTRIBUTE(#member, CLQ_ATTRIBUTE_FLAG, clq_custom_operation, member) }
static const clq_attribute attributes[] = {
    TEXT_ROW(name),          TEXT_ROW(source), TEXT_ROW(forward), TEXT_ROW(backward), FLAG_ROW(unread_inputs),
    FLAG_ROW(unread_output), NUMBER_ROW(0),    NUMBER_ROW(1),     NUMBER_ROW(2),      NUMBER_ROW(3),
    NUMBER_ROW(4),           NUMBER_ROW(5),    NUMBER_ROW(6),     NUMBER_ROW(7),
};
_Static_assert(CLQ_CUSTOM_NUMBERS_MAX == 8, "each number has a row");

/* ---- checks ---- */

/* Whether the text is an identifier of C, of at most `most` bytes. */
static bool is_word(const char *text, size_t most) {
    size_t length = 0;
    while (clq_is_letter(text[length]) || text[length] == '_' || (length > 0 && clq_is_digit(text[length]))) length++;
    return length > 0 && text[length] == '\0' && length <= most;
}

static clq_status check_word(const char *what, const char *text, size_t most) {
    if (text && is_word(text, most)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT,
                    "%s %s%.60s%s should be a letter or '_', and behind it also digits, at most %zu in all", what,
                    text ? "'" : "", text ? text : "NULL", text ? "'" : "", most);
}

clq_status clq_custom_check_operation(const clq_custom_operation *operation) {
    CLQ_TRY(CLQ_RESERVE_CHECK(clq_custom_operation, operation));
    CLQ_TRY(check_word("an operation's name", operation->name, NAME_BYTES));
    CLQ_TRY(check_word("forward's kernel", operation->forward, FUNCTION_BYTES));
    if (operation->backward) CLQ_TRY(check_word("backward's kernel", operation->backward, FUNCTION_BYTES));
    if (!operation->source) return clq_fail(CLQ_ERROR_ARGUMENT, "operation '%s' has no source", operation->name);
    for (unsigned i = 0; i < CLQ_CUSTOM_NUMBERS_MAX; i++)
        if (!isfinite((float)operation->numbers[i]))
            return clq_fail(CLQ_ERROR_ARGUMENT, "operation '%s': number %u, %g, should be finite", operation->name, i,
                            operation->numbers[i]);
    return CLQ_OK;
}

static clq_status check_variables(const clq_custom_operation *operation, const clq_custom_shapes *s) {
    if (s->variable_count > CLQ_CUSTOM_VARIABLES_MAX || s->kept_count > CLQ_CUSTOM_KEPT_MAX ||
        s->input_count + s->variable_count > CLQ_CUSTOM_VALUES_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "%zu inputs, %zu variables and %zu kept values are too many: %d variables, %d inputs and "
                        "variables together, and %d kept values are supported",
                        s->input_count, s->variable_count, s->kept_count, CLQ_CUSTOM_VARIABLES_MAX,
                        CLQ_CUSTOM_VALUES_MAX, CLQ_CUSTOM_KEPT_MAX);
    if (s->variable_count > 0 && !operation->backward)
        return clq_fail(CLQ_ERROR_ARGUMENT, "it has variables, and no kernel for backward that trains them");
    for (size_t i = 0; i < s->variable_count; i++) {
        const clq_custom_variable *v = &s->variables[i];
        size_t elements;
        CLQ_TRY(check_word("a variable's name", v->name, NAME_BYTES));
        for (size_t k = 0; k < i; k++)
            if (strcmp(s->variables[k].name, v->name) == 0)
                return clq_fail(CLQ_ERROR_ARGUMENT, "two variables are '%s': give one of them another name", v->name);
        clq_status status = clq_shape_elements(&v->shape, &elements);
        if (status == CLQ_OK) status = clq_initialiser_check(&v->initialiser);
        if (status == CLQ_OK) status = clq_initialiser_check_shape(&v->initialiser, &v->shape);
        if (status != CLQ_OK) return clq_fail_within(status, "variable '%s'", v->name);
    }
    return CLQ_OK;
}

static clq_status set_items(const clq_custom_operation *operation, clq_custom_shapes *s) {
    size_t output, input, kept;
    CLQ_TRY(clq_shape_elements(&s->output, &output));
    CLQ_TRY(clq_shape_elements(&s->inputs[0], &input));
    for (size_t i = 0; i < s->kept_count; i++) CLQ_TRY(clq_shape_elements(&s->kept[i], &kept));
    if (s->forward_items == 0) s->forward_items = output;
    if (s->backward_items == 0) s->backward_items = input;
    if (s->forward_items > INT32_MAX || s->backward_items > INT32_MAX)
        return clq_fail(CLQ_ERROR_ARGUMENT, "%zu and %zu work-items for a sample are too many", s->forward_items,
                        s->backward_items);
    if (s->group > CLQ_CUSTOM_GROUP_MOST ||
        (s->group > 0 && (s->forward_items % s->group || (operation->backward && s->backward_items % s->group))))
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "a work-group of %zu should have at most %d work-items, and divide the %zu and %zu of a sample",
                        s->group, CLQ_CUSTOM_GROUP_MOST, s->forward_items, s->backward_items);
    if (!(s->operations >= 0 && isfinite(s->operations)))
        return clq_fail(CLQ_ERROR_ARGUMENT, "%g operations for a sample should be finite and at least 0",
                        s->operations);
    if (s->operations == 0) s->operations = (double)output;
    return CLQ_OK;
}

clq_status clq_custom_infer(const clq_custom_operation *operation, const clq_shape *inputs, size_t count,
                            clq_custom_shapes *out) {
    clq_custom_shapes s = {.input_count = count, .output = inputs[0]};
    for (size_t i = 0; i < count; i++) s.inputs[i] = inputs[i];
    const clq_status refused = operation->infer ? operation->infer(operation->user, &s) : CLQ_OK;
    if (refused != CLQ_OK) {
        char text[CLQ_SHAPE_TEXT_MAX];
        return clq_fail(refused, "operation '%s' refuses inputs of these shapes, the first of which is %s: %s",
                        operation->name, clq_shape_describe(&inputs[0], text), clq_status_text(refused));
    }
    s.input_count = count; /* the operation may not change its inputs */
    for (size_t i = 0; i < count; i++) s.inputs[i] = inputs[i];
    clq_status status = check_variables(operation, &s);
    if (status == CLQ_OK) status = set_items(operation, &s);
    if (status != CLQ_OK) return clq_fail_within(status, "operation '%s'", operation->name);
    *out = s;
    return CLQ_OK;
}

/* ---- the layer ---- */

static clq_status infer_shapes(const clq_model *model, const clq_layer *layer, const clq_model_tensor *y,
                               clq_custom_shapes *out) {
    clq_shape inputs[CLQ_CUSTOM_INPUTS_MAX];
    for (uint32_t i = 0; i < y->input_count; i++) inputs[i] = clq_model_input_of(model, y, i)->shape;
    return clq_custom_infer(layer->config, inputs, y->input_count, out);
}

static clq_status infer(const clq_model *model, const clq_layer *layer, clq_model_tensor *y) {
    clq_custom_shapes shapes;
    CLQ_TRY(infer_shapes(model, layer, y, &shapes));
    y->shape = shapes.output;
    return CLQ_OK;
}

static clq_status declare(clq_model *model, clq_layer *layer, const clq_model_tensor *y) {
    clq_custom_shapes shapes;
    CLQ_TRY(infer_shapes(model, layer, y, &shapes));
    for (unsigned i = 0; i < shapes.variable_count; i++) {
        const clq_custom_variable *v = &shapes.variables[i];
        clq_variable_kind kind = {.what = v->name, .initialiser = v->initialiser};
        if (kind.initialiser.kind == CLQ_INITIALISER_DEFAULT) kind.initialiser.kind = CLQ_INITIALISER_CONSTANT;
        CLQ_TRY(clq_model_declare_variable(model, layer, i, v->shape, &kind));
    }
    return CLQ_OK;
}

static clq_id expand(clq_expansion *e, const clq_id *x) {
    const clq_custom_operation *operation = e->layer->config;
    clq_custom_shapes s;
    const clq_status status = infer_shapes(e->model, e->layer, e->y, &s);
    if (status != CLQ_OK) {
        clq_graph_fail(e->graph, clq_fail_within(status, "layer '%s'", e->layer->name));
        return 0;
    }
    clq_node node = clq_expand_node(e, operation->backward ? &clq_op_custom : &clq_op_custom_constant);
    node.attributes.custom = (struct clq_custom_attributes){.operation = operation,
                                                            .inputs = (unsigned)s.input_count,
                                                            .variables = (unsigned)s.variable_count,
                                                            .kept = (unsigned)s.kept_count,
                                                            .forward_items = s.forward_items,
                                                            .backward_items = s.backward_items,
                                                            .group = s.group,
                                                            .operations = s.operations};
    for (unsigned i = 0; i < s.input_count; i++) node.inputs[i] = x[i];
    for (unsigned i = 0; i < s.variable_count; i++) node.inputs[s.input_count + i] = clq_expand_weight(e, i);
    node.outputs[0] = clq_expand_value(e, &e->y->shape, e->y->elements);
    for (unsigned i = 0; i < s.kept_count; i++) {
        size_t elements = 0;
        (void)clq_shape_elements(&s.kept[i], &elements); /* as it was inferred */
        node.outputs[1 + i] = clq_expand_value(e, &s.kept[i], elements);
    }
    return clq_graph_add_node(e->graph, &node);
}

static void release(void *config) {
    const clq_custom_operation *operation = config;
    if (operation->destroy) operation->destroy(operation->user);
}

static const clq_layer_kind custom_kind = {.type = "Custom",
                                           .stem = "custom",
                                           .module = "clique",
                                           .inputs = {1, CLQ_CUSTOM_INPUTS_MAX},
                                           CLQ_LAYER_CONFIG(clq_custom_operation, attributes),
                                           .release = release,
                                           .infer = infer,
                                           .declare = declare,
                                           .expand = expand};

/* ---- the builder ---- */

/* Once the layer is added, the model destroys `user`. Until then it is the caller's. */
static bool add(clq_model *model, const clq_custom_operation *operation, const clq_tensor *inputs, size_t count,
                const char *name, clq_tensor *out) {
    clq_custom_operation copy = *operation;
    const clq_status status = clq_custom_check_operation(operation);
    copy.destroy = NULL;
    *out = status == CLQ_OK ? clq_model_add_layer(model, &custom_kind, name, &copy, inputs, count)
                            : clq_model_fail(model, status, name ? name : custom_kind.stem);
    if (out->id == 0) return false;
    clq_custom_operation *own = model->layers[model->tensors[out->id - 1].layer - 1].config;
    own->destroy = operation->destroy;
    return true;
}

clq_tensor clq_custom(clq_model *model, const clq_custom_operation *operation, const clq_tensor *inputs, size_t count,
                      const char *name) {
    clq_tensor y;
    if (!operation) return clq_model_fail(model, clq_fail(CLQ_ERROR_ARGUMENT, "the operation is NULL"), "custom");
    if (!add(model, operation, inputs, count, name, &y) && operation->destroy) operation->destroy(operation->user);
    return y;
}
