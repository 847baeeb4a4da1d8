/* Expressions read from text, by recursive descent: comparison, sum, product, sign, power, value. */
#include "graph/layers/expression.h"

#include <math.h>
#include <string.h>

enum { NONE = UINT32_MAX, OPERANDS = 3, NUMBER_BYTES = 64 };

typedef struct parser {
    const char *text, *at;
    size_t inputs;
    const char *const *variables;
    size_t variable_count;
    unsigned depth;
    bool reads_inputs[CLQ_EXPRESSION_INPUTS_MAX], reads_variables[CLQ_EXPRESSION_VARIABLES_MAX];
    clq_expression_tree *tree;
    clq_status status; /* the first failure, at which reading stops */
} parser;

/* ---- failures ---- */

/* Notes a failure: the message says what was expected at this place. */
static clq_status fail_at(parser *p, const char *at, const char *expected) {
    const size_t place = (size_t)(at - p->text) + 1;
    if (p->status != CLQ_OK) return p->status;
    if (*at)
        p->status =
            clq_fail(CLQ_ERROR_ARGUMENT, "expression '%.200s': character %zu: expected %s", p->text, place, expected);
    else
        p->status = clq_fail(CLQ_ERROR_ARGUMENT, "expression '%.200s': at its end: expected %s", p->text, expected);
    return p->status;
}

/* ---- terms ---- */

static unsigned add(parser *p, clq_term term) {
    if (p->status != CLQ_OK) return 0;
    if (p->tree->count == CLQ_EXPRESSION_TERMS_MAX) {
        p->status = clq_fail(CLQ_ERROR_ARGUMENT,
                             "expression '%.60s...' is too long: make several of it, with at most %d "
                             "numbers, names, operators and functions each",
                             p->text, CLQ_EXPRESSION_TERMS_MAX);
        return 0;
    }
    for (unsigned i = 0; i < term.operand_count; i++)
        term.by_element = term.by_element || p->tree->terms[term.operands[i]].by_element;
    p->tree->terms[p->tree->count] = term;
    return p->tree->count++;
}

static unsigned add_number(parser *p, double number) {
    if (p->status == CLQ_OK && !isfinite((float)number))
        p->status =
            clq_fail(CLQ_ERROR_ARGUMENT, "expression '%.200s': its numbers come to %g, which is no finite float32",
                     p->text, number);
    return add(p, (clq_term){.kind = CLQ_TERM_NUMBER, .number = number});
}

static bool is_number(const parser *p, unsigned term, double *number) {
    if (p->status != CLQ_OK || p->tree->terms[term].kind != CLQ_TERM_NUMBER) return false;
    *number = p->tree->terms[term].number;
    return true;
}

static double square(double x) { return x * x; }

/* Functions by name. `of` computes the function of a known number; NULL: such calls stay calls. */
static const struct function {
    const char *name;
    unsigned operands;
    clq_element_op op;
    double (*of)(double);
} functions[] = {
    {"abs", 1, CLQ_ELEMENT_ABS, fabs},         {"cos", 1, CLQ_ELEMENT_COS, cos},
    {"erf", 1, CLQ_ELEMENT_ERF, erf},          {"exp", 1, CLQ_ELEMENT_EXP, exp},
    {"expm1", 1, CLQ_ELEMENT_EXPM1, expm1},    {"log", 1, CLQ_ELEMENT_LOG, log},
    {"log1p", 1, CLQ_ELEMENT_LOG1P, log1p},    {"max", 2, CLQ_ELEMENT_MAXIMUM, NULL},
    {"min", 2, CLQ_ELEMENT_MINIMUM, NULL},     {"sign", 1, CLQ_ELEMENT_SIGN, NULL},
    {"sin", 1, CLQ_ELEMENT_SIN, sin},          {"sqrt", 1, CLQ_ELEMENT_SQRT, sqrt},
    {"square", 1, CLQ_ELEMENT_SQUARE, square}, {"where", 3, CLQ_ELEMENT_SELECT, NULL},
};

static unsigned add_unary(parser *p, clq_element_op op, double (*of)(double), unsigned a) {
    double number;
    if (of && is_number(p, a, &number)) return add_number(p, of(number));
    return add(p, (clq_term){.kind = CLQ_TERM_CALL, .op = op, .operand_count = 1, .operands = {a}});
}

