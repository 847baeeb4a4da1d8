/* Ctrl-C and other signals, for clique and clique-bench. Only the programs install signal handlers; the library
 * installs none. */
#ifndef CLQ_CLI_INTERRUPT_H
#define CLQ_CLI_INTERRUPT_H

#include <stdbool.h>

/* Call it first in a program. Notes whether the program was started with SIGINT, SIGTERM or SIGHUP ignored (nohup; a
 * shell's background job). Nobody can tell later: PoCL's compiler, LLVM, replaces ignored signals by handlers of its
 * own. */
void clq_interrupts_note_ignored(void);
/* Blocks SIGXFSZ for this thread and the threads that it starts. If a file then reaches its size limit (ulimit -f), the
 * write fails and the program reports it; the signal does not kill the program. Ignoring the signal is not enough: LLVM
 * installs its own handler for it. */
void clq_interrupts_block_file_size(void);
/* Blocks SIGPIPE in the same way, for a command that has an output in a pipe beside stdout: if the pipe's reader has
 * gone, the write fails. SIGPIPE ends other commands, as it ends other programs whose stdout nobody reads. */
void clq_interrupts_block_pipe(void);
void clq_interrupts_unblock_pipe(void); /* call it before exec */
/* Ignores the signals again that were noted as ignored. Needed after LLVM has started, whose handler removes other
 * handlers when it runs, and before exec, which resets a handled signal to its default action. */
void clq_interrupts_ignore_again(void);
/* From now on the signals end the process at once, with a line and the exit code of the contract, until clq_interrupted
 * is called for the first time. For a program that waits for drivers' compilers and has nothing to clean up. line: what
 * it prints, with its end of line; a constant. */
void clq_interrupts_end_at_once(const char *line);
/* Call it after clq_interrupts_end_at_once: SIGTERM then prints this line instead. Launchers send SIGTERM to all other
 * processes if one has ended. */
void clq_interrupts_tell_of_end(const char *line);
/* True once the user pressed Ctrl-C (SIGINT) or the process was told to end (SIGTERM). The first call installs the
 * handlers, except for signals that were noted as ignored. A second Ctrl-C ends the process at once. */
bool clq_interrupted(void);
bool clq_interrupted_to_end(void); /* by SIGTERM or SIGHUP */
/* For a program that is about to end anyway. After clq_interrupts_hold, a signal waits until the program has said why
 * it ends. clq_interrupts_end_with ends the hold: a signal that waits or still comes ends the program at once with that
 * code. */
void clq_interrupts_hold(void);
void clq_interrupts_end_with(int code);
/* How often the program was asked to end. For a program that has others to end when it is asked a second time: from the
 * first call on, no signal ends it. SIGHUP counts as SIGTERM. Use it in place of clq_interrupted. */
unsigned clq_interrupts_count(void);

#endif
