/* A checkpoint's files: the tensors, and the manifest, which makes the checkpoint complete. */
#include "train/checkpoint.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FORMAT_NAME "clique-checkpoint"
#define VARIABLES "variables/"
enum { FORMAT_VERSION = 1, MANIFEST_MAX = 64 << 20, MANIFEST_DEPTH = 3, HASH_TEXT = 33 };

void clq_checkpoint_release(clq_checkpoint *checkpoint) {
    clq_snapshot_release(&checkpoint->snapshot);
    json_decref(checkpoint->values);
    clq_kept_weights_release(checkpoint->kept, checkpoint->kept_count);
    *checkpoint = (clq_checkpoint){0};
}

/* ---- weights that callbacks keep ---- */

void clq_kept_weights_release(clq_kept_weights *kept, size_t count) {
    for (size_t i = 0; i < count; i++) {
        clq_free(kept[i].name);
        clq_free(kept[i].values);
    }
    clq_free(kept);
}

const float *clq_kept_weights_find(const clq_kept_weights *kept, size_t count, const char *name) {
    for (size_t i = 0; i < count; i++)
        if (strcmp(kept[i].name, name) == 0) return kept[i].values;
    return NULL;
}

static size_t count_values(const clq_model *model) {
    size_t count = 0;
    for (uint32_t v = 0; v < model->variable_count; v++) count += model->variables[v].elements;
    return count;
}

clq_status clq_checkpoint_add_kept(clq_checkpoint *c, const char *name, float **values) {
    clq_kept_weights *grown = clq_realloc(c->kept, c->kept_count, c->kept_count + 1, sizeof *grown);
    if (!grown) return CLQ_ERROR_MEMORY;
    c->kept = grown;
    const clq_kept_weights one = {.name = clq_strdup(name),
                                  .values = clq_alloc(CLQ_MAX(count_values(c->model), (size_t)1), sizeof(float))};
    grown[c->kept_count++] = one;
    *values = one.values;
    return one.name && one.values ? CLQ_OK : CLQ_ERROR_MEMORY;
}

clq_status clq_checkpoint_keep_weights(clq_checkpoint *checkpoint, const char *name, const float *values) {
    float *kept;
    CLQ_TRY(clq_checkpoint_add_kept(checkpoint, name, &kept));
    memcpy(kept, values, count_values(checkpoint->model) * sizeof *values);
    return CLQ_OK;
}

clq_status clq_checkpoint_add_entry(clq_checkpoint *c, clq_snapshot_entry e, float **values) {
    clq_snapshot *s = &c->snapshot;
    clq_snapshot_entry *entries = clq_grow(s->entries, s->count, &s->capacity, 64, sizeof *entries);
    if (entries) s->entries = entries;
    void **blocks = clq_grow(s->blocks, s->block_count, &s->block_capacity, 64, sizeof *blocks);
    if (blocks) s->blocks = blocks;
    *values = clq_alloc(CLQ_MAX(clq_variable_bytes(&c->model->variables[e.variable]), (size_t)1), 1);
    if (!entries || !blocks || !*values) {
        clq_free(*values);
        return CLQ_ERROR_MEMORY;
    }
    s->blocks[s->block_count++] = *values;
    e.values = *values;
    s->entries[s->count++] = e;
    return CLQ_OK;
}

/* ---- named values ---- */

clq_status clq_checkpoint_put_text(clq_checkpoint *checkpoint, const char *name, const char *text) {
    if (!checkpoint->values) checkpoint->values = json_object();
    if (checkpoint->values && json_object_set_new(checkpoint->values, name, clq_json_text(text)) == 0) return CLQ_OK;
    return clq_fail_memory("making a checkpoint");
}

clq_status clq_checkpoint_put_number(clq_checkpoint *checkpoint, const char *name, double value) {
    char text[64];
    clq_format(text, sizeof text, "%a", value);
    return clq_checkpoint_put_text(checkpoint, name, text);
}

clq_status clq_checkpoint_put_count(clq_checkpoint *checkpoint, const char *name, uint64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRIu64, value);
    return clq_checkpoint_put_text(checkpoint, name, text);
}

const char *clq_checkpoint_text(const clq_checkpoint *checkpoint, const char *name) {
    return json_string_value(json_object_get(checkpoint->values, name));
}

bool clq_checkpoint_number(const clq_checkpoint *checkpoint, const char *name, double *out) {
    const char *text = clq_checkpoint_text(checkpoint, name);
    return text && clq_parse_number(text, out);
}

