/* Texts of Keras's files that tests have the importer read. */
#ifndef CLQ_TEST_KERAS_TEXT_H
#define CLQ_TEST_KERAS_TEXT_H

#include "interop/interop.h"
#include "support/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static char file[64];
static int handle;

/* In place. Some file systems write a file that was emptied to the disk as soon as it is closed, in case the machine
 * fails, and there are tens of thousands of these. */
static inline void put(const char *text, size_t length) {
    for (size_t done = 0; done < length;) {
        const ssize_t part = pwrite(handle, text + done, length - done, (off_t)done);
        assert_true(part > 0);
        done += (size_t)part;
    }
    assert_int_equal(ftruncate(handle, (off_t)length), 0);
}

static inline clq_status read_json(json_t *json, clq_model **model) {
    char *text = json_dumps(json, 0);
    assert_non_null(text);
    put(text, strlen(text));
    free(text);
    return clq_model_read_keras_json(file, model);
}

/* A Functional model of one input, `x`, whose shape is given, and these layers, of which the last is the output. */
static inline clq_status read_layers(const char *shape, const char *layers, const char *last, clq_model **model) {
    char *text = clq_strprintf("{\"class_name\": \"Functional\", \"config\": {\"name\": \"m\", \"layers\": ["
                               "{\"class_name\": \"InputLayer\", \"name\": \"x\", \"config\": {\"name\": \"x\", "
                               "\"batch_shape\": %s}, \"inbound_nodes\": []}, %s], \"input_layers\": [[\"x\", 0, 0]], "
                               "\"output_layers\": [[\"%s\", 0, 0]]}}",
                               shape, layers, last);
    put(text, strlen(text));
    clq_free(text);
    return clq_model_read_keras_json(file, model);
}

#define TENSOR(layer, node)                                                                                            \
    "{\"class_name\": \"__keras_tensor__\", \"config\": {\"keras_history\": [\"" layer "\", " #node ", 0]}}"

static inline int open_file(void **state) {
    (void)state;
    strcpy(file, "/tmp/clique-keras-json-XXXXXX");
    handle = mkstemp(file);
    return handle < 0 ? -1 : 0;
}
static inline int close_file(void **state) {
    (void)state;
    return close(handle) + unlink(file);
}

#endif
