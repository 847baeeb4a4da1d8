/* clique generate: generates text by saved weights, token by token. */
#include "cli/cli.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BYTES = 256, PROMPT_MOST = 1 << 26 };

typedef struct generation {
    clq_generator *generator;
    clq_sampling sampling;
    uint32_t *prompt, *tokens; /* prompt: what is given. tokens: what is generated; NULL without --json */
    size_t prompt_count;
    float *logits;
    clq_generator_info info;  /* as it was before the first token */
    double prompt_s, seconds; /* prompt_s: of the prompt. seconds: of all tokens after the first */
    double limit;             /* bytes per second of the device's memory */
    bool is_seen;             /* the text goes to a terminal */
    unsigned char last;       /* the last byte that was written */
    uint64_t read_bytes;      /* bytes read by all tokens after the first */
} generation;

static clq_status parse_number(const char *option, const char *text, double most, double *out) {
    if (clq_parse_double(text, 0, most, out)) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "--%s '%s': expected a number from 0 to %g", option, text, most);
}

static clq_status parse_sampling(const clq_options *o, clq_sampling *out) {
    *out = (clq_sampling){.top_k = (uint32_t)o->top_k, .seed = o->seed};
    CLQ_TRY(parse_number("temperature", o->temperature, 1e6, &out->temperature));
    CLQ_TRY(parse_number("top-p", o->top_p, 1, &out->top_p));
    if (out->top_p > 0) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "--top-p 0: expected a number above 0");
}

/* ---- the prompt ---- */

/* Makes a token of each byte if the vocabulary is that of bytes, otherwise of each number between white space. */
static clq_status take_tokens(generation *g, const char *text, size_t bytes) {
    g->prompt = clq_alloc(bytes + 1, sizeof *g->prompt);
    if (!g->prompt) return CLQ_ERROR_MEMORY;
    if (g->info.vocabulary == BYTES) {
        for (size_t i = 0; i < bytes; i++) g->prompt[g->prompt_count++] = (unsigned char)text[i];
        return CLQ_OK;
    }
    for (size_t at = 0, length; at < bytes; at += length) {
        static const char space[] = " \t\r\n";
        char word[24];
        uint64_t number;
        at += strspn(text + at, space);
        length = strcspn(text + at, space);
        if (at == bytes) break;
        if (length == 0)
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "byte %zu of the prompt is NUL: expected are numbers with white space between", at);
        (void)snprintf(word, sizeof word, "%.*s", (int)CLQ_MIN(length, sizeof word - 1), text + at);
        if (!clq_parse_u64(word, 0, g->info.vocabulary - 1, &number))
            return clq_fail(CLQ_ERROR_ARGUMENT,
                            "the prompt has '%s': the model has %zu tokens, so expected are numbers from 0 to %zu",
                            word, g->info.vocabulary, g->info.vocabulary - 1);
        g->prompt[g->prompt_count++] = (uint32_t)number;
    }
    return CLQ_OK;
}

static clq_status check_prompt(const clq_options *o) {
    if (o->prompt && o->prompt_file)
        return clq_fail(CLQ_ERROR_ARGUMENT, "--prompt and --prompt-file exclude each other");
    if (o->prompt || o->prompt_file) return CLQ_OK;
    return clq_fail(CLQ_ERROR_ARGUMENT, "--prompt TEXT or --prompt-file FILE is needed: what the text begins with");
}

static clq_status read_prompt(generation *g, const clq_options *o) {
    void *bytes = NULL;
    size_t count = 0;
    if (o->prompt) return take_tokens(g, o->prompt, strlen(o->prompt));
    CLQ_TRY(clq_file_read(o->prompt_file, PROMPT_MOST, &bytes, &count));
    char *text = clq_alloc(count + 1, 1);
    if (text && count > 0) memcpy(text, bytes, count);
    const clq_status status = text ? take_tokens(g, text, count) : CLQ_ERROR_MEMORY;
    clq_free(text);
    clq_free(bytes);
    return status;
}

/* ---- generating ---- */

static clq_status open_generator(clq_setup *s, const clq_options *o, generation *g) {
    const clq_generator_config config = {.whole_window = o->whole_window, .disabled_paths = o->disable_paths};
    if (!o->weights && !clq_model_has_weights(o))
        return clq_fail(CLQ_ERROR_ARGUMENT,
                        "--weights FILE is needed: the weights that clique train --save wrote; or --model "
                        "FILE.keras");
    CLQ_TRY(check_prompt(o));
    CLQ_TRY(parse_sampling(o, &g->sampling));
    CLQ_TRY(clq_setup_model(s, o));
    CLQ_TRY(clq_system_recall(o->devices, &s->recalled));
    CLQ_TRY(clq_setup_devices(s, o));
    CLQ_TRY(clq_generator_create(s->model, &s->devices, &config, &g->generator));
    CLQ_TRY(clq_generator_load(g->generator, o->weights ? o->weights : o->model));
    clq_generator_get_info(g->generator, &g->info);
    if (!g->info.cached && !o->whole_window)
        clq_log(CLQ_LOG_WARNING, "each token takes the whole window's work: %s", g->info.reason);
    CLQ_TRY(read_prompt(g, o));
    if (g->prompt_count == 0)
        return clq_fail(CLQ_ERROR_ARGUMENT, "the prompt is empty: the text begins with a token at least");
    g->logits = clq_alloc(g->info.vocabulary, sizeof *g->logits);
    if (o->json) g->tokens = clq_alloc(o->tokens, sizeof *g->tokens);
    return g->logits && (g->tokens || !o->json) ? CLQ_OK : CLQ_ERROR_MEMORY;
}