static double negative(double x) { return -x; }

/* Two numbers become one number. A product with one number becomes an instruction of one operand. */
static unsigned add_binary(parser *p, clq_element_op op, unsigned a, unsigned b) {
    double left, right;
    const bool first = is_number(p, a, &left), second = is_number(p, b, &right);
    if (first && second && op == CLQ_ELEMENT_ADD) return add_number(p, left + right);
    if (first && second && op == CLQ_ELEMENT_SUBTRACT) return add_number(p, left - right);
    if (first && second && op == CLQ_ELEMENT_MULTIPLY) return add_number(p, left * right);
    if (first && second && op == CLQ_ELEMENT_DIVIDE) return add_number(p, left / right);
    if (op == CLQ_ELEMENT_MULTIPLY && (first || second))
        return add(p, (clq_term){.kind = CLQ_TERM_CALL,
                                 .op = CLQ_ELEMENT_SCALE,
                                 .number = first ? left : right,
                                 .operand_count = 1,
                                 .operands = {first ? b : a}});
    return add(p, (clq_term){.kind = CLQ_TERM_CALL, .op = op, .operand_count = 2, .operands = {a, b}});
}

static unsigned add_power(parser *p, unsigned base, unsigned exponent) {
    double left, right;
    const bool number = is_number(p, exponent, &right);
    if (number && is_number(p, base, &left)) return add_number(p, pow(left, right));
    if (number && right == 1) return base;
    if (number && right == 2) return add_unary(p, CLQ_ELEMENT_SQUARE, NULL, base);
    if (number)
        return add(p, (clq_term){.kind = CLQ_TERM_CALL,
                                 .op = CLQ_ELEMENT_POWER,
                                 .number = right,
                                 .operand_count = 1,
                                 .operands = {base}});
    const unsigned log_of = add_unary(p, CLQ_ELEMENT_LOG, log, base);
    return add_unary(p, CLQ_ELEMENT_EXP, exp, add_binary(p, CLQ_ELEMENT_MULTIPLY, exponent, log_of));
}

/* ---- words and marks ---- */

static void skip_blanks(parser *p) {
    while (clq_is_space(*p->at)) p->at++;
}

/* Takes the mark if it comes next and is not the beginning of a longer mark. */
static bool take(parser *p, const char *mark) {
    const size_t length = strlen(mark);
    skip_blanks(p);
    if (p->status != CLQ_OK || strncmp(p->at, mark, length) != 0) return false;
    if (length == 1 && mark[0] == '*' && p->at[1] == '*') return false;
    p->at += length;
    return true;
}

static size_t word_length(const char *at) {
    size_t length = 0;
    while (clq_is_letter(at[length]) || at[length] == '_' || (length > 0 && clq_is_digit(at[length]))) length++;
    return length;
}

static bool is_word(const char *at, size_t length, const char *word) {
    return strlen(word) == length && memcmp(at, word, length) == 0;
}

/* Reads digits, a point and an exponent. */
static unsigned read_number(parser *p) {
    char digits[NUMBER_BYTES];
    size_t length = 0;
    const char *begin = p->at;
    while (clq_is_digit(begin[length]) || begin[length] == '.' || begin[length] == 'e' || begin[length] == 'E' ||
           ((begin[length] == '-' || begin[length] == '+') && length > 0 &&
            (begin[length - 1] == 'e' || begin[length - 1] == 'E')))
        length++;
    double number = 0;
    if (length < sizeof digits) {
        memcpy(digits, begin, length);
        digits[length] = '\0';
    }
    if (length >= sizeof digits || !clq_parse_number(digits, &number)) {
        (void)fail_at(p, begin, "a number as 0.5 or 1e-3");
        return 0;
    }
    p->at += length;
    return add_number(p, number);
}

/* ---- names ---- */

/* The input that a name means: x0, x1, …; or x, y, z. NONE: no input can have this name. The expression may have
 * fewer inputs. */
static unsigned input_of(const char *at, size_t length) {
    if (length == 1 && *at >= 'x' && *at <= 'z') return (unsigned)(*at - 'x');
    if (length == 2 && at[0] == 'x' && at[1] >= '0' && at[1] < '0' + CLQ_EXPRESSION_INPUTS_MAX)
        return (unsigned)(at[1] - '0');
    return NONE;
}

