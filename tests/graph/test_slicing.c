/* Which variables of a model are split among ranks, and what the slices are. */
#include "graph/step/step.h"
#include "support/check.h"

#include <string.h>

static clq_tensor units(clq_model *m, clq_tensor x, size_t count, clq_activation activation) {
    return clq_dense(m, x, &(clq_dense_config){.units = count, .activation = activation});
}

/* ---- models ---- */

static clq_status chain(clq_model *m, clq_tensor x) {
    x = units(m, x, 8, CLQ_ACTIVATION_RELU);
    x = clq_dropout(m, clq_flatten(m, x, NULL), NULL);
    for (int i = 0; i < 3; i++) x = units(m, clq_activate(m, x, CLQ_ACTIVATION_MISH, NULL), 8, CLQ_ACTIVATION_TANH);
    return clq_model_finish(m, units(m, x, 8, CLQ_ACTIVATION_SOFTMAX));
}
static clq_status softmax_between(clq_model *m, clq_tensor x) {
    return clq_model_finish(m, units(m, units(m, x, 8, CLQ_ACTIVATION_SOFTMAX), 4, CLQ_ACTIVATION_LINEAR));
}
static clq_status read_by_an_output(clq_model *m, clq_tensor x) {
    const clq_tensor y = units(m, x, 8, CLQ_ACTIVATION_RELU), z = units(m, y, 4, CLQ_ACTIVATION_RELU);
    return clq_model_finish_outputs(m, CLQ_TENSORS(y, units(m, z, 4, CLQ_ACTIVATION_LINEAR)));
}
static clq_status two_readers(clq_model *m, clq_tensor x) {
    const clq_tensor y = units(m, x, 8, CLQ_ACTIVATION_RELU);
    return clq_model_finish_outputs(
        m, CLQ_TENSORS(units(m, y, 4, CLQ_ACTIVATION_LINEAR), units(m, y, 4, CLQ_ACTIVATION_SOFTMAX)));
}
static clq_status gated(clq_model *m, clq_tensor x) {
    const clq_tensor y =
        clq_multiply(m, CLQ_TENSORS(units(m, x, 8, CLQ_ACTIVATION_SIGMOID), units(m, x, 8, CLQ_ACTIVATION_TANH)), NULL);
    return clq_model_finish(m, units(m, y, 2, CLQ_ACTIVATION_LINEAR));
}
/* The shared layer's second use reads its own output, which would be in slices. The first use reads a whole tensor. */
static clq_status shared_on_both_sides(clq_model *m, clq_tensor x) {
    const clq_tensor y = units(m, x, 8, CLQ_ACTIVATION_RELU), z = units(m, y, 8, CLQ_ACTIVATION_RELU);
    return clq_model_finish(m, units(m, clq_share(m, z, z), 4, CLQ_ACTIVATION_LINEAR));
}
static clq_status shared_alike(clq_model *m, clq_tensor x) {
    const clq_tensor y = units(m, x, 8, CLQ_ACTIVATION_RELU),
                     again = clq_share(m, y, clq_activate(m, x, CLQ_ACTIVATION_TANH, NULL));
    return clq_model_finish(m, units(m, clq_add(m, CLQ_TENSORS(y, again), NULL), 4, CLQ_ACTIVATION_LINEAR));
}
static clq_status few_units(clq_model *m, clq_tensor x) {
    x = units(m, units(m, x, 2, CLQ_ACTIVATION_RELU), 8, CLQ_ACTIVATION_RELU);
    return clq_model_finish(m, units(m, x, 2, CLQ_ACTIVATION_LINEAR));
}
static clq_status too_few_units(clq_model *m, clq_tensor x) {
    return clq_model_finish(m, units(m, units(m, x, 2, CLQ_ACTIVATION_RELU), 2, CLQ_ACTIVATION_LINEAR));
}
static clq_status of_rows(clq_model *m, clq_tensor x) {
    x = units(m, clq_reshape(m, x, CLQ_SHAPE(3, 2), NULL), 5, CLQ_ACTIVATION_RELU);
    return clq_model_finish(m, units(m, x, 2, CLQ_ACTIVATION_LINEAR));
}
/* The flatten joins rows, so the second layer's rows are not the first layer's columns. */
static clq_status joined_rows(clq_model *m, clq_tensor x) {
    x = units(m, clq_reshape(m, x, CLQ_SHAPE(3, 2), NULL), 5, CLQ_ACTIVATION_RELU);
    return clq_model_finish(m, units(m, clq_flatten(m, x, NULL), 2, CLQ_ACTIVATION_LINEAR));
}
static clq_tensor tokens(clq_model *m, clq_tensor x) { return clq_reshape(m, x, CLQ_SHAPE(3, 2), NULL); }
static clq_tensor heads(clq_model *m, clq_tensor x, size_t count) {
    return clq_attention(m, &x, 1, &(clq_attention_config){.heads = count, .key = 2, .dropout = 0.1, .causal = true});
}
static clq_status whole_heads(clq_model *m, clq_tensor x) {
    x = clq_layer_norm(m, heads(m, tokens(m, x), 4), NULL);
    return clq_model_finish(m, units(m, clq_flatten(m, x, NULL), 8, CLQ_ACTIVATION_LINEAR));
}
/* The heads are too few to split. Of the other layers, only the last one has enough units. */
static clq_status few_heads(clq_model *m, clq_tensor x) {
    return clq_model_finish(m, units(m, clq_flatten(m, heads(m, tokens(m, x), 2), NULL), 3, CLQ_ACTIVATION_LINEAR));
}
/* Keys and values are computed from the samples, queries from a layer norm of them. */
static clq_status of_others(clq_model *m, clq_tensor x) {
    const clq_tensor others = tokens(m, x), queries = clq_layer_norm(m, others, NULL);
    x = clq_attention(m, CLQ_TENSORS(queries, others), &(clq_attention_config){.heads = 3, .key = 2, .value = 3});
    return clq_model_finish(m, x);
}
/* The projections could be split by rows after the Dense layer. Splitting by heads wins, as that chain is longer. */
static clq_status behind_units(clq_model *m, clq_tensor x) {
    x = clq_activate(m, units(m, tokens(m, x), 4, CLQ_ACTIVATION_LINEAR), CLQ_ACTIVATION_TANH, NULL);
    return clq_model_finish(m, heads(m, x, 4));
}
static clq_tensor rows(clq_model *m, clq_tensor x, size_t count) {
    return clq_embedding(m, x, &(clq_embedding_config){.rows = count, .width = 4});
}
/* A table's columns are split and joined, but not if a sample has as many numbers as the table has rows. */
static clq_status tables(clq_model *m, clq_tensor x) {
    const clq_tensor many = rows(m, x, 7), few = rows(m, x, 6);
    x = clq_layer_norm(m, clq_add(m, CLQ_TENSORS(many, few), NULL), NULL);
    return clq_model_finish(m, clq_global_average_pool(m, x, false, NULL));
}
/* The mean keeps the table's columns apart, so the Dense layer behind it is split by rows. */
static clq_status table_of_a_chain(clq_model *m, clq_tensor x) {
    return clq_model_finish(m,
                            units(m, clq_global_average_pool(m, rows(m, x, 3), false, NULL), 2, CLQ_ACTIVATION_LINEAR));
}
/* Not a column and row pair: the sum of the gates' inputs over the ranks would be larger than the rows looked up. */
static clq_status table_of_a_recurrence(clq_model *m, clq_tensor x) {
    clq_recurrent_config config = clq_recurrent_config_default(6);
    config.no_bias = true;
    x = clq_recurrent(m, rows(m, x, 9), CLQ_CELL_LSTM, &config);
    return clq_model_finish(m, units(m, x, 6, CLQ_ACTIVATION_LINEAR));
}

