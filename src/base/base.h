/* base: the layer that all other layers build on. It has statuses and error details, the log, memory, threads, barriers
 * that can be aborted, channels, feeds (lists of the arrays that a sample consists of), counter-based random numbers,
 * hashing, strings and files. It calls no device and builds no model. */
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

/* If `call` fails, returns its status from the enclosing function. */
#define CLQ_TRY(call)                                                                                                  \
    do {                                                                                                               \
        clq_status try_status_ = (call);                                                                               \
        if (try_status_ != CLQ_OK) return try_status_;                                                                 \
    } while (0)

/* If `call` fails, jumps to `label`, where the function undoes what it did. `status` is a variable of the function, and
 * gets the call's status. */
#define CLQ_TRY_OR(label, status, call)                                                                                \
    do {                                                                                                               \
        (status) = (call);                                                                                             \
        if ((status) != CLQ_OK) goto label;                                                                            \
    } while (0)

/* Sets this thread's detail and returns `status`. CLQ_ERROR_INTERNAL is for a violated invariant, which no caller's
 * input can violate. Its detail begins with "internal error: ". */
clq_status clq_fail(clq_status status, const char *format, ...) CLQ_PRINTF(2, 3);
/* Common failures, each with a fixed wording. clq_fail_memory is for an allocation that failed without setting the
 * detail; clq_alloc sets the detail itself. doing: such as "building a table". clq_fail_lock is for a lock or condition
 * variable that cannot be created. owner: such as "a barrier"; error: what the pthread function returned. */
clq_status clq_fail_memory(const char *doing);
clq_status clq_fail_lock(const char *owner, int error);
/* Puts "context: " in front of this thread's detail and returns `status`: callers add what they were doing. */
clq_status clq_fail_within(clq_status status, const char *format, ...) CLQ_PRINTF(2, 3);

/* CLQ_ASK calls a function that the library's caller supplied. The arguments after `call` format its name, WHO. If the
 * function fails and sets no detail, the detail becomes "WHO returned "STATUS"". CLQ_ASK clears the detail before the
 * call, so that an older detail is not taken for the function's. */
#define CLQ_ASK(call, ...) (clq_error_clear(), clq_fail_returned((call), __VA_ARGS__))
void clq_error_clear(void);
clq_status clq_fail_returned(clq_status status, const char *who, ...) CLQ_PRINTF(2, 3);

/* A failure that is kept, to be reported later or by another thread. clq_error_take copies the status and this thread's
 * detail. clq_error_raise sets this thread's detail again, and returns the status. */
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

/* Copies the caller's struct, `from` with `from_bytes`, which may be of another version, into this version's struct,
 * `to` with `to_bytes`. Members that the caller's version lacks become 0. ARGUMENT if the caller sets members that this
 * version does not know. */
clq_status clq_struct_take(const char *what, const void *from, size_t from_bytes, void *to, size_t to_bytes);
/* Copies this version's struct into the caller's, as far as it fits. Members that this version lacks become 0. */
void clq_struct_give(const void *from, size_t from_bytes, void *to, size_t to_bytes);
/* ARGUMENT if a struct's room for later members is not 0. of: the struct's name, such as "clq_monitor". */
clq_status clq_reserve_check(const char *of, const void *reserved, size_t bytes);
/* The same for a struct with a member `reserved`, such as CLQ_RESERVE_CHECK(clq_clip, &config->clip). */
#define CLQ_RESERVE_CHECK(type, at) clq_reserve_check(#type, (at)->reserved, sizeof(at)->reserved)

/* ---- memory (memory.c) ---- */

/* Allocates zeroed memory for `count` elements of `size` bytes, and checks that the product does not overflow. Returns
 * NULL only on failure, and then sets the detail. A count of 0 gives a pointer that may be freed. */
void *clq_alloc(size_t count, size_t size);
/* Grows or shrinks an array; new elements are zeroed. On failure returns NULL, and the old block stays. */
void *clq_realloc(void *block, size_t old_count, size_t new_count, size_t size);
/* Makes room in an array for one element more than `count`. If *capacity suffices, returns the block itself. Otherwise
 * returns a block of twice the capacity, at least `first`, and updates *capacity. On failure returns NULL, and the old
 * block stays. */
void *clq_grow(void *block, size_t count, size_t *capacity, size_t first, size_t size);
/* As clq_alloc, aligned to `alignment` (a power of two, at least sizeof(void *)). */
void *clq_alloc_aligned(size_t alignment, size_t bytes);
void *clq_alloc_unset(size_t alignment, size_t bytes); /* the same, not zeroed: for memory that is filled at once */
void clq_free(void *block);                            /* any of the above; takes NULL */
/* Allocates without setting the detail on failure: for callers that must not change the detail, or that report failures
 * themselves. */
