/* clique/generate.h: text from a trained model, one token after another.
 *
 * The model takes (context) token numbers and gives (context, vocabulary): after each token the next token's
 * probabilities, or logits. Such a model is trained on texts whose labels are the same texts one token later.
 *
 * If each layer computes a token from the tokens before it alone, as causal attention does, the other tokens' keys and
 * values are kept on the device (cached; Shazeer, 2019): a new token then costs one token's work. Any other model is
 * run over the complete window for each token, with token 0 after the text.
 *
 * The window: a model has `context` places. When they are full, the last context / 2 tokens move to the beginning, what
 * is kept for them is computed anew, and the text continues after them.
 *
 * Thread rules: one thread at a time uses a generator. The model and the system must outlive it. A call returns when
 * its work is done. No pointer may be NULL, unless said.
 *
 * Device errors in this header are DEVICE, DEVICE_MEMORY, BUILD, TIMEOUT and MEMORY. They leave the generator
 * unchanged, so that the call may be repeated, unless the device is lost. */
#ifndef CLIQUE_GENERATE_H
#define CLIQUE_GENERATE_H

#include <clique/train.h>

#ifdef __cplusplus
extern "C" {
#endif

/* A text that a model continues, with what it keeps of it. From clq_generator_create to clq_generator_destroy. */
typedef struct clq_generator clq_generator;

/* All zero is the default. */
typedef struct clq_generator_config {
    bool whole_window; /* keep nothing for earlier tokens: for comparison */
    /* Fast paths to switch off, as in clq_trainer_config; "one launch" has an effect. NULL: none. */
    const char *disabled_paths;
    uint64_t reserved[4]; /* 0 */
} clq_generator_config;

/* Makes a generator on the first of the devices. It has no weights yet: load or take them next. Compiles kernels:
 * seconds the first time on a machine. config and devices are copied; config NULL: the default. The caller destroys
 * *out. Errors: STATE (the model is not finished), ARGUMENT (a device out of range), UNSUPPORTED (the model does not
 * take (context) and give (context, vocabulary); several inputs or outputs; more than 2^24 tokens), NO_DEVICE, device
 * errors. */
CLQ_API clq_status clq_generator_create(const clq_model *model, const clq_devices *devices,
                                        const clq_generator_config *config, clq_generator **out);
CLQ_API void clq_generator_destroy(clq_generator *generator); /* takes NULL */

/* Takes weights from a file that clq_trainer_save wrote. The text becomes empty. Errors: those of clq_trainer_load;
 * device errors. */
CLQ_API clq_status clq_generator_load(clq_generator *generator, const char *path);
/* Copies the weights from a trainer whose model is the same. The text becomes empty. Errors: ARGUMENT (the trainer has
 * another model), those of clq_trainer_get_variable; device errors. */
CLQ_API clq_status clq_generator_take_weights(clq_generator *generator, clq_trainer *trainer);

/* Appends tokens[count] to the text; count may be 0. Each token is a number below the vocabulary. The model runs over
 * them when a result is first asked for, several tokens at once. Errors: ARGUMENT (a number that is no token, or for
 * which a layer has no row; nothing is appended). */
CLQ_API clq_status clq_generator_feed(clq_generator *generator, const uint32_t *tokens, size_t count);
/* Makes the text empty; weights stay. */
CLQ_API void clq_generator_reset(clq_generator *generator);

/* Writes the next token's logits into out (vocabulary), the caller's. A logit is the probability's natural logarithm
 * plus a number that is the same for all tokens. Errors: STATE (the text is empty, or there are no weights), device
 * errors. */
CLQ_API clq_status clq_generator_logits(clq_generator *generator, float *out);

/* How a token is drawn. All zero: the most probable token; of equally probable ones the first. */
typedef struct clq_sampling {
    double temperature; /* logits are divided by it; at least 0. 0: the most probable token */
    /* Draw among this many of the most probable tokens (Fan et al., 2018). 0: all. */
    uint32_t top_k;
    /* Draw among the fewest tokens whose probabilities add up to this (Holtzman et al., 2020); applies after top_k.
     * From 0 to 1; 0 and 1: all. */
    double top_p;
    /* Seed for the random numbers, which depend on the seed and the token's place in the text alone. */
    uint64_t seed;
    uint64_t reserved[4]; /* 0 */
} clq_sampling;
/* Draws the next token, writes it to *token, and appends it to the text. Errors: those of clq_generator_logits;
 * ARGUMENT (a number out of range), NOT_FINITE (the model's output is not finite), MISMATCH (a layer has no row for the
 * token that was drawn; it is not appended). */
CLQ_API clq_status clq_generator_next(clq_generator *generator, const clq_sampling *how, uint32_t *token);

/* A generator's sizes, and what it has read and computed. */
typedef struct clq_generator_info {
    size_t context, vocabulary;
    uint64_t tokens;  /* in the text */
    bool cached;      /* keys and values are kept */
    char reason[256]; /* why they are not kept; "" if they are */
    /* Weights that are read once for a token, or for several tokens at once: all but tables in which a token has a
     * row. */
    size_t weight_bytes;
    size_t cache_bytes; /* what is kept for `context` tokens; 0 if nothing is */
    /* Tokens that were computed so far, including those in prompts and in moved windows. */
    uint64_t computed;
    uint64_t read_bytes; /* bytes that these read: weights, and what is kept */
    uint64_t reserved[4];
} clq_generator_info;
/* Describes the generator at this time; does not wait. */
CLQ_API void clq_generator_get_info(const clq_generator *generator, clq_generator_info *out);

#ifdef __cplusplus
}
#endif
#endif