/* Finds what a function's name means, as a call whose operands are not known yet. */
static bool function_of(const char *at, size_t length, clq_term *call, double (**of)(double)) {
    char name[NUMBER_BYTES];
    *call = (clq_term){.kind = CLQ_TERM_CALL};
    *of = NULL;
    for (size_t i = 0; i < CLQ_COUNT_OF(functions); i++) {
        if (!is_word(at, length, functions[i].name)) continue;
        call->op = functions[i].op;
        call->operand_count = functions[i].operands;
        *of = functions[i].of;
        return true;
    }
    if (length >= sizeof name) return false;
    memcpy(name, at, length);
    name[length] = '\0';
    call->operand_count = 1;
    return clq_activation_named(name, &call->activation) && call->activation != CLQ_ACTIVATION_LINEAR &&
           call->activation != CLQ_ACTIVATION_SOFTMAX;
}

static unsigned read_comparison(parser *p);

static unsigned read_call(parser *p, clq_term call, double (*of)(double)) {
    if (!take(p, "(")) {
        (void)fail_at(p, p->at, "'(' behind a function's name");
        return 0;
    }
    for (unsigned i = 0; i < call.operand_count; i++) {
        call.operands[i] = read_comparison(p);
        const bool last = i + 1 == call.operand_count;
        if (p->status == CLQ_OK && !take(p, last ? ")" : ","))
            (void)fail_at(p, p->at,
                          !last                     ? "',' and another operand of the function"
                          : call.operand_count == 1 ? "')' behind the function's operand"
                                                    : "')' behind the function's last operand");
    }
    if (p->status != CLQ_OK) return 0;
    return of ? add_unary(p, call.op, of, call.operands[0]) : add(p, call);
}

static unsigned read_name(parser *p) {
    const char *begin = p->at;
    const size_t length = word_length(begin);
    const unsigned input = input_of(begin, length);
    clq_term call;
    double (*of)(double);
    p->at += length;
    if (input != NONE) {
        if (input >= p->inputs) {
            (void)fail_at(p, begin, "an input that there is");
            return 0;
        }
        p->reads_inputs[input] = true;
        return add(p, (clq_term){.kind = CLQ_TERM_INPUT, .index = input, .by_element = true});
    }
    for (unsigned i = 0; i < p->variable_count; i++) {
        if (!is_word(begin, length, p->variables[i])) continue;
        p->reads_variables[i] = true;
        return add(p, (clq_term){.kind = CLQ_TERM_VARIABLE, .index = i});
    }
    if (function_of(begin, length, &call, &of)) return read_call(p, call, of);
    (void)fail_at(p, begin, "the name of an input, a variable of the config, or a function");
    return 0;
}

/* ---- the grammar ---- */

static unsigned read_value(parser *p) {
    skip_blanks(p);
    if (clq_is_digit(*p->at) || *p->at == '.') return read_number(p);
    if (word_length(p->at) > 0) return read_name(p);
    if (!take(p, "(")) {
        (void)fail_at(p, p->at, "a number, a name or '('");
        return 0;
    }
    const unsigned value = read_comparison(p);
    if (p->status == CLQ_OK && !take(p, ")")) (void)fail_at(p, p->at, "an operator or ')'");
    return value;
}

/* A sign binds less tightly than a power. It may still begin an exponent: 2^-x. */
static unsigned read_sign(parser *p) {
    unsigned value;
    if (++p->depth > CLQ_EXPRESSION_DEPTH_MAX && p->status == CLQ_OK)
        p->status =
            clq_fail(CLQ_ERROR_ARGUMENT, "expression '%.60s...' is too deep: parentheses, signs and powers go %d deep",
                     p->text, CLQ_EXPRESSION_DEPTH_MAX);
    if (p->status != CLQ_OK) return 0;
    if (take(p, "-")) {
        value = add_unary(p, CLQ_ELEMENT_NEGATE, negative, read_sign(p));
    } else if (take(p, "+")) {
        value = read_sign(p);
    } else {
        value = read_value(p);
        if (take(p, "^") || take(p, "**")) value = add_power(p, value, read_sign(p));
    }
    p->depth--;
    return value;
}

