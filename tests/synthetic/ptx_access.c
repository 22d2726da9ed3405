/*
 * ptx_access.c - loads and stores of a group of lanes. Compiled once per instruction level, like ptx_alu.c.
 *
 * One pass over the addresses tells whether they are all the same, side by side, or scattered inside a space
 * that has one base; each of these is a vector loop. Whatever else they are (pinned host memory, generic
 * addresses of shared memory, faults) goes lane by lane through ptx_access_resolve.
 */
#include "ptx_run.h"

#include <string.h>

/* A space whose addresses are one offset away from the CPU's. */
struct span {
    uint64_t base, size;
    int64_t delta;
};

static struct span span_of(const struct ptx_exec *x, enum ptx_space space)
{
    if (space == PTX_SHARED)
        return (struct span){0, x->shared_bytes, (int64_t)(uintptr_t)x->shared};
    if (space == PTX_LOCAL)
        return (struct span){0, 0, 0};
    return (struct span){x->memory.window_base, x->memory.window_size, x->memory.window_delta};
}

static inline bool inside(const struct span *s, uint64_t address, uint64_t size)
{
    return address >= s->base && size <= s->size && address - s->base <= s->size - size;
}

enum shape { SHAPE_SAME, SHAPE_LINEAR, SHAPE_SCATTERED, SHAPE_OTHER };

/* Whether n addresses follow each other size bytes apart. */
static inline __attribute__((always_inline)) bool linear(const uint64_t *address, uint32_t n, uint64_t size)
{
    uint64_t expected = address[0], apart = 0;
    for (uint32_t i = 0; i < n; i++) {
        apart |= address[i] ^ expected;
        expected += size;
    }
    return !apart;
}

/*
 * Scattered addresses mostly come in runs: rows of a matrix that are no multiple of a chunk long, a warp to a
 * row. What each piece of them is is found out once, for all that goes over them.
 */
enum { PIECE = 16, PIECE_LANES = 0, PIECE_SAME, PIECE_LINEAR };
struct pieces {
    uint8_t kind[PTX_LANES / PIECE];
};

/* Where accesses may be, as shape_of looks at them: start and limit for the sum with an address. */
struct bounds {
    uint64_t start, limit, offset;
};

/* Not 0 where an address is outside, or not a multiple of size. */
static inline __attribute__((always_inline)) uint64_t misplaced(const uint64_t *address, uint32_t n,
                                                                const struct bounds *bounds, uint64_t size)
{
    uint64_t bits = 0, outside = 0;
    for (uint32_t i = 0; i < n; i++)
        bits |= address[i] + bounds->offset, outside |= address[i] + bounds->start > bounds->limit;
    return outside | (bits & (size - 1));
}

/* Not 0 where it is misplaced. The ends of what follows in a row stand for all of it. */
static inline __attribute__((always_inline)) uint64_t
piece_of(const uint64_t *address, const struct bounds *bounds, uint64_t size, uint8_t *kind)
{
    const uint64_t apart = address[PIECE - 1] - address[0], ends[2] = {address[0], address[PIECE - 1]};
    *kind = apart == 0 && linear(address, PIECE, 0)                       ? PIECE_SAME
            : apart == (PIECE - 1) * size && linear(address, PIECE, size) ? PIECE_LINEAR
                                                                          : PIECE_LANES;
    return *kind == PIECE_LANES ? misplaced(address, PIECE, bounds, size) : misplaced(ends, 2, bounds, size);
}