bool clq_checkpoint_count(const clq_checkpoint *checkpoint, const char *name, uint64_t *out) {
    const char *text = clq_checkpoint_text(checkpoint, name);
    return text && clq_parse_u64(text, 0, UINT64_MAX, out);
}

/* ---- names and hashes ---- */

/* A tensor's name in the file: "optimizer/1/dense/kernel", "replica/0/error/dense/kernel". The caller frees it. */
static char *name_of(const clq_model *model, const clq_snapshot_entry *e) {
    const char *variable = model->variables[e->variable].name;
    char who[32] = "";
    if (e->replica >= 0) snprintf(who, sizeof who, "replica/%d/", e->replica);
    switch (e->kind) {
    case CLQ_SNAPSHOT_VALUE: return clq_strprintf("%s" VARIABLES "%s", who, variable);
    case CLQ_SNAPSHOT_SLOT: return clq_strprintf("%soptimizer/%u/%s", who, e->slot, variable);
    case CLQ_SNAPSHOT_ERROR: return clq_strprintf("%serror/%s", who, variable);
    }
    return NULL;
}

static void hash_text(const void *data, size_t bytes, char out[HASH_TEXT]) {
    const clq_hash128 hash = clq_hash128_of(data, bytes, 0);
    snprintf(out, HASH_TEXT, "%016" PRIx64 "%016" PRIx64, hash.high, hash.low);
}

/* Hashes the manifest, which must not have its own hash in it. */
static clq_status hash_manifest(const json_t *manifest, char out[HASH_TEXT]) {
    clq_text text = {0};
    clq_json_dump(manifest, JSON_COMPACT | JSON_SORT_KEYS, &text);
    if (!text.failed) hash_text(text.data, text.length, out);
    clq_free(text.data);
    return text.failed ? clq_fail_memory("making a manifest") : CLQ_OK;
}

/* ---- writing ---- */

typedef struct tensors {
    clq_safetensors_source *sources;
    char **names;
    size_t count;
    json_t *hashes;
} tensors;

static void release_tensors(tensors *t) {
    for (size_t i = 0; t->names && i < t->count; i++) clq_free(t->names[i]);
    clq_free(t->names);
    clq_free(t->sources);
    json_decref(t->hashes);
}

/* Takes over `name`; NULL: there was no memory for it, and MEMORY is returned. */
static clq_status list_tensor(tensors *to, char *name, const clq_variable *v, const float *values) {
    char hash[HASH_TEXT];
    clq_safetensors_source *source = &to->sources[to->count];
    to->names[to->count++] = name;
    if (!name) return CLQ_ERROR_MEMORY;
    *source = (clq_safetensors_source){.name = name, .dtype = v->dtype, .rank = v->shape.rank, .data = values};
    for (unsigned d = 0; d < v->shape.rank; d++) source->dims[d] = v->shape.dims[d];
    hash_text(values, clq_variable_bytes(v), hash);
    if (json_object_set_new(to->hashes, name, json_string(hash)) == 0) return CLQ_OK;
    return clq_fail_memory("making a manifest");
}

static clq_status list_tensors(const clq_checkpoint *c, tensors *out) {
    const clq_snapshot *s = &c->snapshot;
    const size_t count = s->count + c->kept_count * c->model->variable_count;
    out->sources = clq_alloc(count, sizeof *out->sources);
    out->names = clq_alloc(count, sizeof *out->names);
    out->hashes = json_object();
    if (!out->sources || !out->names || !out->hashes) return clq_fail_memory("making a checkpoint");
    for (size_t i = 0; i < s->count; i++) {
        const clq_snapshot_entry *e = &s->entries[i];
        CLQ_TRY(list_tensor(out, name_of(c->model, e), &c->model->variables[e->variable], e->values));
    }
    for (size_t i = 0; i < c->kept_count; i++) {
        const float *values = c->kept[i].values;
        for (uint32_t k = 0; k < c->model->variable_count; k++) {
            const clq_variable *v = &c->model->variables[k];
            CLQ_TRY(list_tensor(out, clq_strprintf("%s/%s", c->kept[i].name, v->name), v, values));
            values += v->elements;
        }
    }
    return CLQ_OK;
}

static clq_status write_text(const char *path, const json_t *document) {
    clq_text text = {0};
    clq_file_writer *writer;
    clq_json_dump(document, JSON_INDENT(1) | JSON_SORT_KEYS, &text);
    clq_text_add(&text, "\n");
    clq_status status = text.failed ? clq_fail_memory("making a manifest") : clq_file_writer_open(path, &writer);
    if (status == CLQ_OK) {
        clq_file_writer_put(writer, text.data, text.length);
        status = clq_file_writer_commit(writer);
    }
    clq_free(text.data);
    return status;
}

