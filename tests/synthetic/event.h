/*
 * event.h - events: the operation that an event stands for, or the nodes of a capture.
 */
#ifndef SYNTHETIC_EVENT_H
#define SYNTHETIC_EVENT_H

#include "engine.h"

struct CUevent_st {
    struct object object;
    CUcontext ctx;
    unsigned flags;
    struct op *op;           /* of the last record, counted; NULL: never recorded */
    struct capture *capture; /* recorded in a capture; then these nodes */
    struct CUgraphNode_st **nodes;
    size_t node_count;
};

#endif
