/*
 * capture.h - stream capture as streams and events see it. The functions are those of capture.c; driver_lock
 * held.
 */
#ifndef SYNTHETIC_CAPTURE_H
#define SYNTHETIC_CAPTURE_H

#include "engine.h"

/* Events: recorded into a capture, an event names the nodes it stands for; a wait joins its stream to the
 * capture. */
CUresult capture_record_event_locked(struct CUstream_st *stream, CUevent event);
CUresult capture_wait_event_locked(struct CUstream_st *stream, CUevent event);
void capture_event_forget_locked(CUevent event);

#endif