void *clq_raw_alloc(size_t bytes);
void clq_raw_free(void *block);
char *clq_strdup(const char *text);
char *clq_strprintf(const char *format, ...) CLQ_PRINTF(1, 2); /* NULL on failure */

/* Store a * b or a + b in *out; false if the result overflows. */
static inline bool clq_mul_size(size_t a, size_t b, size_t *out) { return !__builtin_mul_overflow(a, b, out); }
static inline bool clq_add_size(size_t a, size_t b, size_t *out) { return !__builtin_add_overflow(a, b, out); }
static inline size_t clq_round_up(size_t value, size_t multiple) {
    return (value + multiple - 1) / multiple * multiple;
}
static inline size_t clq_ceil_div(size_t a, size_t b) { return a / b + (a % b != 0); }

/* For tests: makes the `nth` allocation from now on fail, counted over all threads; 1 is the next one. If `sticky`, all
 * later allocations fail, too. nth 0 ends the failures. Returns the number of allocations since the last call. */
uint64_t clq_memory_fail_at(uint64_t nth, bool sticky);

/* ---- numbers and letters in text (numbers.c) ---- */

/* The C library formats and parses numbers by the program's locale, and some locales have a decimal comma. Files,
 * kernel options and messages always have a decimal point. So only these functions write and read numbers that may have
 * a fraction (tests/law/check). Each takes the same arguments as the C library's function that it replaces. */
int clq_format(char *to, size_t bytes, const char *format, ...) CLQ_PRINTF(3, 4);
int clq_format_list(char *to, size_t bytes, const char *format, va_list arguments) CLQ_PRINTF(3, 0);
int clq_fprintf(FILE *to, const char *format, ...) CLQ_PRINTF(2, 3);
/* Parses the whole of `text` as strtod does, also hexadecimal or infinite numbers. If `text` is no number, returns
 * false and leaves *out unchanged. For text that people write, use clq_parse_double. */
bool clq_parse_number(const char *text, double *out);

/* For libraries that format or parse numbers: between the two calls, this thread's locale is "C". */
typedef struct clq_locale {
    locale_t c, before;
} clq_locale;
clq_locale clq_locale_enter(void);
void clq_locale_leave(clq_locale entered);

/* ASCII letters and digits. <ctype.h> depends on the locale: in Turkish, the small letter of I is not i. */
static inline bool clq_is_digit(char c) { return c >= '0' && c <= '9'; }
static inline bool clq_is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }
static inline bool clq_is_space(char c) { return c == ' ' || (c >= '\t' && c <= '\r'); }
static inline char clq_lower(char c) { return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c; }

/* ---- text (text.c) ---- */

/* A string that grows. `failed` becomes true at the first failure and stays true; later additions then do nothing.
 * Start with {0}, end with clq_free(text.data). */
typedef struct clq_text {
    char *data; /* NUL-terminated once something was added */
    size_t length, capacity;
    bool failed;
} clq_text;
void clq_text_add(clq_text *text, const char *format, ...) CLQ_PRINTF(2, 3);
void clq_text_add_list(clq_text *text, const char *format, va_list arguments) CLQ_PRINTF(2, 0);
void clq_text_add_bytes(clq_text *text, const char *bytes, size_t length);
void clq_text_add_text(clq_text *text, const char *more); /* as it is; faster than "%s" if it is long */

/* Makes a text safe for terminals, in place. Names and messages come from drivers, files and arguments, and a terminal
 * obeys control sequences in them. Each white-space character becomes a space. Each other control character (C0, DEL,
 * C1), and each byte that is not part of valid UTF-8, becomes "?". The result is one line of UTF-8. */
void clq_clean(char *text);
void clq_text_add_clean(clq_text *text, const char *from);
/* Returns the length in bytes of the UTF-8 character at the beginning of a text. Characters are valid by RFC 3629: no
 * overlong forms, no surrogates, nothing above U+10FFFF. 0: the text does not begin with a valid character. 1 for the
 * NUL at the text's end. */
size_t clq_utf8_length(const char *text);

/* Whether a name matches a pattern of `length` bytes: '*' stands for any characters, '?' for one. */
bool clq_name_matches(const char *pattern, size_t length, const char *name);

/* The whole of `text` must be a number within the limits. Otherwise these functions return false and leave *out
 * unchanged. clq_parse_double refuses inf, nan and hexadecimal numbers. */
