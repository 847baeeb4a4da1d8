/* base: what every other layer stands on. Status and error detail, log, memory, threads, barriers that
 * can be aborted, channels, lists of the arrays that samples consist of, counter-based random numbers, hashing,
 * strings, files. Calls no device and builds no model. */
#ifndef CLQ_BASE_H
#define CLQ_BASE_H

#include <clique/status.h>
#include <clique/types.h>

#include <locale.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#define CLQ_PRINTF(text, first) __attribute__((format(printf, text, first)))
#define CLQ_COUNT_OF(array) (sizeof(array) / sizeof((array)[0]))
#define CLQ_MIN(a, b) ((a) < (b) ? (a) : (b))
#define CLQ_MAX(a, b) ((a) > (b) ? (a) : (b))

/* ---- errors (error.c) ---- */

enum { CLQ_DETAIL_MAX = 1024 };

/* Hands a failure up unchanged. */
#define CLQ_TRY(call)                                                                                                  \
    do {                                                                                                               \
        clq_status try_status_ = (call);                                                                               \
        if (try_status_ != CLQ_OK) return try_status_;                                                                 \
    } while (0)

/* Hands a failure to a label that undoes what was done; `status` is the function's own variable. */
#define CLQ_TRY_OR(label, status, call)                                                                                \
    do {                                                                                                               \
        (status) = (call);                                                                                             \
        if ((status) != CLQ_OK) goto label;                                                                            \
    } while (0)

/* Sets this thread's detail and returns `status`. CLQ_ERROR_INTERNAL is for a violated invariant, which no caller's
 * input can violate: its detail begins with "internal error: ". */
clq_status clq_fail(clq_status status, const char *format, ...) CLQ_PRINTF(2, 3);
/* The common failures, each in one wording. Where an allocation fails that is not clq_alloc's, which notes its own
 * failures: "while building a table". Where a lock or condition variable cannot be created, with the error of the
 * pthread function: "a barrier". */
clq_status clq_fail_memory(const char *doing);
clq_status clq_fail_lock(const char *owner, int error);
/* Puts "context: " in front of this thread's detail and returns `status`: callers add what they were doing. */
clq_status clq_fail_within(clq_status status, const char *format, ...) CLQ_PRINTF(2, 3);

/* CLQ_ASK calls a caller's function. Where that fails and leaves no detail, the detail is "WHO returned "STATUS""; an
 * older one is not taken for the function's. */
#define CLQ_ASK(call, ...) (clq_error_clear(), clq_fail_returned((call), __VA_ARGS__))
void clq_error_clear(void);
clq_status clq_fail_returned(clq_status status, const char *who, ...) CLQ_PRINTF(2, 3);

/* A failure that changes threads: taken where it happened, raised where it is reported. */
typedef struct clq_error {
    clq_status status;
    char detail[CLQ_DETAIL_MAX];
} clq_error;
void clq_error_take(clq_status status, clq_error *out);
clq_status clq_error_raise(const clq_error *error);

/* ---- log (log.c) ---- */

void clq_log(clq_log_level level, const char *format, ...) CLQ_PRINTF(2, 3);
bool clq_log_enabled(clq_log_level level);

/* ---- structs of other versions (versions.c) ---- */

/* A struct of the caller's version, `from` with `from_bytes`, as this version's, `to` with `to_bytes`: what it has not
 * is 0. ARGUMENT where it sets what this version does not know. */
clq_status clq_struct_take(const char *what, const void *from, size_t from_bytes, void *to, size_t to_bytes);
/* This version's struct as far as the caller's goes; what is behind is 0. */
void clq_struct_give(const void *from, size_t from_bytes, void *to, size_t to_bytes);
/* ARGUMENT where room for later members is not 0; of: "clq_monitor". */
clq_status clq_reserve_check(const char *of, const void *reserved, size_t bytes);
/* Of a struct with a member `reserved`: CLQ_RESERVE_CHECK(clq_clip, &config->clip). */
#define CLQ_RESERVE_CHECK(type, at) clq_reserve_check(#type, (at)->reserved, sizeof(at)->reserved)

