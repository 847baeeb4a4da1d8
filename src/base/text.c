#include "base/base.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAPACITY = 128 };

static bool reserve(clq_text *text, size_t more) {
    size_t needed;
    if (text->failed || !clq_add_size(text->length, more, &needed) || !clq_add_size(needed, 1, &needed)) {
        text->failed = true;
        return false;
    }
    if (text->data && needed <= text->capacity) return true;
    size_t capacity = CLQ_MAX(CLQ_MAX(needed, text->capacity + text->capacity / 2), (size_t)FIRST_CAPACITY);
    char *grown = clq_realloc(text->data, text->capacity, capacity, 1);
    if (!grown) {
        text->failed = true;
        return false;
    }
    text->data = grown;
    text->capacity = capacity;
    return true;
}

void clq_text_add_bytes(clq_text *text, const char *bytes, size_t length) {
    if (!reserve(text, length)) return;
    if (length) memcpy(text->data + text->length, bytes, length);
    text->length += length;
    text->data[text->length] = '\0';
}

void clq_text_add_text(clq_text *text, const char *more) { clq_text_add_bytes(text, more, strlen(more)); }

void clq_text_add_list(clq_text *text, const char *format, va_list arguments) {
    va_list again;
    va_copy(again, arguments);
    char first[FIRST_CAPACITY];
    int length = clq_format_list(first, sizeof(first), format, arguments);
    if (length < 0) {
        text->failed = true;
        clq_fail(CLQ_ERROR_INTERNAL, "cannot format '%s'", format);
    } else if ((size_t)length < sizeof(first)) {
        clq_text_add_bytes(text, first, (size_t)length);
    } else if (reserve(text, (size_t)length)) {
        clq_format_list(text->data + text->length, (size_t)length + 1, format, again);
        text->length += (size_t)length;
    }
    va_end(again);
}

void clq_text_add(clq_text *text, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    clq_text_add_list(text, format, arguments);
    va_end(arguments);
}

char *clq_strprintf(const char *format, ...) {
    clq_text text = {0};
    va_list arguments;
    va_start(arguments, format);
    clq_text_add_list(&text, format, arguments);
    va_end(arguments);
    if (!text.failed) return text.data;
    clq_free(text.data);
    return NULL;
}

size_t clq_utf8_length(const char *text) {
    const unsigned char *c = (const unsigned char *)text;
    unsigned lead = *c++;
    size_t more = lead < 0x80 ? 0 : lead < 0xE0 ? 1 : lead < 0xF0 ? 2 : 3;
    unsigned low = 0x80, high = 0xBF; /* limits of the next byte */
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
    if (lead > 0xF4 || (lead >= 0x80 && lead < 0xC2)) return 0;
    for (size_t i = 0; i < more; i++, low = 0x80, high = 0xBF)
        if (c[i] < low || c[i] > high) return 0;
    return 1 + more;
}

/* C0, DEL or C1. In UTF-8, a C1 control is the byte 0xC2, followed by the control's own byte. */
static bool is_control(const char *text) {
    unsigned char first = (unsigned char)text[0], second = (unsigned char)text[1];
    return first < 0x20 || first == 0x7F || (first == 0xC2 && second < 0xA0);
}

void clq_clean(char *text) {
    char *to = text;
    for (const char *from = text; *from;) {
        size_t length = clq_utf8_length(from);
        if (length == 0 || is_control(from)) {
            *to++ = strchr("\t\n\v\f\r", *from) ? ' ' : '?';
            from += length ? length : 1;
            continue;
        }
        memmove(to, from, length);
        to += length;
        from += length;
    }
    *to = '\0';
}

void clq_text_add_clean(clq_text *text, const char *from) {
    size_t before = text->length;
    clq_text_add_text(text, from);
    if (text->failed) return;
    clq_clean(text->data + before);
    text->length = before + strlen(text->data + before);
}

bool clq_parse_u64(const char *text, uint64_t min, uint64_t max, uint64_t *out) {
    if (!*text || text[strspn(text, "0123456789")]) return false;
    errno = 0;
    unsigned long long value = strtoull(text, NULL, 10);
    if (errno || value < min || value > max) return false;
    *out = value;
    return true;
}

bool clq_parse_sizes(const char *text, unsigned most, size_t *sizes, unsigned *count) {
    char word[24];
    uint64_t size;
    for (*count = 0;; text++) {
        const size_t length = strcspn(text, "x");
        if (*count == most || length >= sizeof word) return false;
        memcpy(word, text, length);
        word[length] = '\0';
        if (!clq_parse_u64(word, 1, INT32_MAX, &size)) return false;
        sizes[(*count)++] = (size_t)size;
        text += length;
        if (!*text) return true;
    }
}

bool clq_parse_double(const char *text, double min, double max, double *out) {
    if (!*text || text[strspn(text, "0123456789+-.eE")]) return false;
    double value;
    /* An underflow gives a small number, which is accepted. An overflow gives HUGE_VAL, which is refused here. */
    if (!clq_parse_number(text, &value) || !isfinite(value) || !(value >= min && value <= max)) return false;
    *out = value;
    return true;
}

clq_bytes_text clq_bytes(uint64_t bytes) {
    static const char *const units[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    clq_bytes_text out;
    double value = (double)bytes / 1024;
    size_t unit = 0;
    if (bytes < 1024) {
        clq_format(out.text, sizeof out.text, "%u byte%s", (unsigned)bytes, clq_plural(bytes));
        return out;
    }
    for (; value >= 1023.5; value /= 1024) unit++; /* a value that would be printed as 1024 is 1 in the next unit */
    clq_format(out.text, sizeof out.text, "%.*f %s", value < 9.995 ? 2 : value < 99.95 ? 1 : 0, value, units[unit]);
    return out;
}

void clq_bytes_apart(uint64_t a, uint64_t b, clq_bytes_text *of_a, clq_bytes_text *of_b) {
    *of_a = clq_bytes(a);
    *of_b = clq_bytes(b);
    if (a == b || strcmp(of_a->text, of_b->text) != 0) return;
    clq_format(of_a->text, sizeof of_a->text, "%llu bytes", (unsigned long long)a);
    clq_format(of_b->text, sizeof of_b->text, "%llu bytes", (unsigned long long)b);
}

bool clq_name_matches(const char *pattern, size_t length, const char *name) {
    if (length == 0) return *name == '\0';
    if (*pattern == '*') {
        for (;; name++) {
            if (clq_name_matches(pattern + 1, length - 1, name)) return true;
            if (*name == '\0') return false;
        }
    }
    return *name != '\0' && (*pattern == '?' || *pattern == *name) &&
           clq_name_matches(pattern + 1, length - 1, name + 1);
}
