#include "cli/interrupt.h"

#include <signal.h>
#include <stddef.h>

static volatile sig_atomic_t stop_asked;
static void ask_to_stop(int signal_number) {
    (void)signal_number;
    stop_asked = 1;
}

bool clq_interrupted(void) {
    static bool installed;
    if (!installed) {
        struct sigaction action = {.sa_handler = ask_to_stop, .sa_flags = (int)SA_RESETHAND};
        sigemptyset(&action.sa_mask);
        sigaction(SIGINT, &action, NULL);
        sigaction(SIGTERM, &action, NULL);
        installed = true;
    }
    return stop_asked != 0;
}