static clq_status write_manifest(const clq_checkpoint *c, json_t *hashes, const char *path) {
    char hash[HASH_TEXT];
    json_t *manifest =
        json_pack("{s:s, s:i, s:I, s:s, s:i, s:i, s:O, s:O}", "format", FORMAT_NAME, "version", FORMAT_VERSION, "step",
                  (json_int_t)c->step, "model", clq_model_name(c->model), "replicas", (int)c->snapshot.replicas,
                  "optimizer_slots", (int)c->snapshot.slots, "values", c->values, "tensors", hashes);
    clq_status status = manifest ? hash_manifest(manifest, hash) : clq_fail_memory("making a manifest");
    if (status == CLQ_OK && json_object_set_new(manifest, "xxh3", json_string(hash)) != 0)
        status = clq_fail_memory("making a manifest");
    if (status == CLQ_OK) status = write_text(path, manifest);
    json_decref(manifest);
    return status;
}

clq_status clq_checkpoint_write(const clq_checkpoint *checkpoint, const char *folder) {
    static const char *const metadata[] = {"format", FORMAT_NAME};
    tensors t = {0};
    char *data = clq_strprintf("%s/tensors.safetensors", folder), *manifest = clq_strprintf("%s/manifest.json", folder);
    clq_status status = data && manifest ? list_tensors(checkpoint, &t) : CLQ_ERROR_MEMORY;
    if (status == CLQ_OK) status = clq_safetensors_write(data, t.sources, t.count, metadata, 1);
    if (status == CLQ_OK) status = write_manifest(checkpoint, t.hashes, manifest);
    release_tensors(&t);
    clq_free(data);
    clq_free(manifest);
    return status;
}

/* ---- reading ---- */

#define REMEDY "remove its folder, or restore it from a copy"

enum { REPLICAS_OF_ALL_MAX = 1 << 16 }; /* of all processes; a manifest with more is wrong */

/* The name of a member that is missing or wrong; NULL: all are right. */
static const char *wrong_member(const json_t *manifest) {
    const json_int_t replicas = json_integer_value(json_object_get(manifest, "replicas"));
    if (json_integer_value(json_object_get(manifest, "step")) < 1) return "step";
    if (replicas < 1 || replicas > REPLICAS_OF_ALL_MAX) return "replicas";
    if (!json_is_object(json_object_get(manifest, "values"))) return "values";
    return json_is_object(json_object_get(manifest, "tensors")) ? NULL : "tensors";
}

static clq_status check_manifest(json_t *manifest, const char *path) {
    char hash[HASH_TEXT], told[HASH_TEXT] = "";
    const char *name = json_string_value(json_object_get(manifest, "format"));
    if (!name || strcmp(name, FORMAT_NAME) != 0)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: no manifest of a checkpoint", path);
    const json_int_t version = json_integer_value(json_object_get(manifest, "version"));
    if (version != FORMAT_VERSION)
        return clq_fail(CLQ_ERROR_UNSUPPORTED, "%s: has format version %" JSON_INTEGER_FORMAT "; this Clique reads %d",
                        path, version, FORMAT_VERSION);
    snprintf(told, sizeof told, "%s",
             json_string_value(json_object_get(manifest, "xxh3")) ? json_string_value(json_object_get(manifest, "xxh3"))
                                                                  : "");
    (void)json_object_del(manifest, "xxh3");
    CLQ_TRY(hash_manifest(manifest, hash));
    if (strcmp(hash, told) != 0)
        return clq_fail(CLQ_ERROR_FORMAT, "%s: damaged: its hash does not match its contents; " REMEDY, path);
    const char *wrong = wrong_member(manifest);
    return wrong ? clq_fail(CLQ_ERROR_FORMAT, "%s: member '%s' is missing or wrong; " REMEDY, path, wrong) : CLQ_OK;
}

/* Checks that the tensors are those that the manifest lists, bit for bit. */
static clq_status check_tensors(const json_t *manifest, const clq_safetensors *file, const char *path) {
    const json_t *hashes = json_object_get(manifest, "tensors");
    char hash[HASH_TEXT];
    if (json_object_size(hashes) != clq_safetensors_count(file))
        return clq_fail(CLQ_ERROR_FORMAT, "%s: %zu tensors, and the manifest lists %zu", path,
                        clq_safetensors_count(file), json_object_size(hashes));
    for (size_t i = 0; i < clq_safetensors_count(file); i++) {
        const clq_safetensors_entry *e = clq_safetensors_at(file, i);
        const char *told = json_string_value(json_object_get(hashes, e->name));
        hash_text(e->data, e->bytes, hash);
        if (!told || strcmp(told, hash) != 0)
            return clq_fail(CLQ_ERROR_FORMAT,
                            "%s: tensor '%s' is damaged: its hash does not match the manifest; " REMEDY, path, e->name);
    }
    return CLQ_OK;
}

