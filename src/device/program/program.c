/* Programs: made once per device, source and options. They come from the cache if it holds a good entry, and are
 * otherwise built from source. */
#include "device/internal.h"

#include <string.h>

const char clq_programs_folder[] = "programs";

/* The program's key: a hash of everything that the compiled program depends on. */
static clq_status program_key(const clq_device *device, const char *source, const clq_program_wish *wish,
                              clq_hash128 *out) {
    const clq_device_info *info = &device->info;
    char *options = clq_build_options(device, wish->options);
    if (!options) return CLQ_ERROR_MEMORY;
    clq_text text = {0};
    clq_text_add(&text, "%s\n%s\n%s\n%s\n%s\n%s\n%s\n%s\n%u\n%s\n%s\n", clq_version(), info->platform,
                 device->platform_version, info->vendor, info->name, info->driver_version, info->opencl_version,
                 info->driver, (unsigned)info->vector_width, options, wish->kernels);
    clq_free(options);
    clq_text_add_text(&text, clq_source_text("prelude"));
    clq_text_add_text(&text, source);
    return clq_cache_key(&text, out);
}

/* The program's place: a hash of what a driver's own cache can know the program by. Devices for which the driver builds
 * alike have the same place. */
static clq_status program_place(const clq_device *device, const clq_program *entry, clq_hash128 *out) {
    clq_text text = {0};
    clq_text_add(&text, "%s\n%s\n%s\n%s\n", device->info.driver, device->platform_version, entry->options,
                 entry->kernels);
    clq_text_add_text(&text, entry->text);
    return clq_cache_key(&text, out);
}

/* The first lines of the build log as one line. */
static void log_excerpt(const clq_device *device, cl_program program, char *out, size_t bytes) {
    out[0] = '\0';
    size_t length = 0;
    if (clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, 0, NULL, &length) != CL_SUCCESS || length < 2)
        return;
    char *log = clq_alloc(length + 1, 1);
    if (!log) return;
    if (clGetProgramBuildInfo(program, device->id, CL_PROGRAM_BUILD_LOG, length, log, NULL) == CL_SUCCESS) {
        size_t end = 0;
        for (const char *at = log; *at && end + 3 < bytes; at++) {
            if (*at != '\n')
                out[end++] = *at == '\r' || *at == '\t' ? ' ' : *at;
            else if (end > 0 && out[end - 1] != ' ')
                out[end++] = ';', out[end++] = ' ';
        }
        while (end > 0 && (out[end - 1] == ' ' || out[end - 1] == ';')) end--;
        out[end] = '\0';
    }
    clq_free(log);
}

/* The names of a built program's kernels, with ';' between them; caller frees. NULL if the driver gives none. */
static char *kernel_names(cl_program program) {
    size_t bytes = 0;
    if (clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, 0, NULL, &bytes) != CL_SUCCESS || bytes < 2) return NULL;
    char *names = clq_alloc(bytes + 1, 1);
    if (!names || clGetProgramInfo(program, CL_PROGRAM_KERNEL_NAMES, bytes, names, NULL) == CL_SUCCESS) return names;
    clq_free(names);
    return NULL;
}

/* Whether a program has all these kernels (names with blanks between; "": none is asked for). If the driver does not
 * name the kernels of a program that was made from a binary, the program is taken to have them. */
static bool has_kernels(cl_program program, const char *kernels) {
    char *names = kernel_names(program);
    bool has = true;
    for (const char *at = kernels; *at && names && has;) {
        size_t length = strcspn(at, " ");
        has = length == 0 || clq_list_has(names, ";", at, length);
        at += length + (at[length] == ' ');
    }
    clq_free(names);
    return has;
}

