#include "cli/page.h"

#include <stddef.h>
#include <string.h>

const char *clq_page_part(const char *name) {
    for (const clq_page_file *file = clq_page_files; file->name; file++)
        if (strcmp(file->name, name) == 0) return file->text;
    return NULL;
}