/* The ends tell most shapes apart. The pieces are set where they are scattered. */
static enum shape shape_of(const uint64_t *address, uint32_t n, uint64_t offset, uint64_t size,
                           const struct span *span, struct pieces *pieces)
{
    uint64_t first = address[0] + offset, wrong = 0, moved = 0;
    if (n == 1 || (address[n - 1] - address[0] == (n - 1) * size &&
                   (n == PTX_LANES ? linear(address, PTX_LANES, size) : linear(address, n, size))))
        return !(first & (size - 1)) && inside(span, first, n * size) ? SHAPE_LINEAR : SHAPE_OTHER;
    if (span->size < size)
        return SHAPE_OTHER;
    const struct bounds bounds = {offset - span->base, span->size - size, offset};
    uint32_t i = 0;
    for (; i + PIECE <= n; i += PIECE) {
        uint8_t *kind = &pieces->kind[i / PIECE];
        wrong |= piece_of(address + i, &bounds, size, kind);
        moved |= (*kind ^ PIECE_SAME) | (address[i] ^ address[0]);
    }
    wrong |= misplaced(address + i, n - i, &bounds, size);
    for (; i < n; i++)
        moved |= address[i] ^ address[0];
    return wrong ? SHAPE_OTHER : moved ? SHAPE_SCATTERED : SHAPE_SAME;
}

/* Accesses of lanes one by one, each aligned to its size, so that all of it is in one unit. */
static void count_lanes(struct ptx_exec *x, const uint64_t *address, uint32_t n, uint64_t offset,
                        uint32_t size, bool write)
{
    const struct ptx_traffic *traffic = x->traffic;
    uint64_t before = UINT64_MAX, word = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t at = address[i] + offset, piece = (at - x->memory.window_base) / PTX_PIECE;
        if (piece != before)
            word = __atomic_load_n(&traffic->seen[piece], __ATOMIC_RELAXED);
        before = piece;
        if (ptx_traffic_settled(traffic, word, 1ull << at % PTX_PIECE / PTX_UNIT, write))
            continue;
        ptx_traffic_note(x, at, size, write);
        word = __atomic_load_n(&traffic->seen[piece], __ATOMIC_RELAXED);
    }
}

static void count_scattered(struct ptx_exec *x, const struct pieces *pieces, const uint64_t *address,
                            uint32_t n, uint64_t offset, uint32_t size, bool write)
{
    uint32_t i = 0, end;
    for (; i + PIECE <= n; i = end) {
        const uint8_t *kind = pieces->kind, is = kind[i / PIECE];
        const uint64_t step = is == PIECE_LINEAR ? size : 0;
        end = i + PIECE;
        while (is && end + PIECE <= n && kind[end / PIECE] == is && address[end] == address[end - 1] + step)
            end += PIECE;
        if (is)
            ptx_traffic_touch(x, address[i] + offset, step ? (uint64_t)(end - i) * size : size, write);
        else
            count_lanes(x, address + i, PIECE, offset, size, write);
    }
    count_lanes(x, address + i, n - i, offset, size, write);
}

/* What a group of lanes touches of the window. */
static inline void count_traffic(struct ptx_exec *x, enum shape shape, const struct pieces *pieces,
                                 const uint64_t *address, uint32_t n, uint64_t offset, uint32_t size,
                                 bool write)
{
    switch (shape) {
    case SHAPE_LINEAR:
        ptx_traffic_touch(x, address[0] + offset, (uint64_t)n * size, write);
        break;
    case SHAPE_SAME:
        ptx_traffic_touch(x, address[0] + offset, size, write);
        break;
    case SHAPE_SCATTERED:
        count_scattered(x, pieces, address, n, offset, size, write);
        break;
    case SHAPE_OTHER: /* ptx_access_resolve counts */
        break;
    }
}

static inline uint64_t fetch(const char *at, uint32_t width, bool is_signed)
{
    uint64_t value = 0;
    memcpy(&value, at, width);
    if (is_signed && width < 8) {
        uint32_t shift = 64 - 8 * width;
        value = (uint64_t)((int64_t)(value << shift) >> shift);
    }
    return value;
}

static inline void put_lane(char *row, uint32_t lane, uint32_t width, uint64_t value)
{
    memcpy(row + (size_t)lane * width, &value, width);
}

static inline uint32_t row_of(const struct ptx_op *op, uint32_t element)
{
    return element ? op->more[element - 1] : op->d;
}