bool clq_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out);
bool clq_parse_double(const char *text, double min, double max, double *out);
/* A time in seconds that a user gives, and its range in words: "seconds, from … to …". (numbers.c) */
#define CLQ_SECONDS_LEAST 0.001
#define CLQ_SECONDS_MOST 1000000
extern const char clq_seconds_range[];
bool clq_parse_seconds(const char *text, double *out);
/* Parses sizes such as "28x28x1": 1 to `most` whole numbers, each from 1 to INT32_MAX. False if `text` is anything
 * else. */
bool clq_parse_sizes(const char *text, unsigned most, size_t *sizes, unsigned *count);

/* A number of bytes for people: "1 byte", "412 bytes", "1.50 KiB", "23.4 GiB". */
typedef struct clq_bytes_text {
    char text[24];
} clq_bytes_text;
clq_bytes_text clq_bytes(uint64_t bytes);
/* Two numbers of bytes that one message names. If they differ but would read the same, both texts give all bytes. */
void clq_bytes_apart(uint64_t a, uint64_t b, clq_bytes_text *of_a, clq_bytes_text *of_b);
/* The "s" behind a word that is counted, or "": "%zu stage%s". */
static inline const char *clq_plural(uint64_t count) { return count == 1 ? "" : "s"; }

/* ---- the nearest word (nearest.c) ---- */

/* Finds the known word that an unknown word was probably meant to be. Start with clq_nearest_of(word), or with {.word =
 * …, .length = …} if the word is part of a text. Then call clq_nearest_try for each known word. */
typedef struct clq_nearest {
    const char *word;  /* borrowed */
    size_t length;     /* of `word` in bytes; any text may follow the word */
    const char *found; /* the nearest known word so far, or the first of several; NULL: none is near */
    size_t distance;
} clq_nearest;
clq_nearest clq_nearest_of(const char *word);
void clq_nearest_try(clq_nearest *nearest, const char *known); /* known is borrowed */
/* Adds "; did you mean 'NAME'?", or nothing if no word is near. */
void clq_nearest_add(const clq_nearest *nearest, clq_text *text);
/* Fails with ARGUMENT and the message, followed by the text of clq_nearest_add. */
clq_status clq_nearest_fail(const clq_nearest *nearest, const char *format, ...) CLQ_PRINTF(2, 3);
/* Sets *out to the index of `word` among `words`, which end with NULL. If `word` is not among them, fails with
 * ARGUMENT: "WHAT 'WORD': expected a, b or c; did you mean 'b'?" */
clq_status clq_find_word(const char *what, const char *word, const char *const *words, size_t *out);

/* ---- numbers of 16 bits (half.c) ---- */

float clq_half_to_float(uint16_t half);
uint16_t clq_half_of_float(float value);   /* rounded to nearest, ties to even; infinite from 65520 on */
uint16_t clq_bfloat_of_float(float value); /* rounded likewise; NaN stays NaN */
float clq_bfloat_to_float(uint16_t brain);

/* ---- time and environment (environment.c) ---- */

double clq_now(void); /* seconds, monotonic */
/* The clock of deadlines (running.c): clq_now without the time for which the process was stopped (Ctrl-Z, SIGSTOP, a
 * debugger, a frozen container). Nothing tells a process that it was stopped. So between two readings, by any threads,
 * this clock advances by at most CLQ_RUNNING_MOST_S. A thread that waits for a time of this clock must therefore read
 * the clock every CLQ_RUNNING_LOOK_S. */
double clq_now_running(void);
#define CLQ_RUNNING_MOST_S 0.25
#define CLQ_RUNNING_LOOK_S 0.1
/* Returns the next environment variable whose name begins with one of `starts`, as "NAME=VALUE". The search goes on
 * from *at, which the caller sets to 0 at first. NULL: there is no further one. */
const char *clq_environment_next(const char *const *starts, size_t count, size_t *at);
/* Adds every variable whose name begins with one of `starts` to the text, one in a line, sorted by name. False if
 * memory is out. */
bool clq_environment_describe(const char *const *starts, size_t count, clq_text *text);
/* Sets a variable for libraries that the process loads later. Only Clique's own programs may call it, before they have
 * threads. */
bool clq_environment_set(const char *name, const char *value);
/* The folder for caches: $CLIQUE_CACHE_DIR, otherwise $XDG_CACHE_HOME/clique, otherwise ~/.cache/clique. The folder is
 * made if it does not exist. The caller frees *out. Only this function and the clq_environment functions read the
 * environment. */
