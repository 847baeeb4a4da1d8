/* Expressions: values against the same formulas in C, in double; refused texts, with the place of each error; lack of
 * memory. graph/step_graph compares derivatives with finite differences, and train/own_layers does so on devices. */
#include "graph/layers/expression.h"
#include "ref/graph_interpret.h"
#include "support/check.h"

#include <math.h>

enum { COUNT = 2, ROWS = 3, CHANNELS = 2, EACH = ROWS * CHANNELS, SAMPLE = EACH + CHANNELS + EACH };

/* ---- values ---- */

/* The value of one element. Inputs: x (3, 2), y (2) and z (3, 2). a is one number, b has a number per channel. */
typedef double formula(double x, double y, double z, double a, double b);
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }

#define FORMULA(name, text)                                                                                            \
    static double name(double x, double y, double z, double a, double b) {                                             \
        (void)x, (void)y, (void)z, (void)a, (void)b;                                                                   \
        return (text);                                                                                                 \
    }
FORMULA(swish, x *sigmoid(a *x))
FORMULA(itself, x)
FORMULA(precedence, 2 - x - y * z / 4 + -pow(x, 2) - -x)
FORMULA(powers, pow(2, pow(3, 2)) * x + pow(1.5 + y, -2) + pow(2, x) + pow(2 + z, y) + pow(x, 3))
FORMULA(functions, fabs(x) + cos(y) + erf(z) + exp(x) + expm1(y) + log(2 + z) + log1p(fabs(x)) + sin(y) + tanh(z))
FORMULA(more_functions, fmax(x, y) - fmin(x, 0.25) + sqrt(x * x) + sigmoid(y) * fmax(z, 0) + log(1 + exp(x)))
FORMULA(signs, (x > 0) - (x < 0) + (y > 0 ? 2 : -z) * (x <= z) - 3 * (y >= z) + 5 * (x != x) + 7 * (x == x))
FORMULA(by_variables, exp(a) * b * x + (x < b ? a : b) / 3)
FORMULA(numbers, 0.5 * x * (1 + tanh(sqrt(2 / 3.141592653589793) * (x + 0.044715 * pow(x, 3)))) + 1e-3 + 2.5e+1 + .5)
FORMULA(chosen, x > y && x > 0 ? x / (1.5 + y * y) : z - 1)

static const struct expression {
    const char *text;
    size_t inputs, variables;
    formula *of;
} expressions[] = {
    {"x*sigmoid(a*x)", 1, 1, swish},
    {" x0 ", 1, 0, itself},
    {"+x ** 1", 1, 0, itself},
    {"2 - x - y*z/4 + -x^2 - -x", 3, 0, precedence},
    {"2^3^2*x + (1.5+y)**-2 + 2^x + (2+x2)^x1 + x^3", 3, 0, powers},
    {"abs(x)+cos(y)+erf(z)+exp(x)+expm1(y)+log(2+z)+log1p(abs(x))+sin(y)+tanh(z)", 3, 0, functions},
    {"max(x,y)-min(x,0.25)+sqrt(square(x))+sigmoid(y)*relu(z)+softplus(x)", 3, 0, more_functions},
    {"sign(x) + where(y>0,2,-z)*(x<=z) - 3*(y>=z) + 5*(x!=x) + 7*(x==x)", 3, 0, signs},
    {"exp(a)*b*x + where(x<b, a, b)/3", 1, 2, by_variables},
    {"0.5*x*(1+tanh(sqrt(2/3.141592653589793)*(x+0.044715*x^3)))+1e-3+2.5E+1+.5", 1, 0, numbers},
    {"where(where(x > y, x > 0, 0),\n\tx/(1.5+y^2), z-1)", 3, 0, chosen},
};

static const clq_expression_config both = {
    .variables = {{.name = "a", .value = 0.75}, {.name = "b", .value = 0.5, .by_channel = true}}};

