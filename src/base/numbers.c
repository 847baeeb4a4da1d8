/* Formats and parses numbers independently of the program's locale. */
#include "base/base.h"

#include <stdlib.h>

/* C libraries have a static "C" locale, so these functions neither allocate nor free memory. */
clq_locale clq_locale_enter(void) {
    const locale_t c = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    return (clq_locale){.c = c, .before = c ? uselocale(c) : (locale_t)0};
}

void clq_locale_leave(clq_locale entered) {
    if (!entered.c) return;
    uselocale(entered.before);
    freelocale(entered.c);
}

int clq_format_list(char *to, size_t bytes, const char *format, va_list arguments) {
    const clq_locale entered = clq_locale_enter();
    const int length = vsnprintf(to, bytes, format, arguments);
    clq_locale_leave(entered);
    return length;
}

int clq_format(char *to, size_t bytes, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const int length = clq_format_list(to, bytes, format, arguments);
    va_end(arguments);
    return length;
}

int clq_fprintf(FILE *to, const char *format, ...) {
    const clq_locale entered = clq_locale_enter();
    va_list arguments;
    va_start(arguments, format);
    const int length = vfprintf(to, format, arguments);
    va_end(arguments);
    clq_locale_leave(entered);
    return length;
}

bool clq_parse_number(const char *text, double *out) {
    const clq_locale entered = clq_locale_enter();
    char *end;
    const double value = strtod(text, &end);
    clq_locale_leave(entered);
    if (end == text || *end || clq_is_space(*text)) return false;
    *out = value;
    return true;
}

#define TEXT_OF(number) #number
#define RANGE_TEXT(least, most) "seconds, from " TEXT_OF(least) " to " TEXT_OF(most)
const char clq_seconds_range[] = RANGE_TEXT(CLQ_SECONDS_LEAST, CLQ_SECONDS_MOST);

bool clq_parse_seconds(const char *text, double *out) {
    return clq_parse_double(text, CLQ_SECONDS_LEAST, CLQ_SECONDS_MOST, out);
}
