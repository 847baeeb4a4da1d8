/* clique/generate.h: text by a trained model, one token after another.
 *
 * The model takes (context) numbers of tokens and gives (context, vocabulary): behind each token the probabilities of
 * the next one, or logits. So it was trained on texts whose labels are the same texts one token later.
 *
 * Where each layer makes a token of the tokens in front of it alone, as causal attention does, a new token costs one
 * token's work: keys and values of the others are kept on the device (cached; Shazeer, 2019). Any other model is run
 * over the whole window for each token, with token 0 behind the text.
 *
 * The window: a model knows `context` places. When they are full, the last context / 2 tokens move to its begin, what
 * is kept of them is computed anew, and the text goes on behind them.
 *
 * Thread rules: a generator is used by one thread at a time. The model and the system must outlive it. Calls return
 * when their work is done. No pointer may be NULL, unless said. What fails on a device (DEVICE, DEVICE_MEMORY, BUILD,
 * TIMEOUT, MEMORY: "…" below) leaves the generator as it was, so that the call may be tried again, unless the device is
 * lost. */
#ifndef CLIQUE_GENERATE_H
#define CLIQUE_GENERATE_H

#include <clique/train.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct clq_generator clq_generator;

/* All zero is the default. */
typedef struct clq_generator_config {
    bool whole_window;          /* nothing is kept of earlier tokens: for comparison */
    const char *disabled_paths; /* as of clq_trainer_config; of effect is "one launch". NULL: none */
    uint64_t reserved[4];       /* 0 */
} clq_generator_config;

/* On the first of the devices, with all weights zero: set or load weights next. Compiles kernels: seconds the first
 * time on a machine. config and devices are copied; config NULL: the default. Errors: STATE (the model is not
 * finished), ARGUMENT (a device out of range), UNSUPPORTED (the model does not take (context) and give (context,
 * vocabulary); several inputs or outputs; more than 2^24 tokens), NO_DEVICE, … */
CLQ_API clq_status clq_generator_create(const clq_model *model, const clq_devices *devices,
                                        const clq_generator_config *config, clq_generator **out);
CLQ_API void clq_generator_destroy(clq_generator *generator); /* takes NULL */

/* The weights of a file that clq_trainer_save wrote, or of a trainer of the same model, which are copied.
 * The text begins anew. Errors: as of clq_trainer_load; ARGUMENT (a trainer of another model), as of
 * clq_trainer_get_variable, … */
CLQ_API clq_status clq_generator_load(clq_generator *generator, const char *path);
CLQ_API clq_status clq_generator_take_weights(clq_generator *generator, clq_trainer *trainer);

/* The text goes on with tokens[count], each a number below the vocabulary. What they make is computed when it is first
 * asked for, several tokens at once. count may be 0. Errors: ARGUMENT (a token that is none, or that a layer has no row
 * for; nothing is added then). */
CLQ_API clq_status clq_generator_feed(clq_generator *generator, const uint32_t *tokens, size_t count);
/* The text is empty again; weights stay. */
CLQ_API void clq_generator_reset(clq_generator *generator);

/* out (vocabulary): logits of the token behind the text, natural logarithms of the probabilities but for a summand that
 * all have. Errors: STATE (the text is empty, or there are no weights), … */
CLQ_API clq_status clq_generator_logits(clq_generator *generator, float *out);

/* How a token is drawn. All zero: the most probable one, of equals the first. */
typedef struct clq_sampling {
    double temperature;   /* logits are divided by it, at least 0; 0: the most probable token */
    uint32_t top_k;       /* among so many of the most probable ones (Fan et al., 2018); 0: all */
    double top_p;         /* among the fewest whose probabilities reach this together (Holtzman et al., 2020), behind
                             top_k; above 0, below 1; 0 and 1: all */
    uint64_t seed;        /* of the numbers, which depend on the seed and the token's place in the text alone */
    uint64_t reserved[4]; /* 0 */
} clq_sampling;
/* Draws the next token and adds it to the text. Errors: as of clq_generator_logits; ARGUMENT (a number out of range),
 * NOT_FINITE (what the model gives is not), MISMATCH (a layer of the model has no row for the token that was drawn; it
 * is not added). */
CLQ_API clq_status clq_generator_next(clq_generator *generator, const clq_sampling *how, uint32_t *token);

typedef struct clq_generator_info {
    size_t context, vocabulary;
    uint64_t tokens;     /* of the text */
    bool cached;         /* keys and values are kept */
    char reason[256];    /* why not; "" where they are */
    size_t weight_bytes; /* of the weights that are read once for a token, or for several at once: all but tables of
                            which a token has a row */
    size_t cache_bytes;  /* of what is kept, for `context` tokens; 0 where nothing is */
    uint64_t computed;   /* tokens so far, those of prompts and of moved windows among them */
    uint64_t read_bytes; /* of weights and of what is kept, for all these */
    uint64_t reserved[4];
} clq_generator_info;
CLQ_API void clq_generator_get_info(const clq_generator *generator, clq_generator_info *out);

#ifdef __cplusplus
}
#endif
#endif
