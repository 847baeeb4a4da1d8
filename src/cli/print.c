#include "cli/print.h"

#include <string.h>

clq_status clq_print_list(FILE *to, const char *format, va_list arguments) {
    clq_text text = {0};
    clq_text_add_list(&text, format, arguments);
    clq_status status = text.failed ? clq_fail_memory("printing a line") : CLQ_OK;
    for (char *line = text.data; status == CLQ_OK && *line;) {
        size_t length = strcspn(line, "\n");
        char *next = line + length + (line[length] == '\n');
        line[length] = '\0';
        clq_clean(line);
        fputs(line, to);
        if (next > line + length) fputc('\n', to);
        line = next;
    }
    clq_free(text.data);
    return status;
}

char *clq_printable(const char *text) {
    char *copy = clq_strdup(text);
    if (copy) clq_clean(copy);
    return copy;
}

clq_status clq_print(FILE *to, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    clq_status status = clq_print_list(to, format, arguments);
    va_end(arguments);
    return status;
}