static void load_lane(struct ptx_exec *x, const struct ptx_op *op, uint32_t lane, const char *at)
{
    for (uint32_t e = 0; e < op->count; e++)
        put_lane(x->chunk->rows + row_of(op, e), lane, op->row_width,
                 fetch(at + e * op->width, op->width, op->flags & PTX_FLAG_SIGNED));
}

#define LOAD_LOOPS(T, D)                                                                                     \
    static inline __attribute__((always_inline)) void gather_piece_##T##_##D(                                \
        D *d, const uint64_t *address, uint32_t n, uint8_t kind, bool single, int64_t by)                    \
    {                                                                                                        \
        const T *p = (const T *)(address[0] + by);                                                           \
        if (kind == PIECE_LINEAR && single) {                                                                \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < PIECE; i++) d[i] = (D)p[i];                        \
        } else if (kind == PIECE_SAME) {                                                                     \
            const D value = (D)*p;                                                                           \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < PIECE; i++) d[i] = value;                          \
        } else {                                                                                             \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < n; i++) d[i] = (D) * (const T *)(address[i] + by); \
        }                                                                                                    \
    }                                                                                                        \
    static void gather_##T##_##D(const struct ptx_op *op, char *rows, const struct pieces *pieces,           \
                                 const uint64_t *address, uint32_t n, uint32_t lo, int64_t shift)            \
    {                                                                                                        \
        for (uint32_t e = 0; e < op->count; e++) {                                                           \
            D *d = (D *)(rows + row_of(op, e)) + lo;                                                         \
            int64_t by = shift + (int64_t)(e * sizeof(T));                                                   \
            uint32_t i = 0;                                                                                  \
            for (; i + PIECE <= n; i += PIECE)                                                               \
                gather_piece_##T##_##D(d + i, address + i, PIECE, pieces->kind[i / PIECE], op->count == 1,   \
                                       by);                                                                  \
            if (i < n)                                                                                       \
                gather_piece_##T##_##D(d + i, address + i, n - i, PIECE_LANES, false, by);                   \
        }                                                                                                    \
    }                                                                                                        \
    static void linear_##T##_##D(const struct ptx_op *op, char *rows, const char *from, uint32_t lo,         \
                                 uint32_t hi)                                                                \
    {                                                                                                        \
        const T *p = (const T *)from;                                                                        \
        D *d0 = (D *)(rows + op->d), *d1 = (D *)(rows + op->more[0]), *d2 = (D *)(rows + op->more[1]),       \
          *d3 = (D *)(rows + op->more[2]);                                                                   \
        uint32_t n = hi - lo;                                                                                \
        if (op->count == 1 && n == PTX_LANES) {                                                              \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < PTX_LANES; i++) d0[i] = (D)p[i];                   \
        } else if (op->count == 1) {                                                                         \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < n; i++) d0[lo + i] = (D)p[i];                      \
        } else if (op->count == 2) {                                                                         \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < n; i++)                                            \
            {                                                                                                \
                d0[lo + i] = (D)p[2 * i];                                                                    \
                d1[lo + i] = (D)p[2 * i + 1];                                                                \
            }                                                                                                \
        } else {                                                                                             \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < n; i++)                                            \
            {                                                                                                \
                d0[lo + i] = (D)p[4 * i];                                                                    \
                d1[lo + i] = (D)p[4 * i + 1];                                                                \
                d2[lo + i] = (D)p[4 * i + 2];                                                                \
                d3[lo + i] = (D)p[4 * i + 3];                                                                \
            }                                                                                                \
        }                                                                                                    \
    }                                                                                                        \
    static void spread_##T##_##D(const struct ptx_op *op, char *rows, const char *from, uint32_t lo,         \
                                 uint32_t hi)                                                                \
    {                                                                                                        \
        for (uint32_t e = 0; e < op->count; e++) {                                                           \
            D *d = (D *)(rows + row_of(op, e)), value = (D)((const T *)from)[e];                             \
            _Pragma("GCC ivdep") for (uint32_t i = lo; i < hi; i++) d[i] = value;                            \
        }                                                                                                    \
    }
