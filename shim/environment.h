/*
 * environment.h - the variables hbmspill sets for XLA. Private to shim/.
 *
 * So that the driver sees tensors, JAX's allocator must be cuda_async and XLA must not put all temporaries in
 * one allocation. Both are settings of the job, so they are set in the constructor unless the user has set
 * them, and looked at again at cuInit and at exit: a script that assigns os.environ["XLA_FLAGS"] undoes them.
 * XLA aborts on flags it does not know, so only these are added. With temporaries apart it warns of each of
 * them, some thousand lines for a program; so unless the user has chosen a level, its warnings are not shown.
 *
 * The environment is inherited. HBMSPILL_INHERITED says what was added, so that a child takes it back and
 * decides by itself: settings of ours never pass for the user's.
 *
 * environ(7) is read and replaced directly: some programs (bash) export getenv and setenv of their own, which
 * do not work before main.
 *
 * Threads: environment_prepare runs in the constructor; the others read environ as getenv does.
 */
#ifndef HBMSPILL_SHIM_ENVIRONMENT_H
#define HBMSPILL_SHIM_ENVIRONMENT_H

#include "shim/shim.h"
#include <stdbool.h>

/* Takes back what a parent process added and, if `add`, adds XLA's settings where the user has none. */
void environment_prepare(bool add);

/* At cuInit: says what was set (info), warns about what a script has undone since. */
void environment_report(void);

/* At exit: warns about what was undone after cuInit. */
void environment_recheck(void);

/* As shim_allocator. */
enum shim_allocator environment_allocator(void);

/* As shim_memory_fraction. */
double environment_memory_fraction(void);

/* At exit: warns where another allocator would let tensors be spilled, with the setting. */
void environment_warn_hidden(void);

#endif