/* *out is NULL if the driver does not make a program with the wanted kernels from the binary. */
static clq_status build_binary(clq_device *device, clq_program *entry, const unsigned char *binary, size_t bytes,
                               cl_program *out) {
    cl_int state = CL_INVALID_BINARY, error;
    cl_program program = clCreateProgramWithBinary(device->context, 1, &device->id, &bytes, &binary, &state, &error);
    *out = NULL;
    if (program && state == CL_SUCCESS) {
        clq_status status = clq_program_build(device, entry, program, entry->options, &error);
        if (status != CLQ_OK) {
            if (!clq_device_lost(device)) (void)clReleaseProgram(program);
            return status;
        }
        if (error == CL_SUCCESS && has_kernels(program, entry->kernels)) {
            *out = program;
            return CLQ_OK;
        }
    }
    clq_log(CLQ_LOG_INFO, "%s does not take its own binary of a program; it is built from source", device->label);
    if (program) (void)clReleaseProgram(program);
    return CLQ_OK;
}

static bool begin_claim(const clq_device *device, clq_program *entry) {
    bool died = clq_claim_begin(device->claims, entry->place, entry->key, &entry->claim);
    if (died)
        clq_log(CLQ_LOG_INFO, "%s: a process ended while it made the program %s.cl, which is built anew", device->label,
                entry->file);
    return died;
}

/* The program is made, so other processes may work on it, too. But the claim is held until all kernels ran, since some
 * drivers look into their caches once more when a kernel is launched first. If the program was built from source, its
 * claim is held until the program is kept: before that, the next process has nothing of it but what the driver's cache
 * holds. */
static void share_claim(clq_device *device, clq_program *entry) {
    if (!entry->claim.held) return;
    clq_claim_share(&entry->claim);
    atomic_fetch_add(&device->claimed, 1);
}

/* Whether a binary is complete. Only binaries of PoCL's CPU devices are looked at: PoCL's other devices compile a
 * program as a whole, and their binaries need no files for each kernel. */
static bool is_whole(const clq_device *device, const void *binary, size_t bytes) {
    return !clq_device_has_quirk(device, CLQ_QUIRK_COMPILES_AT_LAUNCH) || clq_pocl_binary_is_whole(binary, bytes);
}

/* *out stays NULL if the cache has nothing that the driver takes. */
static clq_status build_from_cache(clq_device *device, clq_program *entry, cl_program *out) {
    if (!device->cache_dir) return CLQ_OK;
    void *binary = NULL;
    size_t bytes = 0;
    CLQ_TRY(clq_cache_load(device->cache_dir, clq_programs_folder, entry->key, &binary, &bytes));
    if (!binary) return CLQ_OK;
    bool good = is_whole(device, binary, bytes);
    clq_status status = CLQ_OK;
    if (!good) clq_cache_drop(device->cache_dir, clq_programs_folder, entry->key);
    if (good && clq_twin_name(device->twin, binary, bytes)) {
        const bool died = begin_claim(device, entry);
        /* A process that cannot write the mark may not be able to write a program in the place of this one either. */
        if (died && entry->claim.marked) clq_cache_drop(device->cache_dir, clq_programs_folder, entry->key);
        if (!died) status = build_binary(device, entry, binary, bytes, out);
        entry->refused = !died && !*out && status == CLQ_OK;
        if (*out)
            share_claim(device, entry);
        else
            clq_claim_end(&entry->claim);
    }
    clq_free(binary);
    return status;
}

/* Adds the text of the wanted kernels for the compiler. PoCL compiles a kernel at its first launch, in several
 * functions. For PoCL, the library's own kernels therefore only call a function that does their work, if they can be
 * written so (*is_called). */
static clq_status add_kernels(const clq_device *device, const clq_program *entry, clq_text *out, bool *is_called) {
    char *wanted = clq_wanted_source(entry->text, entry->kernels);
    clq_status status = wanted ? CLQ_ERROR_UNSUPPORTED : CLQ_ERROR_MEMORY;
    if (wanted && !entry->own_text && clq_device_has_quirk(device, CLQ_QUIRK_COMPILES_AT_LAUNCH))
        status = clq_called_source(wanted, clq_words_have(entry->options, "-DTILE"), out);
    *is_called = status == CLQ_OK;
    if (status == CLQ_ERROR_UNSUPPORTED) {
        clq_free(out->data);
        *out = (clq_text){0};
        clq_text_add_text(out, wanted);
        status = out->failed ? CLQ_ERROR_MEMORY : CLQ_OK;
    }
    clq_free(wanted);
    return status;
}