/* ---- memory (memory.c) ---- */

/* Zeroed memory for `count` elements of `size` bytes; the product is checked. NULL only on failure, with the
 * detail set (a count of 0 gives a pointer that may be freed). */
void *clq_alloc(size_t count, size_t size);
/* Grows or shrinks an array; what is new is zeroed. On failure NULL and the old block stays. */
void *clq_realloc(void *block, size_t old_count, size_t new_count, size_t size);
/* An array of *capacity elements with room for one more than `count`: the block itself, or one of twice the capacity,
 * at least `first`. On failure NULL and the old block stays. */
void *clq_grow(void *block, size_t count, size_t *capacity, size_t first, size_t size);
/* As clq_alloc, aligned to `alignment` (a power of two, at least sizeof(void *)). */
void *clq_alloc_aligned(size_t alignment, size_t bytes);
void *clq_alloc_unset(size_t alignment, size_t bytes); /* the same, not zeroed: for memory that is filled at once */
void clq_free(void *block);                            /* any of the above; takes NULL */
/* From the allocator, with no word of a failure: for what tells of failures itself. */
void *clq_raw_alloc(size_t bytes);
void clq_raw_free(void *block);
char *clq_strdup(const char *text);
char *clq_strprintf(const char *format, ...) CLQ_PRINTF(1, 2); /* NULL on failure */

/* a * b and a + b into *out; false where they do not fit. */
static inline bool clq_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool clq_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline size_t clq_round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}
static inline size_t clq_ceil_div(size_t a, size_t b) { return a / b + (a % b != 0); }

/* For tests: the `nth` allocation from now (1 = the next) of any thread fails, and every later one too where
 * `sticky`. 0 ends it. Returns how many allocations were made since the last call. */
uint64_t clq_memory_fail_at(uint64_t nth, bool sticky);

/* ---- numbers and letters in text (numbers.c) ---- */

/* The C library writes and reads numbers as the program's locale has them, some with a comma. In files, options of
 * kernels and messages they have a point always: what has a fraction is written and read by these functions alone
 * (tests/law/check), each as the C library's function of its arguments. */
int clq_format(char *to, size_t bytes, const char *format, ...) CLQ_PRINTF(3, 4);
int clq_format_list(char *to, size_t bytes, const char *format, va_list arguments) CLQ_PRINTF(3, 0);
int clq_fprintf(FILE *to, const char *format, ...) CLQ_PRINTF(2, 3);
/* The whole of `text` as strtod reads it, also hexadecimal or infinite; else false and *out is unchanged. What people
 * write is read by clq_parse_double. */
bool clq_parse_number(const char *text, double *out);

/* For libraries that write and read numbers: between the calls this thread's locale is C's. */
typedef struct clq_locale {
    locale_t c, before;
} clq_locale;
clq_locale clq_locale_enter(void);
void clq_locale_leave(clq_locale entered);

/* Letters and digits of ASCII: <ctype.h> asks the locale, too (an I of Turkish has no small i). */
static inline bool clq_is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool clq_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static inline bool clq_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline char clq_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* ---- text (text.c) ---- */

/* A string that grows; latches its first failure in `failed`. Start with {0}, end with clq_free(text). */
typedef struct clq_text {
    char *data; /* NUL-terminated once something was added */
    size_t length, capacity;
    bool failed;
} clq_text;
void clq_text_add(clq_text *text, const char *format, ...) CLQ_PRINTF(2, 3);
void clq_text_add_list(clq_text *text, const char *format, va_list arguments) CLQ_PRINTF(2, 0);
void clq_text_add_bytes(clq_text *text, const char *bytes, size_t length);
void clq_text_add_text(clq_text *text, const char *more); /* as it is; faster than "%s" if it is long */