LOAD_LOOPS(uint8_t, uint16_t)
LOAD_LOOPS(int8_t, uint16_t)
LOAD_LOOPS(uint8_t, uint32_t)
LOAD_LOOPS(int8_t, uint32_t)
LOAD_LOOPS(uint16_t, uint16_t)
LOAD_LOOPS(uint16_t, uint32_t)
LOAD_LOOPS(uint32_t, uint32_t)
LOAD_LOOPS(uint64_t, uint64_t)

struct loops {
    void (*gather)(const struct ptx_op *, char *, const struct pieces *, const uint64_t *, uint32_t, uint32_t,
                   int64_t);
    void (*linear)(const struct ptx_op *, char *, const char *, uint32_t, uint32_t);
    void (*spread)(const struct ptx_op *, char *, const char *, uint32_t, uint32_t);
};

#define LOOPS(T, D)                                                                                          \
    (struct loops)                                                                                           \
    {                                                                                                        \
        gather_##T##_##D, linear_##T##_##D, spread_##T##_##D                                                 \
    }

static bool load_loops(const struct ptx_op *op, struct loops *out)
{
    bool is_signed = op->flags & PTX_FLAG_SIGNED;
    if (op->row_width == op->width)
        *out = op->width == 4   ? LOOPS(uint32_t, uint32_t)
               : op->width == 8 ? LOOPS(uint64_t, uint64_t)
                                : LOOPS(uint16_t, uint16_t);
    else if (op->width == 1 && op->row_width == 2)
        *out = is_signed ? LOOPS(int8_t, uint16_t) : LOOPS(uint8_t, uint16_t);
    else if (op->width == 1 && op->row_width == 4)
        *out = is_signed ? LOOPS(int8_t, uint32_t) : LOOPS(uint8_t, uint32_t);
    else if (op->width == 2 && op->row_width == 4 && !is_signed)
        *out = LOOPS(uint16_t, uint32_t);
    else
        return false;
    return true;
}

void PTX_LEVEL_NAME(ptx_access_load)(struct ptx_exec *x, const struct ptx_op *op,
                                     const struct ptx_lanes *lanes)
{
    char *rows = x->chunk->rows;
    const uint64_t *address = (const uint64_t *)(rows + op->a);
    uint32_t size = (uint32_t)op->width * op->count, lo = lanes->lo, hi = lanes->hi;
    enum ptx_space space = (enum ptx_space)op->space;
    struct loops loops;
    if (!lanes->mask && load_loops(op, &loops)) {
        struct span span = span_of(x, space);
        struct pieces pieces;
        enum shape shape = shape_of(address + lo, hi - lo, op->imm, size, &span, &pieces);
        const char *from = (const char *)(uintptr_t)(address[lo] + op->imm + (uint64_t)span.delta);
        if (x->traffic && space != PTX_SHARED)
            count_traffic(x, shape, &pieces, address + lo, hi - lo, op->imm, size, false);
        switch (shape) {
        case SHAPE_LINEAR:
            loops.linear(op, rows, from, lo, hi);
            return;
        case SHAPE_SAME:
            loops.spread(op, rows, from, lo, hi);
            return;
        case SHAPE_SCATTERED:
            loops.gather(op, rows, &pieces, address + lo, hi - lo, lo, (int64_t)op->imm + span.delta);
            return;
        case SHAPE_OTHER:
            break;
        }
    }
    for (uint32_t i = lo; i < hi; i++)
        if (!lanes->mask || lanes->mask[i])
            load_lane(x, op, i, ptx_access_resolve(x, space, address[i] + op->imm, size, i, false));
}

