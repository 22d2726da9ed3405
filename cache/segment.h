/*
 * segment.h - what is moved as one: a range of device addresses, kept for life, with frames behind it or not.
 *
 * An allocation is an item of a segment: alone in it, or, where rounding to frames would lose more
 * than a tenth, side by side with others of its size. The index from address to segment is a table over
 * granules of the reserved windows, so a look-up costs two loads that depend on each other, of the entry and
 * of the segment's first line.
 *
 * A segment lives until all of it is freed. Who lies beside whom changes with every item that a job keeps (a
 * loss a step, say), and with it the segments that an operation touches: a round that names them is not
 * found, or is lost each time. So what is born while memory is short is alone. Of up to half a frame, which
 * that would round up to twice the size, items still share, and are in no plan: plans leave them their
 * frames, and they are brought in and moved out as needed.
 *
 * States of the contents (all queued work counted as done):
 *   EMPTY     nothing written yet, or everything in it freed: contents are dead (frames may still be there)
 *   RESIDENT  in frames, or some pieces in frames and the others in slots; clean pieces are in both
 *   SPILLED   in slots only (frames may be on their way)
 * A slot is for a run of pieces, and is there from when one of them first leaves. A piece whose contents are
 * in its slot may be *linked*: its own address is mapped to the slot's handle, and operations reach it over
 * the link (linked.h).
 *
 * Called with the cache's lock held.
 */
#ifndef HBMSPILL_CACHE_SEGMENT_H
#define HBMSPILL_CACHE_SEGMENT_H

#include "cache/arena.h"
#include "cache/dearest.h"
#include "cache/frame.h"
#include "cache/history.h"
#include "cache/place.h"
#include "cache/slot.h"
#include <stddef.h>

enum { SEGMENT_PACK = 32 }; /* most items in a segment */

enum segment_state { SEGMENT_EMPTY, SEGMENT_RESIDENT, SEGMENT_SPILLED };

/* One piece of a segment: the frame that holds its data, and the frame its address is mapped to. */
struct binding {
    struct segment *segment;
    uint64_t offset;
    struct frame *frame;  /* owned, NULL if none */
    struct frame *bound;  /* mapped here, maybe no longer or not yet ours */
    struct binding *next; /* of the bound frame's list */
    bool linked;          /* mapped to the slot's handle instead of a frame; bound is NULL */
    bool accessible;      /* access was set since it was mapped */
    bool filled; /* its contents, if the segment has any, are in the frame or on their way: the segment's
                    edges count, not the frame's */
    uint64_t clean_version; /* the slot has what the frame has where it is the segment's version; 0: never */
};

struct size_class {
    uint64_t item_size;
    unsigned pack; /* items in a packed segment */
    uint64_t live_items;
    struct segment *open;  /* segments with free items and live ones */
    struct segment *dead;  /* segments without live items */
    uint64_t births;       /* items given out so far */
    uint64_t places;       /* segments kept for births of a round */
    struct moment moment;  /* of the last birth in a round */
    uint32_t births_since; /* at that moment */
    struct size_class *next;
};

struct segment {
    /*
     * One cache line, all that an operation looks at and changes with nothing to move: with many allocations
     * it is fetched from memory each time, and so is every line more.
     */
    uint64_t address, item_size;
    uint64_t version;   /* counts writes */
    uint64_t mark;      /* the operation that named it last: finds duplicates */
    uint64_t used_at;   /* number in stream used_in of its newest use; segment_uses has all */
    uint32_t live_mask; /* bit per item */
    unsigned pins;      /* operations being submitted that use its frames */
    unsigned linked_pieces;
    uint8_t items, live_items;
    uint8_t used_in;
    enum segment_state state : 3;
    bool fixed : 1;     /* never moved again (graphs, captures, exports) */
    bool filled : 1;    /* all pieces are */
    bool mapped : 1;    /* its address leads to its contents; false after an unmapping failed half-way */
    bool fresh : 1;     /* no operation was begun since it got its frames, or its address a new owner */
    bool leaving : 1;   /* copied out, and waited for to be unmapped; not used since */
    struct edges ready; /* every operation comes after these; the mask ends the line */