/* Names and messages come from drivers, files and arguments, and go to terminals, which obey what stands between the
 * letters. Here, in place: white space becomes a space; "?" stands for any other control character (C0, DEL, C1) and
 * for each byte that belongs to no character of UTF-8. What is left is one line of UTF-8. */
void clq_clean(char *text);
void clq_text_add_clean(clq_text *text, const char *from);
/* The bytes of the character of UTF-8 that a text begins with, as RFC 3629 has it: no overlong forms, no surrogates,
 * nothing above U+10FFFF. 0 where it begins with none; 1 for the NUL at its end. */
size_t clq_utf8_length(const char *text);

/* Whether a name is of that pattern, of `length` bytes: '*' stands for any characters, '?' for one. */
bool clq_name_matches(const char *pattern, size_t length, const char *name);

/* The whole of `text` must be the number and lie within the limits; else false and *out is unchanged.
 * Doubles: no inf, nan or hexadecimal. */
bool clq_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
bool clq_parse_double(const char *text, double min, double max, double *out);
/* A time that a user gives, and its range in words: "seconds, from … to …". (numbers.c) */
#define CLQ_SECONDS_LEAST 0.001
#define CLQ_SECONDS_MOST 1000000
extern const char clq_seconds_range[];
bool clq_parse_seconds(const char *text, double *out);
/* "28x28x1": 1 to `most` whole numbers from 1 on, as far as int32 goes; else false. */
bool clq_parse_sizes(const char *text, unsigned most, size_t *sizes, unsigned *count);

/* A number of bytes for people: "1 byte", "412 bytes", "1.50 KiB", "23.4 GiB". */
typedef struct clq_bytes_text {
    char text[24];
} clq_bytes_text;
clq_bytes_text clq_bytes(uint64_t bytes);
/* Two numbers that are told beside one another: to the byte, where they would read the same and are not. */
void clq_bytes_apart(uint64_t a, uint64_t b, clq_bytes_text *of_a, clq_bytes_text *of_b);
/* What stands behind a word that is counted: "%zu stage%s". */
static inline const char *clq_plural(uint64_t count) { return count == 1 ? "" : "s"; }

/* ---- the nearest word (nearest.c) ---- */

/* Which of the words that are known a word that is not was meant to be. Start with clq_nearest_of(word), or with
 * {.word = …, .length = …} if it is part of a text; then try each known word. */
typedef struct clq_nearest {
    const char *word;  /* borrowed */
    size_t length;     /* of the word; behind it anything may follow */
    const char *found; /* NULL: none is near. The first of those that are equally near */
    size_t distance;
} clq_nearest;
clq_nearest clq_nearest_of(const char *word);
void clq_nearest_try(clq_nearest *nearest, const char *known); /* known is borrowed */
/* Adds "; did you mean 'NAME'?", or nothing. */
void clq_nearest_add(const clq_nearest *nearest, clq_text *text);
/* clq_fail (ARGUMENT) with that behind the message. */
clq_status clq_nearest_fail(const clq_nearest *nearest, const char *format, ...) CLQ_PRINTF(2, 3);
/* Which of the words (NULL: behind the last) `word` is; else ARGUMENT: "WHAT 'WORD': expected a, b or c; did you mean
 * 'b'?" */
clq_status clq_find_word(const char *what, const char *word, const char *const *words, size_t *out);

/* ---- numbers of 16 bits (half.c) ---- */

float clq_half_to_float(uint16_t half);
uint16_t clq_half_of_float(float value);   /* the nearest, of two the even one; infinite from 65520 on */
uint16_t clq_bfloat_of_float(float value); /* likewise; NaN stays NaN */
float clq_bfloat_to_float(uint16_t brain);

/* ---- time and environment (environment.c) ---- */

double clq_now(void); /* seconds, monotonic */
/* The same without the time for which the process was stopped (Ctrl-Z, SIGSTOP, a debugger, a frozen container): the
 * clock of deadlines (running.c). A process is not told that it was stopped. So this clock advances by at most
 * CLQ_RUNNING_MOST_S between two readings by any thread: a thread that waits for it reads it every CLQ_RUNNING_LOOK_S.
 */
