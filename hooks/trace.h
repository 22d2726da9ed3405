/*
 * trace.h - HBMSPILL_TRACE: what the job asks for, as a tape (cache/tape.h, doc/TRACE.md).
 *
 * Called where the hooks know what an operation touches, in the order of the job's calls. Off: a load and a
 * branch. Makes no driver call. A file that cannot be opened or written is one warning, and the end of it.
 *
 * Threads: any; one lock, a leaf but for the cache's, which is taken inside it.
 */
#ifndef HBMSPILL_HOOKS_TRACE_H
#define HBMSPILL_HOOKS_TRACE_H

#include "cache/tape.h"
#include "hooks/touches.h"
#include <stdatomic.h>

extern atomic_bool trace_on;

#define TRACE(call)                                                                                          \
    do {                                                                                                     \
        if (atomic_load_explicit(&trace_on, memory_order_relaxed))                                           \
            call;                                                                                            \
    } while (0)

/* The process has become active: opens the file HBMSPILL_TRACE names. */
void trace_begin(void);
void trace_end(void);

void trace_alloc(uint64_t address, uint64_t size);
/* stream NULL: a free without one. */
void trace_free(uint64_t address, const struct stream_key *stream);
/* An operation of a name: kind is TAPE_LAUNCH, TAPE_OPEN or TAPE_OTHER. Not recorded while its stream
 * captures. */
void trace_launch(enum tape_kind kind, const char *name, const struct touches *touches, CUstream stream,
                  bool per_thread);
/* Both ends as the job gave them; form says what the one that is not ours is. */
void trace_copy(uint64_t dst, uint64_t src, uint64_t size, CUstream stream, bool per_thread, bool blocking,
                enum tape_copy form);
/* By the symbol of the driver's function that does it: memsets, copies of several dimensions, batches. */
void trace_other(const char *symbol, const struct touches *touches, CUstream stream, bool per_thread);
void trace_memset(uint64_t dst, CUstream stream);
/* A call by which the job could notice that operations are held in the stream, in any if NULL. */
void trace_submit(const CUstream *stream, bool per_thread);
/* An event is recorded in the stream or waited for; a host function is queued. Not recorded while it
 * captures. */
void trace_record(CUevent event, CUstream stream, bool per_thread);
void trace_after(CUevent event, CUstream stream, bool per_thread);
/* Before it is destroyed: its handle may be another's at once. */
void trace_event_gone(CUevent event);
void trace_host_function(CUstream stream, bool per_thread);
/* As trace_submit, and it returns when the stream has done all it has, every stream if NULL. */
void trace_wait(const CUstream *stream, bool per_thread);

#endif
