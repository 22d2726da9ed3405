/*
 * ptx_flow.h - the analysis of one kernel's operations, while it is being loaded.
 */
#ifndef SYNTHETIC_PTX_FLOW_H
#define SYNTHETIC_PTX_FLOW_H

#include "ptx_ir.h"

/* The rows that an operation reads and writes; its guard is not among them. */
struct ptx_uses {
    uint32_t source[8], sources;
    uint32_t dest[4], dests;
};
struct ptx_uses ptx_uses_of(const struct ptx_op *op);

struct ptx_flow {
    struct ptx_code *code;
    bool *varying;    /* by row */
    uint32_t *writes; /* by row: how many operations write it */
    bool *apart;      /* by operation: lanes may be apart here */
    bool *split;      /* by operation: a branch whose region is marked */
    uint32_t *heap;   /* operations to visit, lowest first */
    uint32_t heap_count;
    uint8_t *in_heap; /* by operation: 1 waiting, 2 visited, in the region being marked */
    uint32_t *visited;
};
/* Each 0 or -ENOMEM. invariant: by row, target: by operation, whether a jump goes there. */
int ptx_flow_hoist(struct ptx_flow *f, bool *invariant, const bool *target);
int ptx_flow_lay_out(struct ptx_flow *f, const bool *invariant, const bool *target);
void ptx_flow_to_offsets(struct ptx_code *code);

#endif
