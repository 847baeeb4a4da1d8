#include "support/check.h"

#include <stdlib.h>

/* Without a lock or atomics of its own: the log calls it from one thread at a time. */
typedef struct heard {
    int lines;
    clq_log_level level;
    char last[8000], all[8000];
} heard;

static void listen(void *context, clq_log_level level, const char *line) {
    heard *h = context;
    h->lines++;
    h->level = level;
    strcpy(h->last, line);
    if (strlen(h->all) + strlen(line) + 2 < sizeof(h->all)) strcat(strcat(h->all, line), "|");
}

static int silence(void **state) {
    (void)state;
    clq_log_set_sink(NULL, NULL, CLQ_LOG_DEBUG);
    return 0;
}

static void levels(void **state) {
    (void)state;
    heard h = {0};
    assert_false(clq_log_enabled(CLQ_LOG_ERROR));
    clq_log(CLQ_LOG_ERROR, "nobody hears this");
    clq_log_set_sink(listen, &h, CLQ_LOG_INFO);
    assert_true(clq_log_enabled(CLQ_LOG_ERROR));
    assert_true(clq_log_enabled(CLQ_LOG_INFO));
    assert_false(clq_log_enabled(CLQ_LOG_DEBUG));
    clq_log(CLQ_LOG_DEBUG, "too fine");
    assert_int_equal(h.lines, 0);
    clq_log(CLQ_LOG_WARNING, "device %d is %s", 3, "slow");
    assert_int_equal(h.lines, 1);
    assert_int_equal(h.level, CLQ_LOG_WARNING);
    assert_string_equal(h.last, "device 3 is slow");
    clq_log_set_sink(NULL, NULL, CLQ_LOG_DEBUG);
    clq_log(CLQ_LOG_ERROR, "gone");
    assert_int_equal(h.lines, 1);
}

static void one_line_at_a_time(void **state) {
    (void)state;
    heard h = {0};
    clq_log_set_sink(listen, &h, CLQ_LOG_INFO);
    clq_log(CLQ_LOG_INFO, "build log:\nline 1\n\nline 2\n");
    assert_string_equal(h.all, "build log:|line 1|line 2|");
    char longer[5000];
    memset(longer, 'x', sizeof(longer) - 1);
    longer[sizeof(longer) - 1] = '\0';
    clq_log(CLQ_LOG_INFO, "<%s>", longer);
    assert_int_equal(strlen(h.last), sizeof(longer) + 1);
    assert_string_equal(h.last + sizeof(longer) - 1, "x>");
    clq_log(CLQ_LOG_INFO, "a driver's \x1b[31mred\t\xff line");
    assert_string_equal(h.last, "a driver's ?[31mred ? line");
    h.lines = 0;
    clq_log(CLQ_LOG_INFO, "%s", "");
    assert_int_equal(h.lines, 1);
}

static void log_again(void *context, clq_log_level level, const char *line) {
    (void)level;
    (void)line;
    ++*(int *)context;
    clq_log(CLQ_LOG_ERROR, "from the sink itself");
}

static void a_sink_may_log(void **state) {
    (void)state;
    int calls = 0;
    clq_log_set_sink(log_again, &calls, CLQ_LOG_INFO);
    clq_log(CLQ_LOG_INFO, "once");
    clq_log(CLQ_LOG_INFO, "twice");
    assert_int_equal(calls, 2);
}

static void log_some(void *context) {
    (void)context;
    for (int i = 0; i < 500; i++) clq_log(CLQ_LOG_INFO, "line %d", i);
}

static void many_threads(void **state) {
    (void)state;
    heard h = {0};
    clq_thread *threads[4];
    clq_log_set_sink(listen, &h, CLQ_LOG_INFO);
    for (int i = 0; i < 4; i++) assert_ok(clq_thread_start("logger", log_some, NULL, &threads[i]));
    for (int i = 0; i < 4; i++) clq_thread_join(threads[i]);
    assert_int_equal(h.lines, 4 * 500);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(levels, silence),
        cmocka_unit_test_teardown(one_line_at_a_time, silence),
        cmocka_unit_test_teardown(a_sink_may_log, silence),
        cmocka_unit_test_teardown(many_threads, silence),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