/* A scale or shift that all pairs of units share stays whole. */
static clq_status normed_pairs(clq_model *m, clq_tensor x) {
    x = clq_layer_norm(m, clq_reshape(m, units(m, x, 8, CLQ_ACTIVATION_LINEAR), CLQ_SHAPE(4, 2), NULL), NULL);
    return clq_model_finish(m, units(m, clq_flatten(m, x, NULL), 2, CLQ_ACTIVATION_LINEAR));
}

/* split: how 3 ranks split each kernel in turn: c columns, r rows, j columns, joined again, . whole. NULL: refused. */
static const struct {
    clq_status (*build)(clq_model *m, clq_tensor x);
    const char *split;
} cases[] = {{chain, "crcr."},     {softmax_between, "jj"},  {read_by_an_output, ".cr"},
             {two_readers, "crr"}, {gated, "ccr"},           {shared_on_both_sides, "jjj"},
             {shared_alike, "cr"}, {few_units, ".cr"},       {too_few_units, NULL},
             {of_rows, "cr"},      {joined_rows, "j."},      {whole_heads, "cccr.."},
             {few_heads, "....j"}, {of_others, ".cccr"},     {behind_units, ".cccr"},
             {tables, "j.."},      {table_of_a_chain, "cr"}, {table_of_a_recurrence, "jj.j"},
             {normed_pairs, "c.r"}};