static clq_status check_tensor(const clq_safetensors_entry *from, const clq_variable *v, const char *path) {
    if (from->dtype != v->dtype)
        return clq_fail(CLQ_ERROR_MISMATCH, "%s: tensor '%s' is %s and the model's is %s", path, from->name,
                        clq_dtype_name(from->dtype), clq_dtype_name(v->dtype));
    return clq_check_tensor_shape(from, v, path);
}

/* With the same optimizer, checkpoint and training have optimizer state of different variables only if different layers
 * are frozen. */
static clq_status refuse_freezing(const char *path, const clq_variable *v, const char *was, const char *is) {
    return clq_fail(CLQ_ERROR_MISMATCH, "%s: variable %s %s, and %s: freeze the same layers to go on from it", path,
                    v->name, was, is);
}

/* A variable that is frozen now, and of which the file has optimizer state; NULL: there is none. */
static const clq_variable *find_frozen_since(const clq_checkpoint *c, const clq_safetensors *file) {
    for (uint32_t v = 0; v < c->model->variable_count && c->snapshot.slots > 0; v++) {
        const clq_snapshot_entry e = {.variable = v, .kind = CLQ_SNAPSHOT_SLOT, .replica = -1};
        char *name = c->model->variables[v].fixed ? name_of(c->model, &e) : NULL;
        const bool has = name && clq_safetensors_find(file, name);
        clq_free(name);
        if (has) return &c->model->variables[v];
    }
    return NULL;
}

/* Copies one tensor into the snapshot if the file has it, and counts it. needed: MISMATCH if the file does not have
 * it. */
static clq_status take_tensor(clq_checkpoint *c, const clq_safetensors *file, const char *path, clq_snapshot_entry e,
                              bool needed, size_t *taken) {
    const clq_variable *v = &c->model->variables[e.variable];
    char *name = name_of(c->model, &e);
    if (!name) return CLQ_ERROR_MEMORY;
    const clq_safetensors_entry *from = clq_safetensors_find(file, name);
    clq_status status = CLQ_OK;
    if (!from && needed && e.kind == CLQ_SNAPSHOT_SLOT)
        status = refuse_freezing(path, v, "was frozen", "is trained now");
    else if (!from && needed)
        status = clq_fail(CLQ_ERROR_MISMATCH, "%s: it has no tensor '%s', which the training has", path, name);
    else if (from)
        status = check_tensor(from, v, path);
    clq_free(name);
    if (status != CLQ_OK || !from) return status;
    float *values;
    CLQ_TRY(clq_checkpoint_add_entry(c, e, &values));
    memcpy(values, from->data, from->bytes);
    ++*taken;
    return CLQ_OK;
}

static clq_status take_of(clq_checkpoint *c, const clq_safetensors *file, const char *path, int replica,
                          size_t *taken) {
    const bool all = replica < 0;
    for (uint32_t v = 0; v < c->model->variable_count; v++) {
        const bool trained = c->model->variables[v].role == CLQ_ROLE_TRAINABLE;
        clq_snapshot_entry e = {.variable = v, .replica = replica};
        CLQ_TRY(take_tensor(c, file, path, e, all, taken));
        e.kind = CLQ_SNAPSHOT_SLOT;
        for (e.slot = 0; e.slot < c->snapshot.slots && trained; e.slot++)
            CLQ_TRY(take_tensor(c, file, path, e, all, taken));
        e.kind = CLQ_SNAPSHOT_ERROR;
        e.slot = 0;
        if (trained && !all) CLQ_TRY(take_tensor(c, file, path, e, false, taken));
    }
    return CLQ_OK;
}

/* of: what the name of its tensor begins with. */
static clq_status find_variable(const clq_safetensors *file, const char *path, const char *of, const clq_variable *v,
                                const clq_safetensors_entry **out) {
    char *name = clq_strprintf("%s%s", of, v->name);
    if (!name) return CLQ_ERROR_MEMORY;
    *out = clq_safetensors_find(file, name);
    const clq_status status =
        *out ? CLQ_OK : clq_fail(CLQ_ERROR_MISMATCH, "%s: it has no tensor '%s', which the model needs", path, name);
    clq_free(name);
    return status;
}

