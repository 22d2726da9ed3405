/*
 * ptx_scan.c - the text of PTX up to operands: characters, names, numbers, and the memory of the tree.
 */
#include "ptx_scan.h"

#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ptx_arena_block {
    struct ptx_arena_block *next;
    size_t used, size;
    _Alignas(16) char data[];
};

void *ptx_arena_alloc(struct ptx_arena *arena, size_t size)
{
    size = (size + 15) & ~(size_t)15;
    struct ptx_arena_block *block = arena->blocks;
    if (!block || block->size - block->used < size) {
        size_t want = size > 65536 ? size : 65536;
        block = calloc(1, sizeof *block + want);
        if (!block)
            return NULL;
        block->size = want;
        block->next = arena->blocks;
        arena->blocks = block;
    }
    void *memory = block->data + block->used;
    block->used += size;
    return memory;
}

void ptx_arena_free(struct ptx_arena *arena)
{
    while (arena->blocks) {
        struct ptx_arena_block *next = arena->blocks->next;
        free(arena->blocks);
        arena->blocks = next;
    }
}

static const struct {
    const char *name;
    uint32_t size;
} types[] = {
    [PTX_PRED] = {"pred", 1}, [PTX_B8] = {"b8", 1},       [PTX_U8] = {"u8", 1},
    [PTX_S8] = {"s8", 1},     [PTX_B16] = {"b16", 2},     [PTX_U16] = {"u16", 2},
    [PTX_S16] = {"s16", 2},   [PTX_F16] = {"f16", 2},     [PTX_BF16] = {"bf16", 2},
    [PTX_B32] = {"b32", 4},   [PTX_U32] = {"u32", 4},     [PTX_S32] = {"s32", 4},
    [PTX_F32] = {"f32", 4},   [PTX_F16X2] = {"f16x2", 4}, [PTX_BF16X2] = {"bf16x2", 4},
    [PTX_B64] = {"b64", 8},   [PTX_U64] = {"u64", 8},     [PTX_S64] = {"s64", 8},
    [PTX_F64] = {"f64", 8},
};

enum ptx_type ptx_type_named(const char *name)
{
    for (size_t i = 1; i < sizeof types / sizeof *types; i++)
        if (!strcmp(types[i].name, name))
            return (enum ptx_type)i;
    return PTX_NONE;
}

uint32_t ptx_type_size(enum ptx_type type)
{
    return types[type].size;
}

void ptx_scan_fail(struct ptx_parser *p, int status, const char *format, ...)
{
    va_list list;
    if (!p->error_size) {
        p->status = status;
        longjmp(p->fail, 1);
    }
    va_start(list, format);
    int used = snprintf(p->error, p->error_size, "line %u: ", p->line);
    if (used >= 0 && (size_t)used < p->error_size)
        vsnprintf(p->error + used, p->error_size - (size_t)used, format, list);
    va_end(list);
    used = (int)strlen(p->error);
    if (p->opcode)
        snprintf(p->error + used, p->error_size - (size_t)used, " (in `%s')", p->opcode);
    p->status = status;
    longjmp(p->fail, 1);
}

void *ptx_scan_take(struct ptx_parser *p, size_t size)
{
    void *memory = ptx_arena_alloc(&p->tree->arena, size);
    if (!memory)
        ptx_scan_fail(p, -ENOMEM, "out of memory");
    return memory;
}

static void skip_space(struct ptx_parser *p)
{
    while (p->at < p->end) {
        if (*p->at == '\n') {
            p->line++;
            p->at++;
        } else if (isspace((unsigned char)*p->at)) {
            p->at++;
        } else if (p->end - p->at >= 2 && p->at[0] == '/' && p->at[1] == '/') {
            while (p->at < p->end && *p->at != '\n')
                p->at++;
        } else if (p->end - p->at >= 2 && p->at[0] == '/' && p->at[1] == '*') {
            p->at += 2;
            while (p->end - p->at >= 2 && !(p->at[0] == '*' && p->at[1] == '/'))
                if (*p->at++ == '\n')
                    p->line++;
            if (p->end - p->at < 2)
                ptx_scan_fail(p, -EINVAL, "comment without end");
            p->at += 2;
        } else {
            return;
        }
    }
}

