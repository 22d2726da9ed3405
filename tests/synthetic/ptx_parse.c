/*
 * ptx_parse.c - PTX text to tree: recursive descent over the text, no separate token list.
 *
 * Follows the grammar of the PTX ISA as far as compilers write it: directives, variables with initialisers,
 * functions, nested scopes, instructions. What an instruction means is the lowering's business.
 */
#include "ptx_ast.h"

#include <ctype.h>
#include <errno.h>
#include <setjmp.h>
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

struct parser {
    const char *at, *end;
    uint32_t line;
    struct ptx_tree *tree;
    uint32_t depth;     /* of lists in lists */
    const char *opcode; /* of the instruction being parsed, to be named in errors */
    jmp_buf fail;
    int status;
    char *error;
    size_t error_size;
};

__attribute__((format(printf, 3, 4), noreturn)) static void fail(struct parser *p, int status,
                                                                 const char *format, ...)
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

static void *take(struct parser *p, size_t size)
{
    void *memory = ptx_arena_alloc(&p->tree->arena, size);
    if (!memory)
        fail(p, -ENOMEM, "out of memory");
    return memory;
}

static void skip_space(struct parser *p)
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
                fail(p, -EINVAL, "comment without end");
            p->at += 2;
        } else {
            return;
        }
    }
}

/* The next significant character, '\0' at the end. */
static char peek(struct parser *p)
{
    skip_space(p);
    return p->at < p->end ? *p->at : '\0';
}

static bool accept(struct parser *p, char c)
{
    if (peek(p) != c || c == '\0')
        return false;
    p->at++;
    return true;
}

static void expect(struct parser *p, char c)
{
    char got = peek(p);
    if (got != c)
        fail(p, -EINVAL, "`%c' expected before `%c'", c, isprint((unsigned char)got) ? got : '?');
    p->at++;
}

