/*
 * ptx_atomic.c - atom and red: one lane after the other, each an atomic operation of the machine.
 *
 * Lanes go in ascending order, so a launch on one thread always gives the same result.
 */
#include "ptx_math.h"
#include "ptx_run.h"

static uint64_t apply(enum ptx_atomic code, enum ptx_type type, uint64_t old, uint64_t b, uint64_t c)
{
    uint32_t old32 = (uint32_t)old, b32 = (uint32_t)b;
    switch (code) {
    case PTX_ATOM_ADD:
        switch (type) {
        case PTX_F32:
            return bits_f32(canon_f32(f32_bits(old32) + f32_bits(b32)));
        case PTX_F64:
            return bits_f64(f64_bits(old) + f64_bits(b));
        case PTX_F16:
            return f16_from_f32(f32_from_f16((uint16_t)old) + f32_from_f16((uint16_t)b));
        case PTX_BF16:
            return bf16_from_f32(f32_from_bf16((uint16_t)old) + f32_from_bf16((uint16_t)b));
        case PTX_F16X2:
            return f16_from_f32(f32_from_f16((uint16_t)old) + f32_from_f16((uint16_t)b)) |
                   (uint64_t)f16_from_f32(f32_from_f16((uint16_t)(old >> 16)) +
                                          f32_from_f16((uint16_t)(b >> 16)))
                       << 16;
        default:
            return old + b;
        }
    case PTX_ATOM_MIN:
        return type == PTX_S32   ? ((int32_t)old32 < (int32_t)b32 ? old : b)
               : type == PTX_S64 ? ((int64_t)old < (int64_t)b ? old : b)
                                 : (old < b ? old : b);
    case PTX_ATOM_MAX:
        return type == PTX_S32   ? ((int32_t)old32 > (int32_t)b32 ? old : b)
               : type == PTX_S64 ? ((int64_t)old > (int64_t)b ? old : b)
                                 : (old > b ? old : b);
    case PTX_ATOM_AND:
        return old & b;
    case PTX_ATOM_OR:
        return old | b;
    case PTX_ATOM_XOR:
        return old ^ b;
    case PTX_ATOM_EXCH:
        return b;
    case PTX_ATOM_CAS:
        return old == b ? c : old;
    case PTX_ATOM_INC:
        return old32 >= b32 ? 0 : old32 + 1;
    case PTX_ATOM_DEC:
        return old32 == 0 || old32 > b32 ? b32 : old32 - 1;
    }
    return old;
}

#define UPDATE(T)                                                                                            \
    static uint64_t update_##T(char *at, const struct ptx_op *op, uint64_t b, uint64_t c)                    \
    {                                                                                                        \
        T *p = (T *)at, old = __atomic_load_n(p, __ATOMIC_RELAXED), next;                                    \
        do                                                                                                   \
            next = (T)apply((enum ptx_atomic)op->code, (enum ptx_type)op->type, old, b, c);                  \
        while (!__atomic_compare_exchange_n(p, &old, next, false, __ATOMIC_SEQ_CST, __ATOMIC_RELAXED));      \
        return old;                                                                                          \
    }
UPDATE(uint16_t)
UPDATE(uint32_t)
UPDATE(uint64_t)

static uint64_t lane_value(const char *row, uint32_t lane, uint32_t width)
{
    switch (width) {
    case 2:
        return ((const uint16_t *)row)[lane];
    case 4:
        return ((const uint32_t *)row)[lane];
    default:
        return ((const uint64_t *)row)[lane];
    }
}

void ptx_atomic_run(struct ptx_exec *x, const struct ptx_op *op, const struct ptx_lanes *lanes)
{
    char *rows = x->chunk->rows;
    const uint64_t *address = (const uint64_t *)(rows + op->a);
    for (uint32_t i = lanes->lo; i < lanes->hi; i++) {
        if (lanes->mask && !lanes->mask[i])
            continue;
        char *at = ptx_access_resolve(x, (enum ptx_space)op->space, address[i] + op->imm, op->width, i, true);
        uint64_t b = lane_value(rows + op->b, i, op->width);
        uint64_t c = op->c == PTX_NO_ROW ? 0 : lane_value(rows + op->c, i, op->width);
        uint64_t old = op->width == 2   ? update_uint16_t(at, op, b, c)
                       : op->width == 4 ? update_uint32_t(at, op, b, c)
                                        : update_uint64_t(at, op, b, c);
        if (op->d == PTX_NO_ROW)
            continue;
        if (op->width == 2)
            ((uint16_t *)(rows + op->d))[i] = (uint16_t)old;
        else if (op->width == 4)
            ((uint32_t *)(rows + op->d))[i] = (uint32_t)old;
        else
            ((uint64_t *)(rows + op->d))[i] = old;
    }
}