    uint64_t size;            /* a multiple of segments.unit */
    uint64_t unit;            /* bytes of a piece, and of its frame; the last piece may have less of them */
    struct edges used_before; /* the job's operations on its frames, less the newest */
    struct edges left;  /* all that was queued on it when a piece last lost its frame: what is queued later
                           uses no piece that has none */
    unsigned slot_pins; /* operations being submitted that use its slots */
    bool listed_idle;   /* in the list of those with frames but without contents */
    bool behind;        /* while a victim is chosen: its uses stand behind a host function */
    bool small; /* its items are half a frame at most, and lie side by side; or its frames are odd (frame.h):
                   in no plan */
    struct segment *prev, *next; /* the policy's list, or the idle list */
    struct slot **slot;          /* `runs' of them; NULL: none of its pieces has left */
    unsigned run, runs;          /* pieces of a slot, the last one has what is left; how many slots */
    struct size_class *size_class;
    uint64_t next_use;     /* position at which it is known or believed to be used next, 0: nothing known */
    struct frame **home;   /* for each piece the frame it should have (home.h), or NULL */
    uint64_t claim;        /* position at which it will want its frames back, as far as is known */
    uint64_t life;         /* number of its life: from an allocation in it to the end of all */
    uint64_t leaves;       /* position at which it is planned to leave HBM again, UINT64_MAX: not known to */
    uint64_t birth_window; /* the window before which its first item was allocated, its place among those */
    uint32_t birth;
    uint32_t plan_index;                     /* in the plan being carried out, UINT32_MAX outside */
    struct segment *class_prev, *class_next; /* size_class list */
    struct segment *all_prev, *all_next;
    uint64_t asked[SEGMENT_PACK]; /* per item: the size the job asked for */
    struct place *place;          /* the birth it is kept for, or NULL (place.h) */
    struct dearest_mark cost;
    struct history_mark seen;
    unsigned pieces, filled_pieces;
    struct binding piece[];
} __attribute__((aligned(ARENA_ALIGN)));

_Static_assert(offsetof(struct segment, ready) + sizeof(uint32_t) <= ARENA_ALIGN,
               "what an operation needs of a segment is in one cache line");

/* All of the job's operations on its frames. */
static inline struct edges segment_uses(const struct segment *segment)
{
    struct edges uses = segment->used_before;

    edges_add(&uses, segment->used_in, segment->used_at);
    return uses;
}

/* All that was ever queued on its present frames; uses of former owners of the address are among it. */
static inline struct edges segment_edges(const struct segment *segment)
{
    struct edges edges = segment_uses(segment);

    edges_merge(&edges, &segment->ready);
    return edges;
}

/* An operation on its frames was submitted. */
static inline void segment_used(struct segment *segment, unsigned stream, uint64_t seq)
{
    if (segment->used_in != stream) {
        edges_add(&segment->used_before, segment->used_in, segment->used_at);
        segment->used_in = (uint8_t)stream;
    }
    segment->used_at = seq;
}

static inline void segment_forget_uses(struct segment *segment)
{
    edges_clear(&segment->used_before);
    segment->used_at = 0;
}

/* An operation may use its address once it waits for its ready edges. */
static inline bool segment_usable(const struct segment *segment)
{
    return segment->filled && segment->mapped;
}

/* The same for one that may go over the link. */
static inline bool segment_reached(const struct segment *segment)
{
    return segment->mapped && segment->filled_pieces + segment->linked_pieces == segment->pieces;
}

/* The slot of a piece, NULL: there is none. */
static inline struct slot *segment_slot(const struct segment *segment, unsigned piece)
{
    return segment->slot[piece / segment->run];
}

/* The piece behind the last of the run that a piece is in. */
static inline unsigned segment_run_end(const struct segment *segment, unsigned piece)
{
    unsigned end = (piece / segment->run + 1) * segment->run;

    return end < segment->pieces ? end : segment->pieces;
}

/* Where a piece that has a slot is in host memory. */
static inline unsigned char *segment_host(const struct segment *segment, unsigned piece)
{
    unsigned first = piece - piece % segment->run;

    return (unsigned char *)segment->slot[piece / segment->run]->memory +
           (segment->piece[piece].offset - segment->piece[first].offset);
}

/* Bytes of `count' pieces from `first' on. */
static inline uint64_t segment_bytes(const struct segment *segment, unsigned first, unsigned count)
{
    uint64_t begin = first * segment->unit, end = (first + count) * segment->unit;

    return (end < segment->size ? end : segment->size) - begin;
}