/* Takes the weights that the callback of this state kept, if the file has any. */
static clq_status take_kept_of(clq_checkpoint *c, const clq_safetensors *file, const char *path, const char *state,
                               size_t *taken) {
    char *of = clq_strprintf("%s/", state);
    float *to;
    bool any = false;
    for (size_t i = 0; of && i < clq_safetensors_count(file) && !any; i++)
        any = strncmp(clq_safetensors_at(file, i)->name, of, strlen(of)) == 0;
    clq_status status = !of ? CLQ_ERROR_MEMORY : any ? clq_checkpoint_add_kept(c, state, &to) : CLQ_OK;
    for (uint32_t k = 0; any && k < c->model->variable_count && status == CLQ_OK; k++) {
        const clq_variable *v = &c->model->variables[k];
        const clq_safetensors_entry *from;
        status = find_variable(file, path, of, v, &from);
        if (status == CLQ_OK) status = check_tensor(from, v, path);
        if (status == CLQ_OK) memcpy(to, from->data, from->bytes);
        to += v->elements;
        ++*taken;
    }
    clq_free(of);
    return status;
}

static clq_status take_tensors(clq_checkpoint *c, const clq_safetensors *file, const char *path) {
    size_t taken = 0;
    const char *key;
    json_t *value;
    json_object_foreach(c->values, key, value) {
        if (strncmp(key, "callback/", 9) == 0) CLQ_TRY(take_kept_of(c, file, path, key, &taken));
    }
    for (int r = -1; r < (int)c->snapshot.replicas && taken < clq_safetensors_count(file); r++)
        CLQ_TRY(take_of(c, file, path, r, &taken));
    CLQ_TRY(clq_refuse_strangers(c->model, file, path, VARIABLES));
    if (taken == clq_safetensors_count(file)) return CLQ_OK;
    const clq_variable *frozen = find_frozen_since(c, file);
    if (frozen) return refuse_freezing(path, frozen, "was trained", "is frozen now");
    return clq_fail(CLQ_ERROR_MISMATCH, "%s: it has %zu tensors that the training does not have", path,
                    clq_safetensors_count(file) - taken);
}

/* The two files of a checkpoint, which belong together bit for bit. */
typedef struct files {
    char *manifest_path, *path;
    json_t *manifest;
    clq_safetensors *tensors;
} files;

static clq_status open_files(const char *folder, files *f) {
    *f = (files){.manifest_path = clq_strprintf("%s/manifest.json", folder),
                 .path = clq_strprintf("%s/tensors.safetensors", folder)};
    if (!f->manifest_path || !f->path) return CLQ_ERROR_MEMORY;
    CLQ_TRY(clq_json_read(f->manifest_path, MANIFEST_MAX, MANIFEST_DEPTH, &f->manifest));
    CLQ_TRY(check_manifest(f->manifest, f->manifest_path));
    CLQ_TRY(clq_safetensors_open(f->path, &f->tensors));
    return check_tensors(f->manifest, f->tensors, f->path);
}

static void close_files(files *f) {
    clq_safetensors_close(f->tensors);
    json_decref(f->manifest);
    clq_free(f->manifest_path);
    clq_free(f->path);
}

clq_status clq_checkpoint_read(const char *folder, const clq_model *model, unsigned slots, clq_checkpoint *out) {
    files f;
    *out = (clq_checkpoint){.model = model};
    clq_status status = open_files(folder, &f);
    if (status == CLQ_OK) {
        out->step = (uint64_t)json_integer_value(json_object_get(f.manifest, "step"));
        out->values = json_incref(json_object_get(f.manifest, "values"));
        out->snapshot.replicas = (unsigned)json_integer_value(json_object_get(f.manifest, "replicas"));
        out->snapshot.slots = slots;
        status = take_tensors(out, f.tensors, f.path);
    }
    close_files(&f);
    return status;
}

clq_status clq_checkpoint_read_weights(const char *folder, const clq_model *model, float *values) {
    files f;
    clq_status status = open_files(folder, &f);
    if (status == CLQ_OK) status = clq_refuse_strangers(model, f.tensors, f.path, VARIABLES);
    for (uint32_t v = 0; v < model->variable_count && status == CLQ_OK; v++) {
        const clq_safetensors_entry *from;
        status = find_variable(f.tensors, f.path, VARIABLES, &model->variables[v], &from);
        if (status == CLQ_OK) status = clq_read_weights(from, &model->variables[v], f.path, values);
        values += model->variables[v].elements;
    }
    close_files(&f);
    return status;
}