static clq_status build_from_source(clq_device *device, clq_program *entry, cl_program *out) {
    const char *file = entry->file, *options = entry->built_options;
    char *line = clq_strprintf("\n#line 1 \"%s.cl\"\n", file);
    clq_text kernels = {0};
    bool is_called = false;
    const clq_status made = line ? add_kernels(device, entry, &kernels, &is_called) : CLQ_ERROR_MEMORY;
    const char *parts[] = {is_called ? clq_items_prelude : "", clq_source_text("prelude"), line, kernels.data};
    cl_int error = CL_SUCCESS;
    cl_program program = NULL;
    if (made == CLQ_OK) program = clCreateProgramWithSource(device->context, CLQ_COUNT_OF(parts), parts, NULL, &error);
    clq_free(line);
    clq_free(kernels.data);
    if (made != CLQ_OK) return made;
    if (!program) return clq_cl_fail(device, error, "making the program %s.cl", file);
    clq_status status = clq_program_build(device, entry, program, options, &error);
    if (status != CLQ_OK) {
        if (!clq_device_lost(device)) (void)clReleaseProgram(program);
        return status;
    }
    entry->bad = error == CL_BUILD_PROGRAM_FAILURE;
    if (error == CL_SUCCESS) {
        *out = program;
        return CLQ_OK;
    }
    char log[CLQ_DETAIL_MAX / 2];
    log_excerpt(device, program, log, sizeof log);
    entry->explained = log[0] != '\0';
    (void)clReleaseProgram(program);
    return clq_fail(CLQ_ERROR_BUILD, "%s.cl does not build on %s, driver %s: %s (%d): %s; options: %.120s", file,
                    device->label, device->info.driver_version, clq_cl_error_name(error), (int)error,
                    log[0] ? log : "the driver gave no log", options);
}

static void end_claim(clq_device *device, clq_program *entry) {
    if (!entry->claim.held) return;
    clq_claim_end(&entry->claim);
    entry->claim_ended = true;
    atomic_fetch_sub(&device->claimed, 1);
}

/* The device counts the claim if the program is made. */
static void leave_claim(clq_device *device, clq_program *entry) {
    if (entry->program && entry->claim.held) atomic_fetch_sub(&device->claimed, 1);
    clq_claim_leave(&entry->claim);
}

static void tell_not_kept(void) { clq_log(CLQ_LOG_WARNING, "a compiled program is not kept: %s", clq_error_detail()); }

/* Saves the program in the cache. Failures are only logged, since what cannot be saved is compiled again next time.
 * *whole is false if the driver has lost a part of the program. The device must launch nothing of the program
 * meanwhile. Errors: TIMEOUT. */
static clq_status save(clq_device *device, clq_program *entry, bool *whole) {
    *whole = true;
    if (!device->cache_dir || (device->twin < 0 && clq_cache_has(device->cache_dir, clq_programs_folder, entry->key)))
        return CLQ_OK;
    unsigned char *binary = NULL;
    size_t bytes = 0;
    clq_status status = clq_program_binary(device, entry, &binary, &bytes);
    if (status == CLQ_ERROR_TIMEOUT) {
        leave_claim(device, entry);
        return status;
    }
    *whole = status != CLQ_OK || is_whole(device, binary, bytes);
    if (!*whole)
        status = clq_fail(CLQ_ERROR_DEVICE, "%s gives only a part of %s.cl: was its driver's cache removed meanwhile?",
                          device->label, entry->file);
    if (status == CLQ_OK && clq_twin_name(device->twin, binary, bytes))
        status = clq_cache_store(device->cache_dir, clq_programs_folder, entry->key, binary, bytes);
    if (status != CLQ_OK) tell_not_kept();
    clq_free(binary);
    return CLQ_OK;
}

/* Saves the program. If the driver has lost a part of it, the next process builds it apart from what the driver's cache
 * holds. */
static clq_status save_or_distrust(clq_device *device, clq_program *entry) {
    bool whole;
    CLQ_TRY(save(device, entry, &whole));
    end_claim(device, entry);
    if (!whole) clq_claim_distrust(device->claims, entry->place, entry->key);
    return CLQ_OK;
}