static unsigned read_product(parser *p) {
    unsigned value = read_sign(p);
    while (p->status == CLQ_OK) {
        if (take(p, "*"))
            value = add_binary(p, CLQ_ELEMENT_MULTIPLY, value, read_sign(p));
        else if (take(p, "/"))
            value = add_binary(p, CLQ_ELEMENT_DIVIDE, value, read_sign(p));
        else
            break;
    }
    return value;
}

static unsigned read_sum(parser *p) {
    unsigned value = read_product(p);
    while (p->status == CLQ_OK) {
        if (take(p, "+"))
            value = add_binary(p, CLQ_ELEMENT_ADD, value, read_product(p));
        else if (take(p, "-"))
            value = add_binary(p, CLQ_ELEMENT_SUBTRACT, value, read_product(p));
        else
            break;
    }
    return value;
}

/* Longer marks come first, because the first mark that fits is taken. */
static const struct comparison {
    const char *mark;
    clq_element_op op;
    bool turned, negated;
} comparisons[] = {{"<=", CLQ_ELEMENT_AT_LEAST, true, false}, {">=", CLQ_ELEMENT_AT_LEAST, false, false},
                   {"==", CLQ_ELEMENT_EQUAL, false, false},   {"!=", CLQ_ELEMENT_EQUAL, false, true},
                   {"<", CLQ_ELEMENT_GREATER, true, false},   {">", CLQ_ELEMENT_GREATER, false, false}};

static unsigned read_comparison(parser *p) {
    unsigned value = read_sum(p);
    const struct comparison *found = NULL;
    for (size_t i = 0; i < CLQ_COUNT_OF(comparisons) && !found; i++)
        if (take(p, comparisons[i].mark)) found = &comparisons[i];
    if (!found) return value;
    const unsigned other = read_sum(p);
    value = add_binary(p, found->op, found->turned ? other : value, found->turned ? value : other);
    return found->negated ? add_binary(p, CLQ_ELEMENT_SUBTRACT, add_number(p, 1), value) : value;
}

/* ---- the whole ---- */

static clq_status check_variables(const parser *p) {
    for (size_t i = 0; i < p->variable_count; i++) {
        const char *name = p->variables[i];
        const size_t length = strlen(name);
        clq_term call;
        double (*of)(double);
        if (length == 0 || word_length(name) != length || length >= CLQ_LAYER_NAME_MAX)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "variable '%.60s' should be a letter or '_', and behind it also digits, at most %d in all",
                            name, CLQ_LAYER_NAME_MAX - 1);
        if (input_of(name, length) != NONE || function_of(name, length, &call, &of))
            return clq_fail(CLQ_ERROR_ARGUMENT, "variable '%s' has the name of an input or a function: give it another",
                            name);
        for (size_t k = 0; k < i; k++)
            if (strcmp(p->variables[k], name) == 0)
                return clq_fail(CLQ_ERROR_ARGUMENT, "two variables are '%s': give one of them another name", name);
    }
    return CLQ_OK;
}

static clq_status check_reads(const parser *p) {
    for (size_t i = 0; i < p->inputs; i++)
        if (!p->reads_inputs[i])
            return clq_fail(CLQ_ERROR_ARGUMENT, "expression '%.200s' does not read input x%zu, of %zu: leave that out",
                            p->text, i, p->inputs);
    for (size_t i = 0; i < p->variable_count; i++)
        if (!p->reads_variables[i])
            return clq_fail(CLQ_ERROR_ARGUMENT, "expression '%.200s' does not read variable '%s': leave that out",
                            p->text, p->variables[i]);
    return CLQ_OK;
}

clq_status clq_expression_parse(const char *text, size_t inputs, const char *const *variables, size_t variable_count,
                                clq_expression_tree *out) {
    clq_expression_tree tree = {.count = 0};
    parser p = {.text = text,
                .at = text,
                .inputs = inputs,
                .variables = variables,
                .variable_count = variable_count,
                .tree = &tree};
    CLQ_TRY(check_variables(&p));
    const unsigned whole = read_comparison(&p);
    skip_blanks(&p);
    if (p.status == CLQ_OK && *p.at) (void)fail_at(&p, p.at, "an operator or the end");
    if (p.status == CLQ_OK) p.status = check_reads(&p);
    if (p.status != CLQ_OK) return p.status;
    tree.count = whole + 1; /* terms behind it are unused: a power of 1 gives back its base */
    *out = tree;
    return CLQ_OK;
}