static clq_model *model_of(const char *text, size_t inputs, size_t variables) {
    static const clq_shape shapes[] = {{2, {ROWS, CHANNELS}}, {1, {CHANNELS}}, {2, {ROWS, CHANNELS}}};
    clq_expression_config config = both;
    clq_model *model;
    clq_tensor x[3];
    config.variables[variables].name = NULL;
    assert_ok(clq_model_create("expressions", &model));
    clq_inputs(model, shapes, NULL, 3, x);
    /* Reads all inputs, whichever of them the expression reads. */
    clq_tensor last = clq_expression(model, "0*x + 0*y + 0*z", CLQ_TENSORS(x[0], x[1], x[2]), NULL);
    clq_tensor y = clq_expression(model, text, x, inputs, variables ? &config : NULL);
    assert_ok(clq_model_finish(model, clq_add(model, CLQ_TENSORS(y, last), NULL)));
    return model;
}

static void interpret(const clq_model *model, const double *samples, const double *const *weights, bool unfused,
                      double *out) {
    const clq_plan_config config = {
        .capacity = COUNT, .sample_dtype = CLQ_F32, .mode = CLQ_MODE_PREDICT, .unfused_graph = unfused};
    const clq_pass_context context = {.config = &config};
    clq_graph graph = {0};
    assert_ok(clq_graph_build(&graph, model, &context, NULL, NULL));
    ref_interpret(&graph, &(ref_inputs){.count = COUNT, .samples = samples, .weights = weights},
                  &(ref_outputs){.outputs = {out}});
    clq_graph_release(&graph);
}

static void check_values(const struct expression *e, bool unfused) {
    const double a = -0.5, b[CHANNELS] = {0.25, -0.125};
    const double *const weights[] = {&a, b};
    double samples[COUNT * SAMPLE], got[COUNT * EACH];
    clq_random random = clq_random_start(3, 0);
    clq_model *model = model_of(e->text, e->inputs, e->variables);
    for (size_t i = 0; i < CLQ_COUNT_OF(samples); i++) samples[i] = clq_random_unit(&random) * 2 - 1;
    interpret(model, samples, weights, unfused, got);
    for (size_t i = 0; i < CLQ_COUNT_OF(got); i++) {
        const double *of = samples + i / EACH * SAMPLE;
        const double want =
            e->of(of[i % EACH], of[EACH + i % CHANNELS], of[EACH + CHANNELS + i % EACH], a, b[i % CHANNELS]);
        if (!(fabs(got[i] - want) <= 1e-7 * fmax(1, fabs(want)))) /* a program's constants are float32 */
            fail_msg("%s: [%zu] is %.17g and not %.17g", e->text, i, got[i], want);
    }
    clq_model_destroy(model);
}

static void values_are_those_of_the_formula(void **state) {
    (void)state;
    for (size_t i = 0; i < 2 * CLQ_COUNT_OF(expressions); i++) check_values(&expressions[i / 2], i % 2);
}