/* Whether one of the pieces [first, end) has a frame. */
static inline bool segment_framed(const struct segment *segment, unsigned first, unsigned end)
{
    for (unsigned i = first; i < end; i++)
        if (segment->piece[i].frame)
            return true;
    return false;
}

/* Of a piece: what is mapped of it where that is its slot's memory, whole handles, as many as there are. */
static inline uint64_t binding_bytes(const struct binding *binding)
{
    return segment_bytes(binding->segment, (unsigned)(binding - binding->segment->piece), 1);
}

enum {
    SEGMENT_WINDOWS = 8,
    /*
     * Frames may become so many times as large (reframe.h): what is large enough for one of those lies at a
     * multiple of its size, with address space up to another.
     */
    SEGMENT_LARGER = 8
};

struct window {
    uint64_t address, size, used;
    struct segment **granules; /* size / unit entries */
};

struct segments {
    const struct device_ops *ops;
    struct frames *frames;
    uint64_t unit;       /* of the address table, and of a piece: a frame's size, at first */
    unsigned unit_shift; /* unit is a power of two */
    uint64_t slot;       /* bytes of a slot at most */
    uint64_t larger; /* a frame's size once frames were made larger (reframe.h); a slot, as long as it may be,
                        is a whole number of them. `unit': they never are */
    uint64_t window_size; /* of the next window reserved */
    struct window window[SEGMENT_WINDOWS];
    unsigned windows;
    struct size_class *classes;
    struct segment *all;
    struct arena records;
    struct place *places;  /* by name */
    bool apart;            /* no two allocations in one segment */
    uint64_t small_frames; /* in segments of small items */
    uint64_t extra;        /* bytes of segments made so that births have addresses of their own */
};

/* slot: bytes of one at most, and a frame at least; larger: how many times as large frames may become, a
 * power of two. */
void segments_init(struct segments *segments, const struct device_ops *ops, struct frames *frames,
                   uint64_t window_size, uint64_t slot, unsigned larger);
void segments_destroy(struct segments *segments);

/* The bytes of HBM that segments of small items have: not for plans to give to others. */
static inline uint64_t segments_small(const struct segments *segments)
{
    return segments->small_frames * segments->unit;
}

/* The live or dead segment an address lies in, NULL if it is not ours. */
struct segment *segments_find(const struct segments *segments, uint64_t address);
/*
 * Asks the CPU to fetch what an operation needs of the segment an address lies in. Without the lock: windows
 * stay and grow in number last, an entry is one word, no segment is given back before segments_destroy, and
 * nothing of it is read here.
 */
void segments_expect(const struct segments *segments, uint64_t address);
/* The item (allocation) an address lies in: base and size, false where it is not in a live one. */
bool segments_item(const struct segments *segments, uint64_t address, struct segment **segment,
                   uint64_t *base, unsigned *item);

/*
 * Takes an item of that size, at a moment (place.h): -ENOMEM where there is neither address space nor memory
 * for the records.
 */
int segments_take_item(struct segments *segments, uint64_t size, const struct moment *moment,
                       struct segment **segment, unsigned *item);
/* Returns it; true where the segment has no live item left. */
bool segments_give_item(struct segment *segment, unsigned item);

/*
 * Maps the address of `count' pieces from `first' on to their frames where it is not; pieces without a frame
 * are left out. -EBUSY: *wait must complete first.
 */
int segment_map(struct segments *segments, struct segment *segment, unsigned first, unsigned count,
                uint64_t *wait);
/* Unmaps them from frames; the caller knows that their uses have completed. */
int segment_unmap(struct segments *segments, struct segment *segment, unsigned first, unsigned count);
/* Maps the pieces that have no frame to their slots' handles. -EBUSY: *wait must complete first. */
int segment_link(struct segments *segments, struct segment *segment, uint64_t *wait);
/* Unmaps all that is linked; the caller knows that its uses have completed. */
int segment_unlink(struct segments *segments, struct segment *segment);
/*
 * Whether frames of `unit' bytes are large enough for it to have some, once there are such; and has it have
 * them from now on: it has no frames, and is mapped nowhere.
 */
bool segment_large(const struct segments *segments, const struct segment *segment, uint64_t unit);
void segment_divide(struct segments *segments, struct segment *segment, uint64_t unit);
/* Unmaps every address that is mapped to a frame about to be released. */
int frame_unbind(struct frames *frames, struct frame *frame);

#endif