double clq_now_running(void);
#define CLQ_RUNNING_MOST_S 0.25
#define CLQ_RUNNING_LOOK_S 0.1
/* The next variable whose name starts so, as "NAME=VALUE", from *at on, which begins with 0; NULL: there is none. */
const char *clq_environment_next(const char *const *starts, size_t count, size_t *at);
/* Adds every variable whose name starts so as a line, in the order of names. False without memory. */
bool clq_environment_describe(const char *const *starts, size_t count, clq_text *text);
/* Sets a variable for what the process loads later. Of a program's own, before it has threads. */
bool clq_environment_set(const char *name, const char *value);
/* The folder for caches: $CLIQUE_CACHE_DIR, else $XDG_CACHE_HOME/clique, else ~/.cache/clique; made on demand.
 * The only place, with clq_environment, where the environment is read. Caller frees. */
clq_status clq_cache_dir(char **out);
const char *clq_environment(const char *name); /* NULL where unset or empty */

/* ---- threads (thread.c, barrier.c) ---- */

typedef struct clq_thread clq_thread;
/* The body runs with all signals blocked but those of faults: handlers run on the program's own threads. */
clq_status clq_thread_start(const char *name /* at most 15 */, void (*body)(void *), void *context, clq_thread **out);
void clq_thread_join(clq_thread *thread);  /* takes NULL; frees it */
void clq_thread_leave(clq_thread *thread); /* in place of joining it: it ends when it does, and is freed then */
unsigned clq_cpu_count(void);              /* cores that this process may use */

/* A condition variable for clq_lock_wait. */
clq_status clq_condition_create(const char *owner, pthread_cond_t *changed);
/* A lock and a condition variable for clq_lock_wait. owner: as for clq_fail_lock. */
clq_status clq_lock_create(const char *owner, pthread_mutex_t *lock, pthread_cond_t *changed);
/* pthread_cond_timedwait for at most so many seconds of clq_now. */
void clq_lock_wait(pthread_mutex_t *lock, pthread_cond_t *changed, double longest_s);

/* A barrier for `parties` threads. Waiting spins for a moment, then sleeps. Once aborted it never waits again:
 * all present and later waits return CLQ_ERROR_ABORTED at once. */
typedef struct clq_barrier clq_barrier;
clq_status clq_barrier_create(unsigned parties, clq_barrier **out);
/* Spin time before a wait sleeps. Unless set 50 us, which is some wake-ups by the kernel. Call while no thread waits.
 */
void clq_barrier_set_patience(clq_barrier *barrier, double seconds);
void clq_barrier_destroy(clq_barrier *barrier); /* once no thread is in a call on it; takes NULL */
/* CLQ_OK, CLQ_ERROR_ABORTED, or CLQ_ERROR_TIMEOUT after `deadline_s` seconds of clq_now_running (<= 0: none). All
 * parties of one round get the same, except that one whose deadline passed has left the round as if it had not come,
 * and may come again. */
clq_status clq_barrier_wait(clq_barrier *barrier, double deadline_s);
void clq_barrier_abort(clq_barrier *barrier);

/* ---- other programs (others.c) ---- */

/* What the cores that this process may use have done so far, and what of that this process did. Cheap: a file of the
 * system is read. Counters move in steps of 10 ms: looks that are close together say little. */
typedef struct clq_cores_used {
    double at_s, busy_s, idle_s, own_s;
    double cores; /* 0: the system does not tell */
    double limit; /* of the process's cgroup, in cores; 0: none */
} clq_cores_used;
clq_cores_used clq_cores_used_now(void);
/* The part of these cores, 0 to 1, that other programs used in between; of a process that is limited to fewer, what
 * others took beyond the rest. NaN: not known. */
double clq_others_between(const clq_cores_used *begun, const clq_cores_used *ended);

