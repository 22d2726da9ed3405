/*
 * symbol.h - names for addresses of code, for reports.
 *
 * An address becomes "module!function+0x12", or "module+0x1234" where the module has no symbol there. Beside
 * what dladdr(3) finds, the symbol tables in the modules' files are read, since most libraries export next to
 * nothing. C++ names are written as in a source, without their parameters.
 *
 * Threads: one at a time. Slow (milliseconds for a large module); maps files into memory for as long as
 * symbols_done was not called.
 */
#ifndef HBMSPILL_HOOKS_SYMBOL_H
#define HBMSPILL_HOOKS_SYMBOL_H

#include <stddef.h>

/* Always makes a text, cut where it does not fit. */
void symbol_text(const void *address, char *text, size_t size);
void symbols_done(void);

#endif
