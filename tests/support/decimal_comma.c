/* Preloaded into a test: gives its program a locale with a decimal comma from the start, as a program has that a German
 * or French user starts from a desktop. Ends the test if the locale is missing, because the test would then show
 * nothing. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

__attribute__((constructor)) static void set_comma(void) {
    char text[16] = "";
    const char *set = setlocale(LC_NUMERIC, "comma");
    snprintf(text, sizeof text, "%.1f", 1.5);
    if (set && strcmp(text, "1,5") == 0) return;
    fprintf(stderr, "the locale 'comma' is not in the folder LOCPATH: 1.5 is printed as %s\n", text);
    _Exit(99);
}