#define STORE_LOOPS(T, S)                                                                                    \
    static void scatter_##T##_##S(const struct ptx_op *op, char *rows, const uint64_t *address, uint32_t lo, \
                                  uint32_t hi, int64_t shift)                                                \
    {                                                                                                        \
        /* lanes in order: where two write the same place the last one wins, always */                       \
        for (uint32_t i = lo; i < hi; i++)                                                                   \
            for (uint32_t e = 0; e < op->count; e++)                                                         \
                *(T *)(address[i] + shift + e * sizeof(T)) = (T)((const S *)(rows + row_of(op, e)))[i];      \
    }                                                                                                        \
    static void write_##T##_##S(const struct ptx_op *op, char *rows, char *to, uint32_t lo, uint32_t hi)     \
    {                                                                                                        \
        T *p = (T *)to;                                                                                      \
        const S *s0 = (const S *)(rows + op->d), *s1 = (const S *)(rows + op->more[0]),                      \
                *s2 = (const S *)(rows + op->more[1]), *s3 = (const S *)(rows + op->more[2]);                \
        uint32_t n = hi - lo;                                                                                \
        if (op->count == 1) {                                                                                \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < n; i++) p[i] = (T)s0[lo + i];                      \
        } else if (op->count == 2) {                                                                         \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < n; i++)                                            \
            {                                                                                                \
                p[2 * i] = (T)s0[lo + i];                                                                    \
                p[2 * i + 1] = (T)s1[lo + i];                                                                \
            }                                                                                                \
        } else {                                                                                             \
            _Pragma("GCC ivdep") for (uint32_t i = 0; i < n; i++)                                            \
            {                                                                                                \
                p[4 * i] = (T)s0[lo + i];                                                                    \
                p[4 * i + 1] = (T)s1[lo + i];                                                                \
                p[4 * i + 2] = (T)s2[lo + i];                                                                \
                p[4 * i + 3] = (T)s3[lo + i];                                                                \
            }                                                                                                \
        }                                                                                                    \
    }
STORE_LOOPS(uint8_t, uint16_t)
STORE_LOOPS(uint16_t, uint16_t)
STORE_LOOPS(uint32_t, uint32_t)
STORE_LOOPS(uint64_t, uint64_t)

void PTX_LEVEL_NAME(ptx_access_store)(struct ptx_exec *x, const struct ptx_op *op,
                                      const struct ptx_lanes *lanes)
{
    char *rows = x->chunk->rows;
    const uint64_t *address = (const uint64_t *)(rows + op->a);
    uint32_t size = (uint32_t)op->width * op->count, lo = lanes->lo, hi = lanes->hi;
    enum ptx_space space = (enum ptx_space)op->space;
    if (!lanes->mask) {
        struct span span = span_of(x, space);
        struct pieces pieces;
        enum shape shape = shape_of(address + lo, hi - lo, op->imm, size, &span, &pieces);
        char *to = (char *)(uintptr_t)(address[lo] + op->imm + (uint64_t)span.delta);
        if (x->traffic && space != PTX_SHARED)
            count_traffic(x, shape, &pieces, address + lo, hi - lo, op->imm, size, true);
        if (shape == SHAPE_LINEAR) {
            (op->width == 1   ? write_uint8_t_uint16_t
             : op->width == 2 ? write_uint16_t_uint16_t
             : op->width == 4 ? write_uint32_t_uint32_t
                              : write_uint64_t_uint64_t)(op, rows, to, lo, hi);
            return;
        }
        if (shape != SHAPE_OTHER) {
            (op->width == 1   ? scatter_uint8_t_uint16_t
             : op->width == 2 ? scatter_uint16_t_uint16_t
             : op->width == 4
                 ? scatter_uint32_t_uint32_t
                 : scatter_uint64_t_uint64_t)(op, rows, address, lo, hi, (int64_t)op->imm + span.delta);
            return;
        }
    }
    for (uint32_t i = lo; i < hi; i++) {
        if (lanes->mask && !lanes->mask[i])
            continue;
        char *to = ptx_access_resolve(x, space, address[i] + op->imm, size, i, true);
        for (uint32_t e = 0; e < op->count; e++)
            memcpy(to + e * op->width, rows + row_of(op, e) + (size_t)i * op->row_width, op->width);
    }
}