/* The next significant character, '\0' at the end. */
char ptx_scan_peek(struct ptx_parser *p)
{
    skip_space(p);
    return p->at < p->end ? *p->at : '\0';
}

bool ptx_scan_accept(struct ptx_parser *p, char c)
{
    if (ptx_scan_peek(p) != c || c == '\0')
        return false;
    p->at++;
    return true;
}

void ptx_scan_expect(struct ptx_parser *p, char c)
{
    char got = ptx_scan_peek(p);
    if (got != c)
        ptx_scan_fail(p, -EINVAL, "`%c' expected before `%c'", c, isprint((unsigned char)got) ? got : '?');
    p->at++;
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

/* A name; dots join it where dotted (mnemonics, special registers), colons where doubled (L1::no_allocate).
 */
const char *ptx_scan_name(struct ptx_parser *p, bool dotted)
{
    char first = ptx_scan_peek(p);
    const char *start = p->at;
    if (!is_name_char(first) || isdigit((unsigned char)first))
        ptx_scan_fail(p, -EINVAL, "a name expected before `%c'", isprint((unsigned char)first) ? first : '?');
    while (p->at < p->end) {
        if (is_name_char(*p->at))
            p->at++;
        else if (dotted && *p->at == '.')
            p->at++;
        else if (dotted && p->end - p->at >= 2 && p->at[0] == ':' && p->at[1] == ':')
            p->at += 2;
        else
            break;
    }
    size_t length = (size_t)(p->at - start);
    char *copy = ptx_scan_take(p, length + 1);
    memcpy(copy, start, length);
    return copy;
}

static uint64_t hex_digits(struct ptx_parser *p, const char *start, int digits)
{
    uint64_t value = 0;
    for (int i = 0; i < digits; i++) {
        if (start + i >= p->end || !isxdigit((unsigned char)start[i]))
            ptx_scan_fail(p, -EINVAL, "a hexadecimal constant of %d digits expected", digits);
        char c = (char)tolower((unsigned char)start[i]);
        value = value << 4 | (uint64_t)(isdigit((unsigned char)c) ? c - '0' : c - 'a' + 10);
    }
    return value;
}

struct ptx_operand ptx_scan_number(struct ptx_parser *p)
{
    struct ptx_operand out = {.kind = PTX_OPERAND_INT};
    bool minus = false;
    while (ptx_scan_peek(p) == '-' || ptx_scan_peek(p) == '+' || ptx_scan_peek(p) == '~') {
        if (*p->at == '~')
            ptx_scan_fail(p, -ENOSYS, "constant expressions are not understood");
        minus ^= *p->at == '-';
        p->at++;
    }
    char text[64];
    size_t n = 0;
    ptx_scan_peek(p);
    if (p->end - p->at >= 2 && p->at[0] == '0' && strchr("fFdD", p->at[1])) {
        out.kind = PTX_OPERAND_FLOAT;
        out.single = p->at[1] == 'f' || p->at[1] == 'F';
        int digits = out.single ? 8 : 16;
        out.bits = hex_digits(p, p->at + 2, digits);
        p->at += 2 + digits;
        if (minus)
            out.bits ^= out.single ? 1u << 31 : 1ull << 63;
        return out;
    }
    bool hexadecimal = p->end - p->at >= 2 && p->at[0] == '0' && (p->at[1] == 'x' || p->at[1] == 'X');
    bool real = false;
    while (p->at < p->end && n + 1 < sizeof text) {
        char c = *p->at;
        if (!hexadecimal && (c == '.' || c == 'e' || c == 'E'))
            real = true;
        else if (!(real && (c == '-' || c == '+') && (text[n - 1] == 'e' || text[n - 1] == 'E')) &&
                 !isalnum((unsigned char)c))
            break;
        text[n++] = c;
        p->at++;
    }
    text[n] = '\0';
    if (n && text[n - 1] == 'U')
        text[--n] = '\0';
    char *rest = text;
    errno = 0;
    if (real) {
        double value = strtod(text, &rest);
        value = minus ? -value : value;
        out.kind = PTX_OPERAND_FLOAT;
        memcpy(&out.bits, &value, sizeof value);
    } else if (n > 2 && text[0] == '0' && (text[1] == 'b' || text[1] == 'B')) {
        out.bits = strtoull(text + 2, &rest, 2);
    } else {
        out.bits = strtoull(text, &rest, 0);
    }
    if (!n || *rest || errno)
        ptx_scan_fail(p, -EINVAL, "`%s' is not a number", text);
    if (minus && !real)
        out.bits = 0 - out.bits;
    return out;
}

struct ptx_operand ptx_scan_list(struct ptx_parser *p, char close)
{
    struct ptx_operand out = {.kind = PTX_OPERAND_VECTOR}, items[16];
    if (++p->depth > 4)
        ptx_scan_fail(p, -ENOSYS, "lists in lists in lists are not understood");
    while (ptx_scan_peek(p) != close) {
        if (out.count == 16)
            ptx_scan_fail(p, -ENOSYS, "a list of more than 16 operands");
        items[out.count++] = ptx_scan_operand(p);
        if (!ptx_scan_accept(p, ','))
            break;
    }
    ptx_scan_expect(p, close);
    p->depth--;
    out.items = ptx_scan_take(p, sizeof *items * (out.count + 1));
    memcpy(out.items, items, sizeof *items * out.count);
    return out;
}

struct ptx_operand ptx_scan_operand(struct ptx_parser *p)
{
    struct ptx_operand out = {.kind = PTX_OPERAND_NAME};
    char c = ptx_scan_peek(p);
    if (ptx_scan_accept(p, '{'))
        return ptx_scan_list(p, '}');
    if (ptx_scan_accept(p, '('))
        return ptx_scan_list(p, ')');
    if (ptx_scan_accept(p, '[')) {
        out.kind = PTX_OPERAND_MEMORY;
        if (is_name_char(ptx_scan_peek(p)) && !isdigit((unsigned char)*p->at))
            out.name = ptx_scan_name(p, true);
        if (ptx_scan_peek(p) == ',' || ptx_scan_peek(p) == '{')
            ptx_scan_fail(p, -ENOSYS, "an address of several parts is not understood");
        if (ptx_scan_peek(p) == '+')
            p->at++;
        if (ptx_scan_peek(p) != ']')
            out.bits = ptx_scan_number(p).bits;
        ptx_scan_expect(p, ']');
        return out;
    }
    if (isdigit((unsigned char)c) || c == '-' || c == '+' || c == '~')
        return ptx_scan_number(p);
    out.negate = ptx_scan_accept(p, '!');
    out.name = ptx_scan_name(p, true);
    if (ptx_scan_peek(p) == '|') {
        p->at++;
        out.kind = PTX_OPERAND_PAIR;
        out.second = ptx_scan_name(p, false);
    } else if (ptx_scan_peek(p) == '+' || (ptx_scan_peek(p) == '-' && out.name)) {
        /* variable+offset as a value */
        out.bits = ptx_scan_number(p).bits;
    }
    return out;
}

void ptx_scan_skip_line(struct ptx_parser *p)
{
    while (p->at < p->end && *p->at != '\n')
        p->at++;
}

void ptx_scan_skip_past(struct ptx_parser *p, char close)
{
    while (p->at < p->end && *p->at != close)
        if (*p->at++ == '\n')
            p->line++;
    if (p->at == p->end)
        ptx_scan_fail(p, -EINVAL, "`%c' is missing", close);
    p->at++;
}
