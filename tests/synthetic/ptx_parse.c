/*
 * ptx_parse.c - PTX text to tree: directives, functions, statements. Recursive descent, no separate token
 * list.
 *
 * Follows the grammar of the PTX ISA as far as compilers write it: directives, variables with initialisers,
 * functions, nested scopes, instructions. What an instruction means is the lowering's business.
 */
#include "ptx_scan.h"

#include <ctype.h>
#include <errno.h>
#include <string.h>

static void array_and_init(struct ptx_parser *p, struct ptx_variable *v)
{
    v->count = 1;
    while (ptx_scan_accept(p, '[')) {
        if (ptx_scan_peek(p) == ']')
            v->unsized = true;
        else if (__builtin_mul_overflow(v->count, ptx_scan_number(p).bits, &v->count) || v->count > 1ull
                                                                                                        << 40)
            ptx_scan_fail(p, -EINVAL, "`%s' is too large", v->name);
        ptx_scan_expect(p, ']');
    }
    if (v->unsized)
        v->count = 0;
    if (!ptx_scan_accept(p, '='))
        return;
    size_t room = 0;
    bool braces = ptx_scan_accept(p, '{');
    do {
        if (braces && ptx_scan_peek(p) == '}')
            break;
        if (ptx_scan_peek(p) == '{')
            ptx_scan_fail(p, -ENOSYS, "nested initialisers are not understood");
        if (v->init_count == room) {
            struct ptx_operand *grown = ptx_scan_take(p, sizeof *grown * (room ? room * 2 : 16));
            if (room)
                memcpy(grown, v->init, sizeof *grown * room);
            v->init = grown;
            room = room ? room * 2 : 16;
        }
        v->init[v->init_count++] = ptx_scan_operand(p);
    } while (braces && ptx_scan_accept(p, ','));
    if (braces)
        ptx_scan_expect(p, '}');
}

/* Behind the space directive: [.align N] .type name[count] = init; several names share one declaration. */
static struct ptx_variable *variables(struct ptx_parser *p, enum ptx_space space, bool external)
{
    struct ptx_variable shape = {.space = space, .external = external}, *head = NULL, **tail = &head;
    while (ptx_scan_accept(p, '.')) {
        const char *word = ptx_scan_name(p, false);
        if (!strcmp(word, "align")) {
            shape.align = (uint32_t)ptx_scan_number(p).bits;
        } else if (!strcmp(word, "attribute")) {
            ptx_scan_skip_past(p, ')');
        } else if (!strcmp(word, "ptr") || !strcmp(word, "global") || !strcmp(word, "const") ||
                   !strcmp(word, "shared") || !strcmp(word, "local")) {
            continue; /* what a pointer parameter points to is no concern of ours */
        } else {
            shape.type = ptx_type_named(word);
            if (!shape.type)
                ptx_scan_fail(p, -ENOSYS, "`.%s' is not understood in a declaration", word);
            /* .ptr .align belongs to what is pointed to, and comes after the type */
            uint32_t own = shape.align;
            while (ptx_scan_accept(p, '.')) {
                if (!strcmp(ptx_scan_name(p, false), "align"))
                    ptx_scan_number(p);
            }
            shape.align = own;
            break;
        }
    }
    if (!shape.type)
        ptx_scan_fail(p, -EINVAL, "a type expected");
    if (!shape.align)
        shape.align = ptx_type_size(shape.type);
    if (shape.align & (shape.align - 1))
        ptx_scan_fail(p, -EINVAL, "an alignment of %u is not a power of two", shape.align);
    do {
        struct ptx_variable *v = ptx_scan_take(p, sizeof *v);
        *v = shape;
        v->line = p->line;
        ptx_scan_peek(p);
        v->line = p->line;
        v->name = ptx_scan_name(p, false);
        array_and_init(p, v);
        *tail = v;
        tail = &v->next;
    } while (space != PTX_PARAM && ptx_scan_accept(p, ','));
    return head;
}