/* A whole expression is one node if it fits. */
static void an_expression_is_one_kernel(void **state) {
    (void)state;
    const clq_plan_config config = {.capacity = COUNT, .sample_dtype = CLQ_F32, .mode = CLQ_MODE_PREDICT};
    const clq_pass_context context = {.config = &config};
    clq_graph graph = {0};
    clq_model *model;
    unsigned nodes = 0;
    assert_ok(clq_model_create("swish", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(4));
    clq_expression_config one = both;
    one.variables[1].name = NULL;
    assert_ok(clq_model_finish(
        model, clq_activate(model, clq_expression(model, "x*sigmoid(a*x)", &x, 1, &one), CLQ_ACTIVATION_TANH, NULL)));
    assert_ok(clq_graph_build(&graph, model, &context, NULL, NULL));
    for (uint32_t n = 0; n < graph.node_count; n++) nodes += graph.nodes[n].op == &clq_op_elementwise;
    assert_int_equal(nodes, 1);
    clq_graph_release(&graph);
    clq_model_destroy(model);
}

/* ---- what is refused ---- */

static void check_refused(const char *text, size_t inputs, const clq_expression_config *config, const char *says) {
    clq_model *model;
    clq_tensor x[CLQ_EXPRESSION_INPUTS_MAX + 1];
    assert_ok(clq_model_create("refused", &model));
    x[0] = clq_input(model, CLQ_SHAPE(4));
    for (size_t i = 1; i < CLQ_COUNT_OF(x); i++) x[i] = x[0];
    assert_fails(CLQ_ERROR_ARGUMENT, says, clq_model_finish(model, clq_expression(model, text, x, inputs, config)));
    assert_null(strchr(clq_error_detail(), '\n'));
    clq_model_destroy(model);
}

static void malformed_texts_are_refused_with_their_place(void **state) {
    static const struct {
        const char *text, *says;
        size_t inputs;
    } bad[] = {
        {"", "layer 'expression': expression '': at its end: expected a number, a name or '('", 1},
        {"  \n", "at its end: expected a number, a name or '('", 1},
        {"x +", "at its end: expected a number, a name or '('", 1},
        {"x * * 2", "character 5: expected a number, a name or '('", 1},
        {"x ^ ^ 2", "character 5: expected a number, a name or '('", 1},
        {"(x", "at its end: expected an operator or ')'", 1},
        {"x)", "character 2: expected an operator or the end", 1},
        {"()", "character 2: expected a number, a name or '('", 1},
        {"x x", "character 3: expected an operator or the end", 1},
        {"2x", "character 2: expected an operator or the end", 1},
        {"x $ 2", "character 3: expected an operator or the end", 1},
        {"x = 2", "character 3: expected an operator or the end", 1},
        {"x < 1 < 2", "character 7: expected an operator or the end", 1},
        {"\xc3\xa4", "character 1: expected a number, a name or '('", 1},
        {"x + q", "character 5: expected the name of an input, a variable of the config, or a function", 1},
        {"x + y", "character 5: expected an input that there is", 1},
        {"x + x9", "character 5: expected the name of an input", 1},
        {"x + softmax(x)", "character 5: expected the name of an input", 1},
        {"linear(x)", "character 1: expected the name of an input", 1},
        {"exp x", "character 5: expected '(' behind a function's name", 1},
        {"exp", "at its end: expected '(' behind a function's name", 1},
        {"exp()", "character 5: expected a number, a name or '('", 1},
        {"exp(x, 1)", "character 6: expected ')' behind the function's operand", 1},
        {"max(x)", "character 6: expected ',' and another operand of the function", 1},
        {"where(x, 1, 2, 3)", "character 14: expected ')' behind the function's last operand", 1},
        {"1.2.3 * x", "character 1: expected a number as 0.5 or 1e-3", 1},
        {"1e * x", "character 1: expected a number as 0.5 or 1e-3", 1},
        {". * x", "character 1: expected a number as 0.5 or 1e-3", 1},
        {"1e60 * x", "its numbers come to 1e+60, which is no finite float32", 1},
        {"x / (1 / 0)", "its numbers come to inf, which is no finite float32", 1},
        {"x + log(-1)", "its numbers come to ", 1},
        {"1 + 2", "does not read input x0, of 1: leave that out", 1},
        {"x * z", "does not read input x1, of 3: leave that out", 3},
        {"x", "an expression has 1 to 8 inputs, not 9", 9},
        {"x", "an expression has 1 to 8 inputs, not 0", 0},
        {NULL, "the expression is NULL", 1},
    };
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++) check_refused(bad[i].text, bad[i].inputs, NULL, bad[i].says);
}

/* Texts such as "((((x))))". */
static void long_and_deep_texts_are_refused(void **state) {
    char text[2000];
    (void)state;
    for (unsigned kind = 0; kind < 3; kind++) {
        const unsigned many = kind == 2 ? CLQ_EXPRESSION_TERMS_MAX / 2 + 1 : CLQ_EXPRESSION_DEPTH_MAX;
        text[0] = '\0';
        for (unsigned i = 0; i < many; i++) strcat(text, kind == 0 ? "(" : kind == 1 ? "-" : "x+");
        strcat(text, "x");
        for (unsigned i = 0; i < many && kind == 0; i++) strcat(text, ")");
        check_refused(text, 1, NULL,
                      kind < 2 ? "is too deep: parentheses, signs and powers go 32 deep" : "is too long: make several");
    }
    memset(text, ' ', sizeof text - 1);
    text[sizeof text - 1] = '\0';
    check_refused(text, 1, NULL, "at its end: expected a number, a name or '('");
}