/* The options to build with, by which a driver's own cache tells programs apart. Each device of PoCL has options of its
 * own. So has each attempt, since a process may have died of what that cache holds of an earlier attempt. */
static char *options_to_build_with(const clq_device *device, const clq_program *entry) {
    char *twin = device->twin > 0 ? clq_strprintf(" -DCLQ_TWIN=%d", device->twin) : clq_strdup("");
    char *attempt = entry->claim.attempt ? clq_strprintf(" -DCLQ_ATTEMPT=%u", entry->claim.attempt) : clq_strdup("");
    char *options = twin && attempt ? clq_strprintf("%s%s%s", entry->options, twin, attempt) : NULL;
    clq_free(twin);
    clq_free(attempt);
    return options;
}

static clq_status build_here(clq_device *device, clq_program *entry, cl_program *out) {
    (void)begin_claim(device, entry);
    clq_free(entry->built_options);
    entry->built_options = options_to_build_with(device, entry);
    clq_status status = entry->built_options ? build_from_source(device, entry, out) : CLQ_ERROR_MEMORY;
    /* Tries once more: another process, with another cache folder of ours, may have been at the same files of PoCL's
     * cache. */
    if (status == CLQ_ERROR_BUILD && clq_device_has_quirk(device, CLQ_QUIRK_COMPILES_AT_LAUNCH))
        status = build_from_source(device, entry, out);
    if (status != CLQ_OK) {
        clq_claim_end(&entry->claim);
        return status;
    }
    share_claim(device, entry);
    /* The driver takes the source, so the cached binary was at fault. */
    if (entry->refused) clq_cache_drop(device->cache_dir, clq_programs_folder, entry->key);
    entry->unsaved = entry->from_source = true;
    return CLQ_OK;
}

/* Loads the program from the cache, or otherwise builds it from source. A twin may have the program, or be just now
 * building it. */
static clq_status load_or_build(clq_device *device, clq_program *entry, cl_program *out) {
    *out = NULL;
    CLQ_TRY(build_from_cache(device, entry, out));
    if (*out) return CLQ_OK;
    clq_building_begin(device);
    clq_status status = clq_device_alive(device); /* the compiler that was waited for may not have ended */
    if (status == CLQ_OK) status = clq_twin_ask(device, entry->key);
    if (status == CLQ_OK && device->twin >= 0) status = build_from_cache(device, entry, out);
    if (status == CLQ_OK && !*out) status = build_here(device, entry, out);
    clq_building_end(device);
    return status;
}

/* ---- the table ---- */

static void entry_free(clq_program *entry) {
    if (!entry) return;
    clq_free(entry->file);
    clq_free(entry->own_text);
    clq_free(entry->kernels);
    clq_free(entry->options);
    clq_free(entry->built_options);
    clq_free(entry);
}

static clq_program *find(const clq_device *device, clq_hash128 key) {
    clq_program *entry = device->programs;
    while (entry && (entry->key.low != key.low || entry->key.high != key.high)) entry = entry->next;
    return entry;
}

/* text: the embedded source, for a wish without a source of its own. */
static clq_status add(clq_device *device, const clq_program_wish *wish, const char *text, clq_hash128 key,
                      clq_program **out) {
    clq_program *entry = clq_alloc(1, sizeof *entry);
    if (!entry) return CLQ_ERROR_MEMORY;
    entry->key = key;
    entry->file = clq_strdup(wish->file);
    entry->own_text = wish->text ? clq_strdup(wish->text) : NULL;
    entry->text = wish->text ? entry->own_text : text;
    entry->options = clq_build_options(device, wish->options);
    entry->kernels = clq_strdup(wish->kernels);
    entry->optional = wish->optional;
    if (!entry->file || !entry->text || !entry->options || !entry->kernels ||
        program_place(device, entry, &entry->place) != CLQ_OK) {
        entry_free(entry);
        return CLQ_ERROR_MEMORY;
    }
    entry->next = device->programs;
    device->programs = entry;
    *out = entry;
    return CLQ_OK;
}