/* Whether a terminal would obey the byte: a control character, also one of two bytes in UTF-8. */
static bool steers(unsigned char before, unsigned char byte) {
    const bool control = byte < 0x20 || byte == 0x7f || (before == 0xc2 && byte >= 0x80 && byte < 0xa0);
    return control && byte != '\n' && byte != '\t';
}

/* Writes each token at once, so that it can be read while the next one is computed. */
static clq_status write_token(generation *g, FILE *to, uint32_t token) {
    const unsigned char byte = (unsigned char)token;
    if (g->info.vocabulary == BYTES) {
        (void)putc(g->is_seen && steers(g->last, byte) ? '?' : byte, to);
        g->last = byte;
    } else {
        fprintf(to, "%u ", token);
    }
    return fflush(to) == 0 ? CLQ_OK : clq_fail(CLQ_ERROR_WRITE, "cannot write the text: %s", strerror(errno));
}

static clq_status generate(clq_setup *s, const clq_options *o, generation *g) {
    clq_generator_info first, last;
    double begin = clq_now();
    CLQ_TRY(clq_generator_feed(g->generator, g->prompt, g->prompt_count));
    CLQ_TRY(clq_generator_logits(g->generator, g->logits));
    s->begun = true;
    g->is_seen = isatty(fileno(clq_talk(o)));
    g->prompt_s = clq_now() - begin;
    clq_generator_get_info(g->generator, &first);
    begin = clq_now();
    for (uint64_t i = 0; i < o->tokens; i++) {
        uint32_t token;
        CLQ_TRY(clq_generator_next(g->generator, &g->sampling, &token));
        CLQ_TRY(write_token(g, clq_talk(o), token));
        if (o->json) g->tokens[i] = token;
    }
    if (g->info.vocabulary != BYTES) fputc('\n', clq_talk(o));
    g->seconds = clq_now() - begin;
    clq_generator_get_info(g->generator, &last);
    g->read_bytes = last.read_bytes - first.read_bytes;
    return clq_generator_measure_limit(g->generator, &g->limit);
}

/* ---- telling ---- */

/* The last token does not count: it is drawn, but the model does not process it. */
static double rate_of(const clq_options *o, const generation *g) { return (double)(o->tokens - 1) / g->seconds; }
static double bytes_of(const clq_options *o, const generation *g) {
    return o->tokens > 1 ? (double)g->read_bytes / (double)(o->tokens - 1) : 0;
}

static void print_speed(const clq_options *o, const generation *g) {
    const bool apart = g->info.vocabulary == BYTES && (o->json || isatty(fileno(stdout)));
    const double bytes = bytes_of(o, g), rate = rate_of(o, g);
    if (apart) fputc('\n', stderr);
    clq_fprintf(stderr,
                "%llu tokens, %.0f tokens/s; %s of weights%s each: %.2f GB/s, %.0f%% of the %.2f GB/s that the "
                "device's memory has for so many bytes; prompt: %zu tokens in %.3f s\n",
                (unsigned long long)o->tokens, rate, clq_bytes((uint64_t)bytes).text,
                g->info.cached ? ", keys and values" : "", bytes * rate * 1e-9, 100 * bytes * rate / g->limit,
                g->limit * 1e-9, g->prompt_count, g->prompt_s);
}

static json_t *describe_tokens(const generation *g, size_t count) {
    json_t *list = json_array();
    for (size_t i = 0; i < count; i++) list = clq_json_append(list, json_integer((json_int_t)g->tokens[i]));
    return list;
}

static json_t *describe(const clq_options *o, const generation *g) {
    const double bytes = bytes_of(o, g), rate = rate_of(o, g);
    json_t *result = json_object();
    result = clq_json_put(result, "prompt_tokens", json_integer((json_int_t)g->prompt_count));
    result = clq_json_put(result, "tokens", describe_tokens(g, (size_t)o->tokens));
    result = clq_json_put(result, "cached", json_boolean(g->info.cached));
    result = clq_json_put(result, "prompt_s", clq_json_number(g->prompt_s));
    result = clq_json_put(result, "tokens_per_s", clq_json_number(rate));
    result = clq_json_put(result, "bytes_per_token", clq_json_number(bytes));
    result = clq_json_put(result, "gb_per_s", clq_json_number(bytes * rate * 1e-9));
    return clq_json_put(result, "limit_gb_per_s", clq_json_number(g->limit * 1e-9));
}

clq_status clq_command_generate(clq_setup *s, const clq_options *o) {
    generation g = {.generator = NULL};
    clq_status status = open_generator(s, o, &g);
    if (status == CLQ_OK) status = generate(s, o, &g);
    if (status == CLQ_OK) print_speed(o, &g);
    if (status == CLQ_OK && o->json) status = clq_print_json(describe(o, &g));
    clq_generator_destroy(g.generator);
    clq_free(g.prompt);
    clq_free(g.tokens);
    clq_free(g.logits);
    return status;
}