/* ---- channels (channel.c) ---- */

/* A bounded queue of items of one size, from one thread to another. */
typedef struct clq_channel clq_channel;
/* Of `capacity` >= 1 items. Errors: MEMORY, SYSTEM. */
clq_status clq_channel_create(size_t item_bytes, size_t capacity, clq_channel **out);
void clq_channel_destroy(clq_channel *channel); /* once no thread is in a call on it; takes NULL */
/* Copies the item. Where there is no room, waits until half is free: each wake-up costs the taker on the same core as
 * much as a small launch. False, and nothing is put, once the channel was closed: also where it was closed meanwhile.
 */
bool clq_channel_put(clq_channel *channel, const void *item);
/* Waits for the next item. False once the channel was closed and all was taken. */
bool clq_channel_take(clq_channel *channel, void *item);
/* By who takes: a copy of the next item, which stays. False where there is none yet. */
bool clq_channel_peek(clq_channel *channel, void *item);
void clq_channel_done(clq_channel *channel);  /* by who took: one more item was dealt with */
void clq_channel_wait(clq_channel *channel);  /* by who puts: until all items were */
void clq_channel_close(clq_channel *channel); /* by either side */

/* ---- element types (dtype.c) ---- */

size_t clq_values_bytes(clq_dtype dtype, size_t count); /* of so many values; the caller knows that they fit */
size_t clq_values_count(clq_dtype dtype, size_t bytes); /* how many whole values these are; dtype is one */

/* ---- feeds (feed.c) ----
 * A feed lists the arrays that a sample has a row in. A dataset, rows, memory on the way to a device, and a plan's
 * input each have a feed, and one array for each entry of it, in its order. Labels in a plan's feed are what its loss
 * takes, with the sample's weight behind each, so it has no array of weights. */

typedef enum clq_feed_role { CLQ_FEED_SAMPLES, CLQ_FEED_LABELS, CLQ_FEED_WEIGHTS } clq_feed_role;
const char *clq_feed_role_name(clq_feed_role role); /* "samples", "labels", "weights" */
enum { CLQ_FEED_MAX = CLQ_MODEL_OUTPUTS_MAX + 2 };  /* labels for each output, samples, weights */
typedef struct clq_feed_array {
    clq_feed_role role;
    unsigned index; /* among those of the role: of labels, which output of the model they are for */
    clq_dtype dtype;
    size_t bytes; /* of one sample */
} clq_feed_array;
/* Starts with {0}. */
typedef struct clq_feed {
    unsigned count;
    clq_feed_array arrays[CLQ_FEED_MAX]; /* no two have the same role and index */
} clq_feed;
/* elements: of one sample. The caller knows that there is room, and that the bytes fit a size_t. */
void clq_feed_add(clq_feed *feed, clq_feed_role role, unsigned index, clq_dtype dtype, size_t elements);
/* The place of the array with this role and index; feed->count: there is none. */
unsigned clq_feed_find(const clq_feed *feed, clq_feed_role role, unsigned index);
size_t clq_feed_bytes(const clq_feed *feed); /* of one sample, in all arrays */

/* ---- random numbers (random.c) ---- */

/* Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011): counter and key in,
 * four words out, no state. cl/prelude.cl has the same function: the same numbers on host and device. */
typedef struct clq_philox {
    uint32_t word[4];
} clq_philox;
clq_philox clq_philox4x32(uint64_t key, uint64_t counter_low, uint64_t counter_high);
/* A stream of numbers from one key: `stream` separates independent uses of one seed. */
typedef struct clq_random {
    uint64_t key, stream, counter;
    clq_philox block;
    unsigned used; /* words of block that are spent */
} clq_random;
clq_random clq_random_start(uint64_t seed, uint64_t stream);
/* Each use of a run's seed has a stream of its own; else the first weights and the first shuffle would be drawn from
 * the same numbers. part (below 2^56): variable, epoch, layer and step, … */