static void take_out(clq_device *device, clq_program *entry) {
    clq_program **at = &device->programs;
    while (*at != entry) at = &(*at)->next;
    *at = entry->next;
    entry_free(entry);
}

/* If the compiler tells what is wrong with the program, the result is kept for later runs. If it tells nothing, it may
 * have failed for a reason that passes, such as a full disk: then only this process takes note. */
static clq_status do_without(clq_device *device, const clq_program *entry) {
    clq_log(CLQ_LOG_WARNING, "%s; it is done without", clq_error_detail());
    if (entry->explained)
        (void)clq_device_keep_trial_result(device, entry->key, false);
    else
        clq_device_note_trial_result(device, entry->key, false);
    return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s", clq_error_detail());
}

clq_status clq_program_get(clq_device *device, const clq_program_wish *wish, clq_program **out) {
    CLQ_TRY(clq_device_alive(device));
    const char *text = wish->text ? wish->text : clq_source_text(wish->file);
    if (!text) return clq_fail(CLQ_ERROR_INTERNAL, "there is no kernel file %s.cl", wish->file);
    clq_hash128 key;
    CLQ_TRY(program_key(device, text, wish, &key));
    clq_status status = CLQ_OK;
    bool builds = true;
    if (wish->optional && clq_device_trial_result(device, key, &builds) && !builds)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s.cl was found not to build on %s", wish->file, device->label);
    clq_program *entry;
    cl_program program = NULL;
    pthread_mutex_lock(&device->lock);
    while ((entry = find(device, key)) && !entry->program) pthread_cond_wait(&device->built, &device->lock);
    if (!entry) status = clq_device_alive(device); /* making it may have failed because the device was lost */
    if (entry)
        program = entry->program;
    else if (status == CLQ_OK)
        status = add(device, wish, text, key, &entry);
    pthread_mutex_unlock(&device->lock);
    if (status == CLQ_OK && !program) {
        status = load_or_build(device, entry, &program);
        if (status == CLQ_ERROR_BUILD && entry->optional && entry->bad) status = do_without(device, entry);
        pthread_mutex_lock(&device->lock);
        entry->program = program;
        if (status != CLQ_OK) take_out(device, entry);
        pthread_cond_broadcast(&device->built);
        pthread_mutex_unlock(&device->lock);
    }
    if (status == CLQ_OK) *out = entry;
    return status;
}

/* ---- keeping ---- */

void clq_programs_ran(clq_device *device) {
    if (!atomic_load(&device->ran_new)) return;
    pthread_mutex_lock(&device->lock);
    atomic_store(&device->ran_new, false);
    for (clq_program *entry = device->programs; entry && atomic_load(&device->claimed) > 0; entry = entry->next) {
        unsigned launched = atomic_load(&entry->launched);
        if (entry->program && !entry->unsaved && launched > 0 && launched == atomic_load(&entry->objects))
            end_claim(device, entry);
    }
    pthread_mutex_unlock(&device->lock);
}

/* If a process died over the program meanwhile, this process goes on with what it has loaded, and the next one builds
 * the program anew. */
void clq_program_claim_again(clq_device *device, clq_program *entry) {
    pthread_mutex_lock(&device->lock);
    if (entry->claim_ended) {
        entry->claim_ended = false;
        const bool died = begin_claim(device, entry);
        if (died && entry->claim.marked) clq_cache_drop(device->cache_dir, clq_programs_folder, entry->key);
        share_claim(device, entry);
    }
    pthread_mutex_unlock(&device->lock);
}

/* Takes the lock since clq_programs_ran ends claims, too. */
void clq_program_leave(clq_device *device, clq_program *entry) {
    pthread_mutex_lock(&device->lock);
    leave_claim(device, entry);
    pthread_mutex_unlock(&device->lock);
}

clq_status clq_program_begin(clq_device *device, clq_program *entry) {
    pthread_mutex_lock(&device->lock); /* waits for a twin that asks for the binary */
    entry->begun = true;
    pthread_mutex_unlock(&device->lock);
    return clq_device_alive(device); /* the device is lost if the driver did not answer the twin */
}