static clq_model *build(size_t i) {
    clq_model *model;
    assert_ok(clq_model_create("sliced", &model));
    assert_ok(cases[i].build(model, clq_input(model, CLQ_SHAPE(6))));
    return model;
}

static char split_of(const clq_slicing *slicing, const clq_variable *variable, size_t index) {
    const clq_weight_slice slice = clq_slicing_of(slicing, 1, index);
    if (!clq_weight_slice_is_part(&slice, variable)) return '.';
    return slice.rows ? 'r' : slice.joined ? 'j' : 'c';
}

static void layers_are_split_in_pairs(void **state) {
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(cases); i++) {
        clq_model *model = build(i);
        clq_slicing *slicing = NULL;
        char split[8] = {0};
        size_t layers = 0;
        if (!cases[i].split) {
            assert_fails(CLQ_ERROR_ARGUMENT,
                         "nothing that 3 devices could split: no Dense layer of at least 3 units that can be split, no "
                         "attention of as many heads, no Embedding as wide that a Dense layer follows, or that has "
                         "more rows than a sample has numbers; use the strategy mirrored, or fewer devices",
                         clq_slicing_create(model, 3, &slicing));
            assert_null(slicing);
            clq_model_destroy(model);
            continue;
        }
        assert_ok(clq_slicing_create(model, 3, &slicing));
        for (uint32_t v = 0; v < model->variable_count; v++) {
            const char how = split_of(slicing, &model->variables[v], v);
            if (!model->variables[v].is_bias) {
                split[layers++] = how;
                continue;
            }
            const char kernel = split[layers - 1]; /* its bias goes with the columns */
            assert_int_equal(how == '.', kernel == 'r' || kernel == '.');
        }
        if (strcmp(split, cases[i].split) != 0) fail_msg("case %zu: %s, not %s", i, split, cases[i].split);
        clq_slicing_destroy(slicing);
        clq_model_destroy(model);
    }
}

/* Slices lie one after the other, their sizes differ by at most one, and together they are the variable. */
static void slices_are_the_variable(void **state) {
    (void)state;
    clq_model *model = build(0);
    for (unsigned ranks = 1; ranks <= 8; ranks++) {
        clq_slicing *slicing;
        assert_ok(clq_slicing_create(model, ranks, &slicing));
        for (uint32_t v = 0; v < model->variable_count; v++) {
            const clq_variable *variable = &model->variables[v];
            float whole[64], part[64], back[64] = {0};
            size_t end = 0, elements = 0;
            assert_true(variable->elements <= CLQ_COUNT_OF(whole));
            for (size_t i = 0; i < variable->elements; i++) whole[i] = (float)i + 1;
            for (unsigned r = 0; r < ranks; r++) {
                const clq_weight_slice slice = clq_slicing_of(slicing, r, v);
                const size_t units = variable->shape.dims[slice.axis];
                clq_weight_slice_cut(&slice, variable, whole, part);
                clq_weight_slice_paste(&slice, variable, part, back);
                elements += clq_weight_slice_elements(&slice, variable);
                if (!clq_weight_slice_is_part(&slice, variable)) continue;
                assert_int_equal(slice.first, end);
                assert_true(slice.count == units / ranks || slice.count == clq_ceil_div(units, ranks));
                end += slice.count;
            }
            assert_memory_equal(back, whole, variable->elements * sizeof *whole);
            assert_int_equal(elements, variable->elements * (end ? 1 : ranks));
        }
        clq_slicing_destroy(slicing);
    }
    clq_model_destroy(model);
}

