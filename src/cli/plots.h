/* The plots of a report: which rows make which lines. Private to cli. */
#ifndef CLQ_CLI_PLOTS_H
#define CLQ_CLI_PLOTS_H

#include "formats/formats.h"

/* Adds to `plots` what page/plots.js draws, and to the page a figure for each: busbw and time over size, a line for
 * each algorithm and transport; rate and efficiency of training over replicas. Rows that make no line make
 * none. Returns how many plots. */
size_t clq_plots_add(json_t *rows, json_t *plots, clq_text *page);

#endif
