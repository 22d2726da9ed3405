/*
 * history.h - when each operation ran in virtual time, as a text: SYNTHETIC_GPU_HISTORY.
 *
 * Behind the line `device-history 1', one line for each kernel, graph, copy, memset and host function, in the
 * order in which they ended: KIND STREAM SUBMIT START END WHAT. KIND: l, t, c, m, h as in the record; times
 * are nanoseconds since cuInit: when the host had called, when it started, when it ended; WHAT: a kernel's
 * name, or bytes. STREAM is the stream's id. All functions want driver_lock and do nothing where no history
 * is asked for.
 */
#ifndef SYNTHETIC_HISTORY_H
#define SYNTHETIC_HISTORY_H

#include "engine.h"

/* cuInit; what goes wrong is said and there is no history. */
void history_start(void);
void history_add_locked(const struct op *op, uint64_t stream_id);
void history_finish_locked(void);

#endif