static void variables_are_checked(void **state) {
    static const struct {
        clq_expression_variable variables[2];
        const char *says;
    } bad[] = {
        {{{.name = ""}}, "variable '' should be a letter or '_'"},
        {{{.name = "1a"}}, "variable '1a' should be a letter or '_'"},
        {{{.name = "a/b"}}, "variable 'a/b' should be a letter or '_'"},
        {{{.name = "y"}}, "variable 'y' has the name of an input or a function: give it another"},
        {{{.name = "x7"}}, "variable 'x7' has the name of an input or a function"},
        {{{.name = "gelu"}}, "variable 'gelu' has the name of an input or a function"},
        {{{.name = "a"}, {.name = "a"}}, "two variables are 'a': give one of them another name"},
        {{{.name = "a"}, {.name = "c"}}, "does not read variable 'c': leave that out"},
        {{{.name = "a", .value = NAN}}, "variable 'a': its value nan should be finite"},
    };
    (void)state;
    for (size_t i = 0; i < CLQ_COUNT_OF(bad); i++) {
        const clq_expression_config config = {.variables = {bad[i].variables[0], bad[i].variables[1]}};
        check_refused("a * x", 1, &config, bad[i].says);
    }
    const clq_expression_config named = {.variables = {{.name = "a"}, {.name = "b"}, {.name = "c"}, {.name = "d"}},
                                         .name = "own"};
    check_refused("a * x", 1, &named, "layer 'own': expression 'a * x' does not read variable 'b'");
}

/* If too many variables or numbers are combined before an input, the derivative would not fit in one kernel. */
static void what_meets_before_an_input_is_limited(void **state) {
    const clq_expression_config config = {.variables = {{.name = "a"}, {.name = "b"}, {.name = "c"}}};
    const clq_plan_config plan = {.capacity = COUNT, .sample_dtype = CLQ_F32, .mode = CLQ_MODE_PREDICT};
    const clq_pass_context context = {.config = &plan};
    clq_graph graph = {0};
    clq_model *model;
    (void)state;
    assert_ok(clq_model_create("many", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(4));
    assert_ok(clq_model_finish(model, clq_expression(model, "(a + b * c) * x", &x, 1, &config)));
    assert_fails(CLQ_ERROR_UNSUPPORTED, "too many variables or numbers meet before an input does: change the order",
                 clq_graph_build(&graph, model, &context, NULL, NULL));
    clq_graph_release(&graph);
    clq_model_destroy(model);
}

/* ---- memory ---- */

static clq_status build(void *context) {
    const clq_plan_config config = {.capacity = COUNT, .sample_dtype = CLQ_F32, .mode = CLQ_MODE_PREDICT};
    const clq_pass_context passes = {.config = &config};
    clq_graph graph = {0};
    clq_model *model;
    (void)context;
    CLQ_TRY(clq_model_create("memory", &model));
    clq_tensor x = clq_input(model, CLQ_SHAPE(4));
    clq_status status = clq_model_finish(model, clq_expression(model, "exp(a)*b*x + where(x<b, a, b)/3", &x, 1, &both));
    if (status == CLQ_OK) status = clq_graph_build(&graph, model, &passes, NULL, NULL);
    clq_graph_release(&graph);
    clq_model_destroy(model);
    return status;
}

static void expressions_run_out_of_memory(void **state) {
    (void)state;
    assert_true(walk_allocations(build, NULL) >= 10);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(values_are_those_of_the_formula),
                                       cmocka_unit_test(an_expression_is_one_kernel),
                                       cmocka_unit_test(malformed_texts_are_refused_with_their_place),
                                       cmocka_unit_test(long_and_deep_texts_are_refused),
                                       cmocka_unit_test(variables_are_checked),
                                       cmocka_unit_test(what_meets_before_an_input_is_limited),
                                       cmocka_unit_test(expressions_run_out_of_memory)};
    return cmocka_run_group_tests_name("graph/expression", tests, NULL, NULL);
}