clq_status clq_cache_dir(char **out);
const char *clq_environment(const char *name); /* NULL if unset or empty */

/* ---- threads (thread.c, barrier.c) ---- */

typedef struct clq_thread clq_thread;
/* Runs body(context) in a new thread. All signals but those of faults are blocked in the thread, so that handlers run
 * on the program's own threads. */
clq_status clq_thread_start(const char *name /* at most 15 */, void (*body)(void *), void *context, clq_thread **out);
void clq_thread_join(clq_thread *thread);  /* waits for its end and frees it; takes NULL */
void clq_thread_leave(clq_thread *thread); /* instead of clq_thread_join: the thread is freed once it has ended */
unsigned clq_cpu_count(void);              /* cores that this process may use */

/* A condition variable for clq_lock_wait. */
clq_status clq_condition_create(const char *owner, pthread_cond_t *changed);
/* A lock and a condition variable for clq_lock_wait. owner: as for clq_fail_lock. */
clq_status clq_lock_create(const char *owner, pthread_mutex_t *lock, pthread_cond_t *changed);
/* As pthread_cond_timedwait, for at most `longest_s` seconds of clq_now. */
void clq_lock_wait(pthread_mutex_t *lock, pthread_cond_t *changed, double longest_s);

/* A barrier for `parties` threads. A wait spins for a moment, then sleeps. After an abort the barrier never waits
 * again: all present and later waits return CLQ_ERROR_ABORTED at once. */
typedef struct clq_barrier clq_barrier;
clq_status clq_barrier_create(unsigned parties, clq_barrier **out);
/* Sets how long a wait spins before it sleeps. The default is 50 us, the cost of some wake-ups by the kernel. Call
 * while no thread waits. */
void clq_barrier_set_patience(clq_barrier *barrier, double seconds);
void clq_barrier_destroy(clq_barrier *barrier); /* once no thread is in a call on it; takes NULL */
/* Returns CLQ_OK, CLQ_ERROR_ABORTED, or CLQ_ERROR_TIMEOUT after `deadline_s` seconds of clq_now_running (<= 0: no
 * deadline). All parties of a round get the same status, with one exception: a party whose deadline passes leaves the
 * round as if it had never arrived, and may wait again. */
clq_status clq_barrier_wait(clq_barrier *barrier, double deadline_s);
void clq_barrier_abort(clq_barrier *barrier);

/* ---- other programs (others.c) ---- */

/* How many seconds the cores that this process may use have been busy and idle so far, and how many of the busy seconds
 * this process used. A reading is cheap: it reads a file of the system. The counters move in steps of 10 ms, so two
 * readings that are close together say little. */
typedef struct clq_cores_used {
    double at_s, busy_s, idle_s, own_s;
    double cores; /* how many they are; 0: the system does not tell */
    double limit; /* of the process's cgroup, in cores; 0: there is no limit */
} clq_cores_used;
clq_cores_used clq_cores_used_now(void);
/* The fraction of these cores, 0 to 1, that other programs used between two readings. If the cgroup limits the process
 * to fewer cores, others may use the rest: only what they used beyond the rest counts, as a fraction of the limit. NaN:
 * not known. */
double clq_others_between(const clq_cores_used *begun, const clq_cores_used *ended);

/* ---- channels (channel.c) ---- */

/* A bounded queue of items of one size, from one thread to another. */
typedef struct clq_channel clq_channel;
/* Makes a channel for `capacity` >= 1 items. Errors: MEMORY, SYSTEM. */
clq_status clq_channel_create(size_t item_bytes, size_t capacity, clq_channel **out);
void clq_channel_destroy(clq_channel *channel); /* once no thread is in a call on it; takes NULL */
/* Copies the item. If the channel is full, waits until half of it is free: this makes wake-ups rare, and each of them
 * costs the taker on the same core as much as a small launch. Returns false and puts nothing once the channel is
 * closed, also if this happens during the wait. */
bool clq_channel_put(clq_channel *channel, const void *item);
/* Waits for the next item. False once the channel is closed and all items are taken. */
bool clq_channel_take(clq_channel *channel, void *item);
/* For the thread that takes: copies the next item, and leaves it in the channel. Does not wait: false if there is no
 * item. */
bool clq_channel_peek(clq_channel *channel, void *item);
void clq_channel_done(clq_channel *channel);  /* by the thread that takes: one more item was dealt with */
void clq_channel_wait(clq_channel *channel);  /* by the thread that puts: until all items were dealt with */
void clq_channel_close(clq_channel *channel); /* by either side */

/* ---- element types (dtype.c) ---- */

