/* The files that `clique report` puts into its page, from src/cli/page and the distribution's Chart.js, embedded at
 * build time. Private to cli. */
#ifndef CLQ_CLI_PAGE_H
#define CLQ_CLI_PAGE_H

typedef struct clq_page_file {
    const char *name; /* "style", "plots"; "chart" if the build found Chart.js. NULL ends the table */
    const char *text;
} clq_page_file;
extern const clq_page_file clq_page_files[];

/* The text of a file; NULL: this build does not have it. */
const char *clq_page_part(const char *name);

#endif
