/* Ctrl-C, for clique and clique-bench: the programs' own affair, the library installs no handler. */
#ifndef CLQ_CLI_INTERRUPT_H
#define CLQ_CLI_INTERRUPT_H

#include <stdbool.h>

/* First thing in a program: notes whether it was started with SIGINT, SIGTERM or SIGHUP ignored (nohup; a shell's
 * background job). Later it cannot be seen: PoCL's compiler, LLVM, puts handlers of its own in place of ignored
 * signals. */
void clq_interrupts_note_ignored(void);
/* Blocks SIGXFSZ for this thread and those it starts: a file that reaches the limit of its size (ulimit -f) is a write
 * that fails, which is told, and no end of the program. Ignoring would not do: LLVM takes the signal for itself. */
void clq_interrupts_block_file_size(void);
/* Likewise SIGPIPE, for a command that has an output in a pipe beside stdout: that its reader has gone is a write that
 * fails. Other commands the signal ends, as it ends other programs whose stdout nobody reads. */
void clq_interrupts_block_pipe(void);
void clq_interrupts_unblock_pipe(void); /* before this process becomes another program */
/* Ignores the signals that were noted as ignored: after LLVM, whose handler takes the others' handlers away when it is
 * called, and before this process becomes another program, where a signal that had a handler gets its default action.
 */
void clq_interrupts_ignore_again(void);
/* From here on the signals end the process at once, with a line and the exit code of the contract, until
 * clq_interrupted is called first. For a program that waits for drivers' compilers, and has nothing to put in order.
 * line: what it prints, with its end of line; a constant. */
void clq_interrupts_end_at_once(const char *line);
/* Behind it: what SIGTERM prints in its place. Launchers send it to all others if one process has ended. */
void clq_interrupts_tell_of_end(const char *line);
/* True once the user pressed Ctrl-C (SIGINT) or the process was told to end (SIGTERM); installs the handlers at the
 * first call, but for signals that were noted as ignored. A second Ctrl-C ends the process at once. */
bool clq_interrupted(void);
bool clq_interrupted_to_end(void); /* by SIGTERM or SIGHUP */
/* For a program that ends anyway: a signal waits until it has said why (clq_interrupts_end_with), and from then on ends
 * it at once with that code. */
void clq_interrupts_hold(void);
void clq_interrupts_end_with(int code);
/* For a program that has others to end when it is asked a second time: how often it was asked. No signal ends it from
 * the first call on; SIGHUP counts as SIGTERM. In place of clq_interrupted. */
unsigned clq_interrupts_count(void);

#endif
