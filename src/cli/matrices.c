/* Confusion matrices in tables and in JSON. */
#include "cli/cli.h"

enum { COLUMNS_MOST = 100 };

/* *counts: caller: clq_free, also after a failure. */
static clq_status read_matrix(const clq_trainer *trainer, size_t index, clq_matrix_source source, const char **name,
                              size_t *classes, uint64_t **counts) {
    *counts = NULL;
    CLQ_TRY(clq_trainer_matrix(trainer, index, name, classes));
    *counts = clq_alloc(*classes * *classes, sizeof **counts);
    return *counts ? clq_trainer_read_matrix(trainer, index, source, *counts) : CLQ_ERROR_MEMORY;
}

static json_t *describe(const uint64_t *counts, size_t classes) {
    json_t *rows = json_array();
    for (size_t t = 0; t < classes; t++) {
        json_t *row = json_array();
        for (size_t p = 0; p < classes; p++)
            row = clq_json_append(row, json_integer((json_int_t)counts[t * classes + p]));
        rows = clq_json_append(rows, row);
    }
    return rows;
}

json_t *clq_json_put_matrices(json_t *object, const char *prefix, const clq_trainer *trainer, clq_matrix_source source,
                              bool known) {
    for (size_t i = 0; i < clq_trainer_matrix_count(trainer); i++) {
        const char *name = "";
        char key[128];
        size_t classes = 0;
        uint64_t *counts = NULL;
        const clq_status status = known ? read_matrix(trainer, i, source, &name, &classes, &counts)
                                        : clq_trainer_matrix(trainer, i, &name, &classes);
        snprintf(key, sizeof key, "%s%s", prefix, name);
        object = clq_json_put(object, key, status != CLQ_OK ? NULL : known ? describe(counts, classes) : json_null());
        clq_free(counts);
    }
    return object;
}

static int digits(uint64_t number) { return snprintf(NULL, 0, "%llu", (unsigned long long)number); }

static void add_table(clq_text *text, const uint64_t *counts, size_t classes) {
    uint64_t most = classes - 1;
    for (size_t i = 0; i < classes * classes; i++) most = CLQ_MAX(most, counts[i]);
    const int label = 2 + digits(classes - 1), cell = 2 + digits(most);
    if ((size_t)label + classes * (size_t)cell > COLUMNS_MOST) {
        clq_text_add(text, "  %zu classes are too many for a table: --json has the counts\n", classes);
        return;
    }
    clq_text_add(text, "%*s", label, "");
    for (size_t p = 0; p < classes; p++) clq_text_add(text, "%*zu", cell, p);
    for (size_t i = 0; i < classes * classes; i++) {
        if (i % classes == 0) clq_text_add(text, "\n%*zu", label, i / classes);
        clq_text_add(text, "%*llu", cell, (unsigned long long)counts[i]);
    }
    clq_text_add(text, "\n");
}

clq_status clq_print_matrices(FILE *to, const char *prefix, const clq_trainer *trainer, clq_matrix_source source) {
    clq_status status = CLQ_OK;
    for (size_t i = 0; i < clq_trainer_matrix_count(trainer) && status == CLQ_OK; i++) {
        const char *name;
        size_t classes;
        clq_text text = {0};
        uint64_t *counts;
        status = read_matrix(trainer, i, source, &name, &classes, &counts);
        if (status == CLQ_OK) {
            clq_text_add(&text, "%s%s, rows: true classes, columns: predicted classes\n", prefix, name);
            add_table(&text, counts, classes);
            status = text.failed ? CLQ_ERROR_MEMORY : clq_print(to, "%s", text.data);
        }
        clq_free(text.data);
        clq_free(counts);
    }
    return status;
}