size_t clq_values_bytes(clq_dtype dtype, size_t count); /* of `count` values; the caller knows that they fit */
size_t clq_values_count(clq_dtype dtype, size_t bytes); /* whole values in `bytes`; `dtype` must be valid */

/* ---- feeds (feed.c) ----
 * A feed lists the arrays in which each sample has a row. A dataset, rows, memory on the way to a device, and a plan's
 * input each have a feed, and one array for each entry of the feed, in the feed's order. In a plan's feed, the labels
 * have the form that the plan's loss takes, with the sample's weight behind each label. So this feed has no array of
 * weights. */

typedef enum clq_feed_role { CLQ_FEED_SAMPLES, CLQ_FEED_LABELS, CLQ_FEED_WEIGHTS } clq_feed_role;
const char *clq_feed_role_name(clq_feed_role role); /* "samples", "labels", "weights" */
enum { CLQ_FEED_MAX = CLQ_MODEL_OUTPUTS_MAX + 2 };  /* labels for each output, samples, weights */
typedef struct clq_feed_array {
    clq_feed_role role;
    unsigned index; /* among the arrays of the role; for labels, the model's output that they are for */
    clq_dtype dtype;
    size_t bytes; /* of one sample */
} clq_feed_array;
/* Starts with {0}. */
typedef struct clq_feed {
    unsigned count;
    clq_feed_array arrays[CLQ_FEED_MAX]; /* no two have the same role and index */
} clq_feed;
/* Adds an array. elements: values of one sample. The caller ensures that the feed has room, and that the bytes fit a
 * size_t. */
void clq_feed_add(clq_feed *feed, clq_feed_role role, unsigned index, clq_dtype dtype, size_t elements);
/* The position of the array with this role and index; feed->count: there is none. */
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
/* Each use of a run's seed has its own stream. Otherwise the first weights and the first shuffle would be drawn from
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

/* Reads a whole regular file of at most `max_bytes`, and refuses anything else. A NUL byte follows the content (not
 * counted). *out is 64-byte aligned; the caller frees it by clq_free. Errors: NOT_FOUND, READ, FORMAT (too large),
 * MEMORY. */
clq_status clq_file_read(const char *path, size_t max_bytes, void **out, size_t *bytes);
/* An open file, to read in pieces. The caller's path must outlive it. */
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
/* Finds a file that was built or installed with this code, in the folder `clique` within the folder of libraries.
 * False: there is none. (beside.c) */
enum { CLQ_BESIDE_BYTES = 4096 + 256 };
bool clq_find_beside(const char *name, char path[CLQ_BESIDE_BYTES]);

/* A file that a command reads or writes. (apart.c) */
typedef struct clq_named_file {
    const char *option; /* "--save", in messages */
    const char *path;   /* NULL: the file that `stream` is redirected to */
    int stream;         /* STDOUT_FILENO, … */
    bool writes;
    /* If the path is a folder that is read: tells whether the command reads the file with this name in it, or all files
     * in the folder with this name in it. Otherwise NULL. */
    bool (*holds)(const char *name);
} clq_named_file;
/* Checks that no file is written that is also read, or written twice. Call it before any of the files is opened. Files
 * are compared by device and inode, so other names and links do not hide a file. Outputs that do not exist yet are
 * compared by folder and name. Devices and pipes are ignored. Errors: ARGUMENT, with both options. */
clq_status clq_files_check(const clq_named_file *files, size_t count);

/* A file that appears completely or not at all. The writer fills a temporary file in the target's folder, syncs it,
 * renames it to the target, and syncs the folder. It refuses to replace anything but a regular file. If the path is a
 * symbolic link, the link stays, and the file that it leads to is replaced, or created if it does not exist. A replaced
 * file's permissions are kept. After a failed put, later puts write nothing, and commit fails, too. A killed process
 * leaves its temporary file behind. Later writers in the folder remove such a file after ten minutes. Errors: WRITE,
 * MEMORY. */
typedef struct clq_file_writer clq_file_writer;
clq_status clq_file_writer_open(const char *path, clq_file_writer **out);
/* Checks that a file can be written at `path`, before the long work that makes its content. Changes no existing file.
 * CLQ_OK if `path` is NULL. Errors name `option`. */
clq_status clq_file_writer_try(const char *option, const char *path);
clq_status clq_file_writer_put(clq_file_writer *writer, const void *data, size_t bytes);
clq_status clq_file_writer_commit(clq_file_writer *writer); /* frees the writer, whatever it returns */
void clq_file_writer_cancel(clq_file_writer *writer);       /* nothing is left behind; takes NULL */

#endif