static bool is_name_char(char c)
{
    return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

/* A name; dots join it where dotted (mnemonics, special registers), colons where doubled (L1::no_allocate).
 */
static const char *name(struct parser *p, bool dotted)
{
    char first = peek(p);
    const char *start = p->at;
    if (!is_name_char(first) || isdigit((unsigned char)first))
        fail(p, -EINVAL, "a name expected before `%c'", isprint((unsigned char)first) ? first : '?');
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
    char *copy = take(p, length + 1);
    memcpy(copy, start, length);
    return copy;
}

static uint64_t hex_digits(struct parser *p, const char *start, int digits)
{
    uint64_t value = 0;
    for (int i = 0; i < digits; i++) {
        if (start + i >= p->end || !isxdigit((unsigned char)start[i]))
            fail(p, -EINVAL, "a hexadecimal constant of %d digits expected", digits);
        char c = (char)tolower((unsigned char)start[i]);
        value = value << 4 | (uint64_t)(isdigit((unsigned char)c) ? c - '0' : c - 'a' + 10);
    }
    return value;
}

static struct ptx_operand number(struct parser *p)
{
    struct ptx_operand out = {.kind = PTX_OPERAND_INT};
    bool minus = false;
    while (peek(p) == '-' || peek(p) == '+' || peek(p) == '~') {
        if (*p->at == '~')
            fail(p, -ENOSYS, "constant expressions are not understood");
        minus ^= *p->at == '-';
        p->at++;
    }
    char text[64];
    size_t n = 0;
    peek(p);
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
        fail(p, -EINVAL, "`%s' is not a number", text);
    if (minus && !real)
        out.bits = 0 - out.bits;
    return out;
}

static struct ptx_operand operand(struct parser *p);

static struct ptx_operand list(struct parser *p, char close)
{
    struct ptx_operand out = {.kind = PTX_OPERAND_VECTOR}, items[16];
    if (++p->depth > 4)
        fail(p, -ENOSYS, "lists in lists in lists are not understood");
    while (peek(p) != close) {
        if (out.count == 16)
            fail(p, -ENOSYS, "a list of more than 16 operands");
        items[out.count++] = operand(p);
        if (!accept(p, ','))
            break;
    }
    expect(p, close);
    p->depth--;
    out.items = take(p, sizeof *items * (out.count + 1));
    memcpy(out.items, items, sizeof *items * out.count);
    return out;
}

static struct ptx_operand operand(struct parser *p)
{
    struct ptx_operand out = {.kind = PTX_OPERAND_NAME};
    char c = peek(p);
    if (accept(p, '{'))
        return list(p, '}');
    if (accept(p, '('))
        return list(p, ')');
    if (accept(p, '[')) {
        out.kind = PTX_OPERAND_MEMORY;
        if (is_name_char(peek(p)) && !isdigit((unsigned char)*p->at))
            out.name = name(p, true);
        if (peek(p) == ',' || peek(p) == '{')
            fail(p, -ENOSYS, "an address of several parts is not understood");
        if (peek(p) == '+')
            p->at++;
        if (peek(p) != ']')
            out.bits = number(p).bits;
        expect(p, ']');
        return out;
    }
    if (isdigit((unsigned char)c) || c == '-' || c == '+' || c == '~')
        return number(p);
    out.negate = accept(p, '!');
    out.name = name(p, true);
    if (peek(p) == '|') {
        p->at++;
        out.kind = PTX_OPERAND_PAIR;
        out.second = name(p, false);
    } else if (peek(p) == '+' || (peek(p) == '-' && out.name)) {
        /* variable+offset as a value */
        out.bits = number(p).bits;
    }
    return out;
}

static void skip_line(struct parser *p)
{
    while (p->at < p->end && *p->at != '\n')
        p->at++;
}

static void skip_past(struct parser *p, char close)
{
    while (p->at < p->end && *p->at != close)
        if (*p->at++ == '\n')
            p->line++;
    if (p->at == p->end)
        fail(p, -EINVAL, "`%c' is missing", close);
    p->at++;
}

static void array_and_init(struct parser *p, struct ptx_variable *v)
{
    v->count = 1;
    while (accept(p, '[')) {
        if (peek(p) == ']')
            v->unsized = true;
        else if (__builtin_mul_overflow(v->count, number(p).bits, &v->count) || v->count > 1ull << 40)
            fail(p, -EINVAL, "`%s' is too large", v->name);
        expect(p, ']');
    }
    if (v->unsized)
        v->count = 0;
    if (!accept(p, '='))
        return;
    size_t room = 0;
    bool braces = accept(p, '{');
    do {
        if (braces && peek(p) == '}')
            break;
        if (peek(p) == '{')
            fail(p, -ENOSYS, "nested initialisers are not understood");
        if (v->init_count == room) {
            struct ptx_operand *grown = take(p, sizeof *grown * (room ? room * 2 : 16));
            if (room)
                memcpy(grown, v->init, sizeof *grown * room);
            v->init = grown;
            room = room ? room * 2 : 16;
        }
        v->init[v->init_count++] = operand(p);
    } while (braces && accept(p, ','));
    if (braces)
        expect(p, '}');
}

/* Behind the space directive: [.align N] .type name[count] = init; several names share one declaration. */
static struct ptx_variable *variables(struct parser *p, enum ptx_space space, bool external)
{
    struct ptx_variable shape = {.space = space, .external = external}, *head = NULL, **tail = &head;
    while (accept(p, '.')) {
        const char *word = name(p, false);
        if (!strcmp(word, "align")) {
            shape.align = (uint32_t)number(p).bits;
        } else if (!strcmp(word, "attribute")) {
            skip_past(p, ')');
        } else if (!strcmp(word, "ptr") || !strcmp(word, "global") || !strcmp(word, "const") ||
                   !strcmp(word, "shared") || !strcmp(word, "local")) {
            continue; /* what a pointer parameter points to is no concern of ours */
        } else {
            shape.type = ptx_type_named(word);
            if (!shape.type)
                fail(p, -ENOSYS, "`.%s' is not understood in a declaration", word);
            /* .ptr .align belongs to what is pointed to, and comes after the type */
            uint32_t own = shape.align;
            while (accept(p, '.')) {
                if (!strcmp(name(p, false), "align"))
                    number(p);
            }
            shape.align = own;
            break;
        }
    }
    if (!shape.type)
        fail(p, -EINVAL, "a type expected");
    if (!shape.align)
        shape.align = ptx_type_size(shape.type);
    if (shape.align & (shape.align - 1))
        fail(p, -EINVAL, "an alignment of %u is not a power of two", shape.align);
    do {
        struct ptx_variable *v = take(p, sizeof *v);
        *v = shape;
        v->line = p->line;
        peek(p);
        v->line = p->line;
        v->name = name(p, false);
        array_and_init(p, v);
        *tail = v;
        tail = &v->next;
    } while (space != PTX_PARAM && accept(p, ','));
    return head;
}

static void registers(struct parser *p, struct ptx_statement ***tail)
{
    expect(p, '.');
    const char *word = name(p, false);
    enum ptx_type type = ptx_type_named(word);
    if (!type)
        fail(p, -ENOSYS, "registers of `.%s' are not understood", word);
    do {
        struct ptx_statement *s = take(p, sizeof *s);
        s->kind = PTX_STATEMENT_REGISTERS;
        s->line = p->line;
        s->type = type;
        s->name = name(p, false);
        if (accept(p, '<')) {
            s->count = (uint32_t)number(p).bits;
            expect(p, '>');
            if (s->count > 1u << 20)
                fail(p, -EINVAL, "%u registers", s->count);
            if (!s->count)
                continue;
        }
        **tail = s;
        *tail = &s->next;
    } while (accept(p, ','));
    expect(p, ';');
}

static void instruction(struct parser *p, struct ptx_statement *s)
{
    struct ptx_operand items[16];
    s->kind = PTX_STATEMENT_INSTRUCTION;
    if (accept(p, '@')) {
        s->guard_negate = accept(p, '!');
        s->guard = name(p, false);
    }
    peek(p);
    s->line = p->line;
    s->name = p->opcode = name(p, true);
    while (peek(p) != ';') {
        if (s->count == 16)
            fail(p, -ENOSYS, "more than 16 operands");
        items[s->count++] = operand(p);
        if (!accept(p, ','))
            break;
    }
    expect(p, ';');
    p->opcode = NULL;
    s->operands = take(p, sizeof *items * (s->count + 1));
    memcpy(s->operands, items, sizeof *items * s->count);
}

static struct ptx_statement *body(struct parser *p)
{
    struct ptx_statement *head = NULL, **tail = &head;
    for (int depth = 1; depth;) {
        char c = peek(p);
        struct ptx_statement *s = take(p, sizeof *s);
        s->line = p->line;
        if (c == '\0')
            fail(p, -EINVAL, "`}' is missing");
        if (c == '{' || c == '}') {
            p->at++;
            depth += c == '{' ? 1 : -1;
            s->kind = c == '{' ? PTX_STATEMENT_OPEN : PTX_STATEMENT_CLOSE;
            if (!depth)
                break;
        } else if (c == '.') {
            p->at++;
            const char *word = name(p, false);
            if (!strcmp(word, "reg")) {
                registers(p, &tail);
                continue;
            }
            if (!strcmp(word, "loc") || !strcmp(word, "file")) {
                skip_line(p);
                continue;
            }
            if (!strcmp(word, "pragma")) {
                skip_past(p, ';');
                continue;
            }
            enum ptx_space space = !strcmp(word, "local")    ? PTX_LOCAL
                                   : !strcmp(word, "shared") ? PTX_SHARED
                                   : !strcmp(word, "param")  ? PTX_PARAM
                                                             : PTX_GENERIC;
            if (space == PTX_GENERIC)
                fail(p, -ENOSYS, "`.%s' is not understood in a function", word);
            struct ptx_variable *v = variables(p, space, false);
            expect(p, ';');
            for (; v; v = v->next) {
                s->kind = PTX_STATEMENT_VARIABLE;
                s->variable = v;
                *tail = s;
                tail = &s->next;
                s = take(p, sizeof *s);
                s->line = p->line;
            }
            continue;
        } else {
            const char *start = p->at;
            uint32_t line = p->line;
            if (c != '@') {
                s->name = name(p, false);
                if (peek(p) == ':' && !(p->end - p->at >= 2 && p->at[1] == ':')) {
                    p->at++;
                    s->kind = PTX_STATEMENT_LABEL;
                    if (peek(p) == '.' && (size_t)(p->end - p->at) > 14 &&
                        !strncmp(p->at, ".branchtargets", 14)) {
                        p->at += 14;
                        s->kind = PTX_STATEMENT_TARGETS;
                        struct ptx_operand targets = list(p, ';');
                        s->operands = targets.items;
                        s->count = targets.count;
                    }
                    *tail = s;
                    tail = &s->next;
                    continue;
                }
            }
            p->at = start;
            p->line = line;
            instruction(p, s);
        }
        *tail = s;
        tail = &s->next;
    }
    return head;
}

static struct ptx_variable *parameters(struct parser *p)
{
    struct ptx_variable *head = NULL, **tail = &head;
    expect(p, '(');
    while (peek(p) != ')') {
        expect(p, '.');
        const char *word = name(p, false);
        if (strcmp(word, "param"))
            fail(p, -ENOSYS, "a parameter in `.%s' is not understood", word);
        *tail = variables(p, PTX_PARAM, false);
        tail = &(*tail)->next;
        if (!accept(p, ','))
            break;
    }
    expect(p, ')');
    return head;
}

static void extents(struct parser *p, uint32_t out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = 1;
    for (int i = 0; i < 3; i++) {
        out[i] = (uint32_t)number(p).bits;
        if (!accept(p, ','))
            return;
    }
}

static struct ptx_function *function(struct parser *p, bool entry)
{
    struct ptx_function *f = take(p, sizeof *f);
    f->entry = entry;
    if (peek(p) == '(')
        f->results = parameters(p);
    peek(p);
    f->line = p->line;
    f->name = name(p, false);
    if (peek(p) == '(')
        f->params = parameters(p);
    while (accept(p, '.')) {
        const char *word = name(p, false);
        uint32_t ignored[3];
        if (!strcmp(word, "reqntid"))
            extents(p, f->reqntid);
        else if (!strcmp(word, "maxntid"))
            extents(p, f->maxntid);
        else if (!strcmp(word, "minnctapersm") || !strcmp(word, "maxnreg") || !strcmp(word, "maxnctapersm"))
            extents(p, ignored);
        else if (!strcmp(word, "pragma"))
            skip_past(p, ';');
        else if (strcmp(word, "noreturn"))
            fail(p, -ENOSYS, "`.%s' is not understood on a function", word);
    }
    if (!accept(p, ';')) {
        expect(p, '{');
        f->body = body(p);
    }
    return f;
}

static void module(struct parser *p)
{
    struct ptx_function **functions = &p->tree->functions;
    struct ptx_variable **globals = &p->tree->variables;
    bool external = false, versioned = false;
    while (peek(p)) {
        expect(p, '.');
        const char *word = name(p, false);
        if (!strcmp(word, "version")) {
            versioned = true;
            skip_line(p);
        } else if (!strcmp(word, "target") || !strcmp(word, "address_size") || !strcmp(word, "file")) {
            skip_line(p);
        } else if (!strcmp(word, "section")) {
            skip_past(p, '}');
        } else if (!strcmp(word, "visible") || !strcmp(word, "weak") || !strcmp(word, "common")) {
            continue;
        } else if (!strcmp(word, "extern")) {
            external = true;
            continue;
        } else if (!strcmp(word, "entry") || !strcmp(word, "func")) {
            *functions = function(p, word[0] == 'e');
            functions = &(*functions)->next;
        } else if (!strcmp(word, "global") || !strcmp(word, "const") || !strcmp(word, "shared")) {
            *globals = variables(p,
                                 word[0] == 'g'   ? PTX_GLOBAL
                                 : word[0] == 'c' ? PTX_CONST
                                                  : PTX_SHARED,
                                 external);
            expect(p, ';');
            while (*globals)
                globals = &(*globals)->next;
        } else {
            fail(p, -ENOSYS, "`.%s' is not understood", word);
        }
        external = false;
    }
    if (!versioned)
        fail(p, -EINVAL, "no .version: this is not PTX");
}

int ptx_tree_parse(const char *text, size_t length, struct ptx_tree *tree, char *error, size_t error_size)
{
    struct parser p = {
        .at = text, .end = text + length, .line = 1, .tree = tree, .error = error, .error_size = error_size};
    memset(tree, 0, sizeof *tree);
    const char *nul = memchr(text, '\0', length);
    if (nul)
        p.end = nul;
    if (setjmp(p.fail) == 0) {
        module(&p);
        return 0;
    }
    ptx_tree_free(tree);
    return p.status;
}

void ptx_tree_free(struct ptx_tree *tree)
{
    ptx_arena_free(&tree->arena);
    memset(tree, 0, sizeof *tree);
}