typedef enum clq_random_use {
    CLQ_RANDOM_WEIGHTS = 1,
    CLQ_RANDOM_SHUFFLE = 2,
    CLQ_RANDOM_DROPOUT = 3,
    CLQ_RANDOM_TEXT = 4
} clq_random_use;
static inline uint64_t clq_random_stream(clq_random_use use, uint64_t part) { return (uint64_t)use << 56 | part; }
uint32_t clq_random_u32(clq_random *random);
uint64_t clq_random_below(clq_random *random, uint64_t bound); /* unbiased, 0 <= x < bound, bound >= 1 */
double clq_random_unit(clq_random *random);                    /* [0, 1) with 53 bits */

/* ---- hashing (hash.c) ---- */

typedef struct clq_hash128 {
    uint64_t low, high;
} clq_hash128;
clq_hash128 clq_hash128_of(const void *data, size_t bytes, uint64_t seed); /* XXH3-128 */

/* ---- files (file.c) ---- */

/* The whole file; refuses one larger than `max_bytes` and anything that is not a regular file. A NUL byte
 * follows the content (not counted). 64-byte aligned; clq_free. Errors: NOT_FOUND, READ, FORMAT (too large), MEMORY. */
clq_status clq_file_read(const char *path, size_t max_bytes, void **out, size_t *bytes);
/* The same in pieces. The path must outlive it. */
typedef struct clq_file {
    const char *path;
    int fd;
    size_t bytes;
} clq_file;
clq_status clq_file_open(const char *path, size_t max_bytes, clq_file *out);
clq_status clq_file_get(const clq_file *file, size_t offset, void *to, size_t bytes); /* a range within the file */
clq_status clq_file_get_all(const clq_file *file, void **out, size_t *bytes);         /* as clq_file_read */
void clq_file_close(clq_file *file);
bool clq_file_exists(const char *path);
clq_status clq_make_folder(const char *path); /* with its parents; fine if it exists */
/* A file that was built or installed with this code, in Clique's folder of that of libraries. False: there is none.
 * (beside.c) */
enum { CLQ_BESIDE_BYTES = 4096 + 256 };
bool clq_find_beside(const char *name, char path[CLQ_BESIDE_BYTES]);

/* A file that a command reads or writes. (apart.c) */
typedef struct clq_named_file {
    const char *option; /* "--save", in messages */
    const char *path;   /* NULL: what the stream is redirected to */
    int stream;         /* STDOUT_FILENO, … */
    bool writes;
    /* The path is a folder that is read: whether a file of this name is, and all in a folder of this name; else NULL */
    bool (*holds)(const char *name);
} clq_named_file;
/* That no file which is written is also read, or written twice: by device and inode, so whatever the names and links;
 * outputs that do not exist yet by folder and name. Devices and pipes are no files. Before any is opened. Errors:
 * ARGUMENT, with both options. */
clq_status clq_files_check(const clq_named_file *files, size_t count);

/* A file that appears whole or not at all: written beside its place, synced, renamed, the folder synced. Refuses to
 * replace what is not a regular file; a symbolic link stays, and its target is replaced, or made where there is none. A
 * file that is replaced keeps its permissions. After a failed put the rest is not written and commit fails too. What a
 * killed process leaves in a folder, writers in that folder remove after ten minutes. Errors: WRITE, MEMORY. */
typedef struct clq_file_writer clq_file_writer;
clq_status clq_file_writer_open(const char *path, clq_file_writer **out);
/* Whether a file can be written there, before long work for it; it is left as it is. NULL: yes. `option` is named in
 * the error. */
clq_status clq_file_writer_try(const char *option, const char *path);
clq_status clq_file_writer_put(clq_file_writer *writer, const void *data, size_t bytes);
clq_status clq_file_writer_commit(clq_file_writer *writer); /* frees the writer, whatever it returns */
void clq_file_writer_cancel(clq_file_writer *writer);       /* nothing is left behind; takes NULL */

#endif
