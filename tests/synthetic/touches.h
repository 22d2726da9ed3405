/*
 * touches.h - who touched which bytes of memory last, and races: two operations that touch the same bytes, at
 * least one writing, with no order between them (order.h). Whichever of them happens to run last finds it.
 *
 * Memory is kept in pieces of 256 bytes: of frames, wherever they are mapped, and of pinned host memory. What
 * a piece remembers is the last writer and the readers since of each of its units: 4 bytes for copies and
 * memsets, PTX_UNIT for kernels, of which the interpreter tells every access, as far as it tells them apart.
 * A unit touched in part counts as touched, and an atomic operation as a write. What the CPU does to pinned
 * memory cannot be seen; words that streams wait for or write (cuStreamWaitValue) are meant to be touched by
 * several and are left out.
 *
 * Besides, every page of addresses remembers who touched it last, in any way: those must have ended, as far
 * as the host knows, before it is unmapped. And since when it gives access: an operation submitted before
 * could have come too early.
 *
 * All functions want driver_lock, but for touched_*, which want the list to be the caller's own.
 */
#ifndef SYNTHETIC_TOUCHES_H
#define SYNTHETIC_TOUCHES_H

#include "engine.h"

/*
 * Where in a launched graph an operation is: the node of the graph, and of its bodies from the outside in.
 * Deeper levels than PLACE_LEVELS are taken to be ordered.
 */
enum { PLACE_LEVELS = 4 };
struct program;
struct node_place {
    unsigned levels;
    struct {
        uint32_t round, node; /* round: which time this body runs */
        struct program *program;
    } level[PLACE_LEVELS];
};

/* What a kernel touched. Owned by the engine that runs it. */
struct touched {
    const uint64_t *seen; /* ptx.h, ptx_traffic */
    uint32_t number;
    uint64_t *pieces;
    size_t count, capacity;
    struct touched_outside {
        uint64_t address, size;
        bool write;
    } * outside;
    size_t outside_count, outside_capacity;
    bool incomplete; /* memory was short */
};
void touched_pieces(struct touched *touched, const uint64_t *pieces, uint32_t count);
void touched_outside(struct touched *touched, uint64_t address, uint32_t size, bool write);

/* Work that has just run, as op or as a node of it (place, else NULL). Empties touched. */
void touches_note_locked(const struct op *op, const struct node_place *place, const struct work *work,
                         struct touched *touched);

/* What a piece's memory was used for is of no concern to who gets it next. */
void touches_forget_frames_locked(struct frames *frames, uint32_t n, const uint32_t *list);
void touches_forget_locked(uint64_t address, uint64_t size);
/* Pages of the window get memory; a page gives access, which it has not done before. */
void touches_page_mapped_locked(uint64_t address, uint64_t size);
void touches_page_granted_locked(uint64_t address);
/* Before a host call takes [address, address + size) away: true, and a hazard counted, where somebody has
 * touched it at these addresses (pages: of whole pages), and is not known to have ended. */
bool touches_leave_locked(const char *function, uint64_t address, uint64_t size, bool pages);

/* cuInit. 0 or -errno. */
int touches_init(void);

#endif