clq_status clq_programs_offer(clq_device *device, clq_hash128 key) {
    clq_status status = CLQ_OK;
    bool whole;
    pthread_mutex_lock(&device->lock);
    clq_program *entry = find(device, key);
    if (entry && entry->program && entry->unsaved && !entry->begun && !clq_device_lost(device)) {
        status = save(device, entry, &whole);
        entry->early = true;
    }
    pthread_mutex_unlock(&device->lock);
    return status;
}

bool clq_device_has_unkept(clq_device *device) {
    pthread_mutex_lock(&device->lock);
    const clq_program *entry = device->programs;
    while (entry && !(entry->program && entry->unsaved)) entry = entry->next;
    pthread_mutex_unlock(&device->lock);
    return entry && device->cache_dir;
}

clq_status clq_device_keep_programs(clq_device *device) {
    clq_status status = CLQ_OK;
    clq_building_begin(device);
    pthread_mutex_lock(&device->lock);
    for (clq_program *entry = device->programs; entry && !clq_device_lost(device); entry = entry->next) {
        if (!entry->program || !entry->unsaved || entry->early) continue;
        status = save_or_distrust(device, entry);
        entry->unsaved = false;
    }
    pthread_mutex_unlock(&device->lock);
    clq_building_end(device);
    return status;
}

/* PoCL specialises a kernel for its work-group at the first launch. A binary that is asked for after the launch holds
 * the specialised kernel, too. But a program that was asked for its binary before the launch gives the same binary for
 * ever. So it is built once more, from what PoCL itself keeps on disk: the new program was not asked yet. */
static void save_whole(clq_device *device, clq_program *entry) {
    cl_program again;
    if (entry->early) {
        if (build_from_source(device, entry, &again) != CLQ_OK) {
            tell_not_kept();
            return;
        }
        (void)clReleaseProgram(entry->program);
        entry->program = again;
    }
    if (save_or_distrust(device, entry) != CLQ_OK) tell_not_kept();
}

void clq_programs_close(clq_device *device) {
    clq_program *entry = device->programs;
    while (entry) {
        clq_program *next = entry->next;
        if (entry->unsaved && !clq_device_lost(device)) save_whole(device, entry);
        end_claim(device, entry);
        if (!clq_device_lost(device)) (void)clReleaseProgram(entry->program);
        entry_free(entry);
        entry = next;
    }
}

/* ---- other things that are kept ---- */

bool clq_device_remembers(const clq_device *device) { return device->cache_dir != NULL; }

clq_status clq_device_recall(const clq_device *device, clq_hash128 key, void **out, size_t *bytes) {
    *out = NULL;
    *bytes = 0;
    return device->cache_dir ? clq_cache_load(device->cache_dir, clq_programs_folder, key, out, bytes) : CLQ_OK;
}

void clq_device_remember(const clq_device *device, clq_hash128 key, const void *data, size_t bytes) {
    if (!device->cache_dir || clq_cache_has(device->cache_dir, clq_programs_folder, key)) return;
    if (clq_cache_store(device->cache_dir, clq_programs_folder, key, data, bytes) != CLQ_OK)
        clq_log(CLQ_LOG_WARNING, "a measurement is not kept: %s", clq_error_detail());
}

clq_status clq_device_replace(const clq_device *device, clq_hash128 key, const void *data, size_t bytes) {
    if (!device->cache_dir) return clq_fail(CLQ_ERROR_STATE, "there is no folder for caches");
    return clq_cache_store(device->cache_dir, clq_programs_folder, key, data, bytes);
}

/* ---- trials ---- */

const void *clq_device_mark_programs(const clq_device *device) { return device->programs; }

void clq_device_drop_programs(clq_device *device, const void *mark) {
    pthread_mutex_lock(&device->lock); /* twins look for programs in this table, in threads of their own */
    while (device->programs != mark && !clq_device_lost(device)) {
        clq_program *entry = device->programs;
        device->programs = entry->next;
        (void)clReleaseProgram(entry->program);
        end_claim(device, entry);
        entry_free(entry);
    }
    pthread_mutex_unlock(&device->lock);
}