/* 4 heads of 2 channels each: 3 ranks have 1, 1 and 2 heads. */
static void parts_are_whole_heads(void **state) {
    (void)state;
    clq_model *model;
    clq_slicing *slicing;
    assert_ok(clq_model_create("heads", &model));
    assert_ok(whole_heads(model, clq_input(model, CLQ_SHAPE(6))));
    assert_ok(clq_slicing_create(model, 3, &slicing));
    static const size_t first[] = {0, 1, 2}, counts[] = {1, 1, 2};
    for (uint32_t v = 0; v < 8; v++) {
        const clq_variable *variable = &model->variables[v];
        for (unsigned r = 0; r < 3; r++) {
            const clq_weight_slice slice = clq_slicing_of(slicing, r, v);
            const bool whole = v == 7; /* the output's bias */
            assert_int_equal(clq_weight_slice_is_part(&slice, variable), !whole);
            if (whole) continue;
            assert_int_equal(variable->shape.dims[slice.axis], 4);
            assert_int_equal(slice.first, first[r]);
            assert_int_equal(slice.count, counts[r]);
        }
    }
    clq_slicing_destroy(slicing);
    clq_model_destroy(model);
}

/* A rank with a whole bias but only some columns of its kernel. */
static void a_slice_is_missing(void **state) {
    (void)state;
    const clq_plan_config config = {.mode = CLQ_MODE_TRAIN, .capacity = 1};
    clq_weight_slice slices[16];
    clq_model *model = build(0);
    clq_slicing *slicing;
    clq_graph graph = {.model = model};
    assert_ok(clq_slicing_create(model, 2, &slicing));
    assert_true(model->variable_count <= CLQ_COUNT_OF(slices) && model->variables[1].is_bias);
    for (uint32_t v = 0; v < model->variable_count; v++) slices[v] = clq_slicing_of(slicing, 0, v);
    slices[1] = (clq_weight_slice){.count = model->variables[1].elements};
    const clq_pass_context context = {.config = &config, .slices = slices};
    clq_graph_expand(&graph, &context);
    assert_ok(clq_error_raise(&graph.error));
    clq_graph_cut(&graph, &context);
    assert_fails(CLQ_ERROR_INTERNAL, "layer 'dense': of dense/bias a part is needed, and the rank has all of it",
                 clq_error_raise(&graph.error));
    clq_graph_release(&graph);
    clq_slicing_destroy(slicing);
    clq_model_destroy(model);
}

/* Cuts columns 2 and 3, then the second row, from a (2, 6) kernel. Slices are stored row by row. */
static void slices_are_cut_along_their_axis(void **state) {
    (void)state;
    const clq_variable variable = {.shape = CLQ_SHAPE(2, 6), .elements = 12};
    const float whole[12] = {0, 1, 2, 3, 4, 5, 10, 11, 12, 13, 14, 15};
    const float columns[4] = {2, 3, 12, 13}, row[6] = {10, 11, 12, 13, 14, 15};
    float out[6];
    clq_weight_slice_cut(&(clq_weight_slice){.axis = 1, .first = 2, .count = 2}, &variable, whole, out);
    assert_memory_equal(out, columns, sizeof columns);
    clq_weight_slice_cut(&(clq_weight_slice){.axis = 0, .first = 1, .count = 1}, &variable, whole, out);
    assert_memory_equal(out, row, sizeof row);
}

static clq_status create_slicing(void *model) {
    clq_slicing *slicing = NULL;
    clq_status status = clq_slicing_create(model, 2, &slicing);
    assert_true((status == CLQ_OK) == (slicing != NULL));
    clq_slicing_destroy(slicing);
    return status;
}

static void any_allocation_fails(void **state) {
    (void)state;
    clq_model *model = build(0);
    assert_true(walk_allocations(create_slicing, model) > 8);
    clq_model_destroy(model);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(layers_are_split_in_pairs), cmocka_unit_test(slices_are_the_variable),
        cmocka_unit_test(parts_are_whole_heads),     cmocka_unit_test(slices_are_cut_along_their_axis),
        cmocka_unit_test(a_slice_is_missing),        cmocka_unit_test(any_allocation_fails)};
    return cmocka_run_group_tests_name("graph/slicing", tests, NULL, NULL);
}
