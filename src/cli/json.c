#include "cli/cli.h"

json_t *clq_json_append(json_t *list, json_t *entry) {
    if (json_array_append_new(list, entry) == 0) return list;
    json_decref(list);
    return NULL;
}

json_t *clq_json_put(json_t *object, const char *key, json_t *value) {
    if (json_object_set_new(object, key, value) == 0) return object;
    json_decref(object);
    return NULL;
}
