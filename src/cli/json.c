#include "cli/cli.h"

json_t *clq_json_append(json_t *list, json_t *entry) {
    if (json_array_append_new(list, entry) == 0) return list;
    json_decref(list);
    return NULL;
}