static void registers(struct ptx_parser *p, struct ptx_statement ***tail)
{
    ptx_scan_expect(p, '.');
    const char *word = ptx_scan_name(p, false);
    enum ptx_type type = ptx_type_named(word);
    if (!type)
        ptx_scan_fail(p, -ENOSYS, "registers of `.%s' are not understood", word);
    do {
        struct ptx_statement *s = ptx_scan_take(p, sizeof *s);
        s->kind = PTX_STATEMENT_REGISTERS;
        s->line = p->line;
        s->type = type;
        s->name = ptx_scan_name(p, false);
        if (ptx_scan_accept(p, '<')) {
            s->count = (uint32_t)ptx_scan_number(p).bits;
            ptx_scan_expect(p, '>');
            if (s->count > 1u << 20)
                ptx_scan_fail(p, -EINVAL, "%u registers", s->count);
            if (!s->count)
                continue;
        }
        **tail = s;
        *tail = &s->next;
    } while (ptx_scan_accept(p, ','));
    ptx_scan_expect(p, ';');
}

static void instruction(struct ptx_parser *p, struct ptx_statement *s)
{
    struct ptx_operand items[16];
    s->kind = PTX_STATEMENT_INSTRUCTION;
    if (ptx_scan_accept(p, '@')) {
        s->guard_negate = ptx_scan_accept(p, '!');
        s->guard = ptx_scan_name(p, false);
    }
    ptx_scan_peek(p);
    s->line = p->line;
    s->name = p->opcode = ptx_scan_name(p, true);
    while (ptx_scan_peek(p) != ';') {
        if (s->count == 16)
            ptx_scan_fail(p, -ENOSYS, "more than 16 operands");
        items[s->count++] = ptx_scan_operand(p);
        if (!ptx_scan_accept(p, ','))
            break;
    }
    ptx_scan_expect(p, ';');
    p->opcode = NULL;
    s->operands = ptx_scan_take(p, sizeof *items * (s->count + 1));
    memcpy(s->operands, items, sizeof *items * s->count);
}

