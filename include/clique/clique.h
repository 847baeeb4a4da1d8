/* clique/clique.h: all headers. Read them in this order: status, types, device, model, custom, data, train, callbacks,
 * checkpoint, settings, distribute, generate; comm and world stand alone. */
#ifndef CLIQUE_CLIQUE_H
#define CLIQUE_CLIQUE_H

#include <clique/callbacks.h>
#include <clique/checkpoint.h>
#include <clique/comm.h>
#include <clique/custom.h>
#include <clique/data.h>
#include <clique/device.h>
#include <clique/distribute.h>
#include <clique/generate.h>
#include <clique/model.h>
#include <clique/settings.h>
#include <clique/status.h>
#include <clique/train.h>
#include <clique/types.h>
#include <clique/world.h>

#include <stdio.h>

/* For small programs: prints the failure's detail and leaves main. */
#define CLQ_CHECK(call)                                                                                                \
    do {                                                                                                               \
        clq_status check_status_ = (call);                                                                             \
        if (check_status_ != CLQ_OK) {                                                                                 \
            fprintf(stderr, "%s: %s\n", clq_status_text(check_status_), clq_error_detail());                           \
            return 1;                                                                                                  \
        }                                                                                                              \
    } while (0)

#endif
