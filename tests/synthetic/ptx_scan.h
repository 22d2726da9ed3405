/*
 * ptx_scan.h - reading PTX text: what the parser is made of.
 *
 * Errors leave by longjmp to ptx_tree_parse. Every function skips blanks and comments before what it reads.
 */
#ifndef SYNTHETIC_PTX_SCAN_H
#define SYNTHETIC_PTX_SCAN_H

#include "ptx_ast.h"

#include <setjmp.h>

struct ptx_parser {
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
__attribute__((format(printf, 3, 4), noreturn)) void ptx_scan_fail(struct ptx_parser *p, int status,
                                                                   const char *format, ...);
/* Zeroed memory of the tree. */
void *ptx_scan_take(struct ptx_parser *p, size_t size);
/* The next significant character, '\0' at the end. */
char ptx_scan_peek(struct ptx_parser *p);
bool ptx_scan_accept(struct ptx_parser *p, char c);
void ptx_scan_expect(struct ptx_parser *p, char c);
/* A name; dots join it where dotted (mnemonics, special registers), colons where doubled. */
const char *ptx_scan_name(struct ptx_parser *p, bool dotted);
struct ptx_operand ptx_scan_number(struct ptx_parser *p);
struct ptx_operand ptx_scan_operand(struct ptx_parser *p);
/* The rest of a list, up to and with close. */
struct ptx_operand ptx_scan_list(struct ptx_parser *p, char close);
void ptx_scan_skip_line(struct ptx_parser *p);
void ptx_scan_skip_past(struct ptx_parser *p, char close);

#endif
