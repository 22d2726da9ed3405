/*
 * kernels_table.h - what is known of kernels that are not XLA's: hooks/kernels.table, and a file like it that
 * HBMSPILL_ADMITTED names, whose rows come first. A row that cannot be read is answered with one line.
 *
 * Threads: any; read at the first question, constant afterwards.
 */
#ifndef HBMSPILL_HOOKS_KERNELS_TABLE_H
#define HBMSPILL_HOOKS_KERNELS_TABLE_H

#include <stdbool.h>

enum kernels_verdict { KERNELS_UNKNOWN, KERNELS_CLOSED, KERNELS_OPEN };

/* hash: of the kernel's module, NULL where it is not known. *why: the row's evidence or reason. */
enum kernels_verdict kernels_look_up(const char *hash, const char *kernel, const char **why);
/* Whether a module's hash can decide anything: else it need not be taken. */
bool kernels_need_hashes(void);

#endif