static struct ptx_statement *body(struct ptx_parser *p)
{
    struct ptx_statement *head = NULL, **tail = &head;
    for (int depth = 1; depth;) {
        char c = ptx_scan_peek(p);
        struct ptx_statement *s = ptx_scan_take(p, sizeof *s);
        s->line = p->line;
        if (c == '\0')
            ptx_scan_fail(p, -EINVAL, "`}' is missing");
        if (c == '{' || c == '}') {
            p->at++;
            depth += c == '{' ? 1 : -1;
            s->kind = c == '{' ? PTX_STATEMENT_OPEN : PTX_STATEMENT_CLOSE;
            if (!depth)
                break;
        } else if (c == '.') {
            p->at++;
            const char *word = ptx_scan_name(p, false);
            if (!strcmp(word, "reg")) {
                registers(p, &tail);
                continue;
            }
            if (!strcmp(word, "loc") || !strcmp(word, "file")) {
                ptx_scan_skip_line(p);
                continue;
            }
            if (!strcmp(word, "pragma")) {
                ptx_scan_skip_past(p, ';');
                continue;
            }
            enum ptx_space space = !strcmp(word, "local")    ? PTX_LOCAL
                                   : !strcmp(word, "shared") ? PTX_SHARED
                                   : !strcmp(word, "param")  ? PTX_PARAM
                                                             : PTX_GENERIC;
            if (space == PTX_GENERIC)
                ptx_scan_fail(p, -ENOSYS, "`.%s' is not understood in a function", word);
            struct ptx_variable *v = variables(p, space, false);
            ptx_scan_expect(p, ';');
            for (; v; v = v->next) {
                s->kind = PTX_STATEMENT_VARIABLE;
                s->variable = v;
                *tail = s;
                tail = &s->next;
                s = ptx_scan_take(p, sizeof *s);
                s->line = p->line;
            }
            continue;
        } else {
            const char *start = p->at;
            uint32_t line = p->line;
            if (c != '@') {
                s->name = ptx_scan_name(p, false);
                if (ptx_scan_peek(p) == ':' && !(p->end - p->at >= 2 && p->at[1] == ':')) {
                    p->at++;
                    s->kind = PTX_STATEMENT_LABEL;
                    if (ptx_scan_peek(p) == '.' && (size_t)(p->end - p->at) > 14 &&
                        !strncmp(p->at, ".branchtargets", 14)) {
                        p->at += 14;
                        s->kind = PTX_STATEMENT_TARGETS;
                        struct ptx_operand targets = ptx_scan_list(p, ';');
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

static struct ptx_variable *parameters(struct ptx_parser *p)
{
    struct ptx_variable *head = NULL, **tail = &head;
    ptx_scan_expect(p, '(');
    while (ptx_scan_peek(p) != ')') {
        ptx_scan_expect(p, '.');
        const char *word = ptx_scan_name(p, false);
        if (strcmp(word, "param"))
            ptx_scan_fail(p, -ENOSYS, "a parameter in `.%s' is not understood", word);
        *tail = variables(p, PTX_PARAM, false);
        tail = &(*tail)->next;
        if (!ptx_scan_accept(p, ','))
            break;
    }
    ptx_scan_expect(p, ')');
    return head;
}

static void extents(struct ptx_parser *p, uint32_t out[3])
{
    for (int i = 0; i < 3; i++)
        out[i] = 1;
    for (int i = 0; i < 3; i++) {
        out[i] = (uint32_t)ptx_scan_number(p).bits;
        if (!ptx_scan_accept(p, ','))
            return;
    }
}

static struct ptx_function *function(struct ptx_parser *p, bool entry)
{
    struct ptx_function *f = ptx_scan_take(p, sizeof *f);
    f->entry = entry;
    if (ptx_scan_peek(p) == '(')
        f->results = parameters(p);
    ptx_scan_peek(p);
    f->line = p->line;
    f->name = ptx_scan_name(p, false);
    if (ptx_scan_peek(p) == '(')
        f->params = parameters(p);
    while (ptx_scan_accept(p, '.')) {
        const char *word = ptx_scan_name(p, false);
        uint32_t ignored[3];
        if (!strcmp(word, "reqntid"))
            extents(p, f->reqntid);
        else if (!strcmp(word, "maxntid"))
            extents(p, f->maxntid);
        else if (!strcmp(word, "minnctapersm") || !strcmp(word, "maxnreg") || !strcmp(word, "maxnctapersm"))
            extents(p, ignored);
        else if (!strcmp(word, "pragma"))
            ptx_scan_skip_past(p, ';');
        else if (strcmp(word, "noreturn"))
            ptx_scan_fail(p, -ENOSYS, "`.%s' is not understood on a function", word);
    }
    if (!ptx_scan_accept(p, ';')) {
        ptx_scan_expect(p, '{');
        f->body = body(p);
    }
    return f;
}

static void module(struct ptx_parser *p)
{
    struct ptx_function **functions = &p->tree->functions;
    struct ptx_variable **globals = &p->tree->variables;
    bool external = false, versioned = false;
    while (ptx_scan_peek(p)) {
        ptx_scan_expect(p, '.');
        const char *word = ptx_scan_name(p, false);
        if (!strcmp(word, "version")) {
            versioned = true;
            ptx_scan_skip_line(p);
        } else if (!strcmp(word, "target") || !strcmp(word, "address_size") || !strcmp(word, "file")) {
            ptx_scan_skip_line(p);
        } else if (!strcmp(word, "section")) {
            ptx_scan_skip_past(p, '}');
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
            ptx_scan_expect(p, ';');
            while (*globals)
                globals = &(*globals)->next;
        } else {
            ptx_scan_fail(p, -ENOSYS, "`.%s' is not understood", word);
        }
        external = false;
    }
    if (!versioned)
        ptx_scan_fail(p, -EINVAL, "no .version: this is not PTX");
}

int ptx_tree_parse(const char *text, size_t length, struct ptx_tree *tree, char *error, size_t error_size)
{
    struct ptx_parser p = {
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
