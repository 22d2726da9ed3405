/*
 * options_value.h - a value's text to what it stands for, by the kind that the table (options.h) gives it.
 *
 * Nothing here allocates. 0, or -EINVAL (it is none), -ERANGE (it is too large), -ENAMETOOLONG; then nothing
 * is set.
 */
#ifndef HBMSPILL_SHIM_OPTIONS_VALUE_H
#define HBMSPILL_SHIM_OPTIONS_VALUE_H

#include "shim/options.h"

enum option_kind {
    KIND_choice,
    KIND_amount,
    KIND_size,
    KIND_count,
    KIND_report,
    KIND_window,
    KIND_plan,
    KIND_numa,
    KIND_log,
    KIND_text
};

/* field: of the type OPTION_TYPE_KIND. form: what is accepted, as the table has it. */
int option_parse(enum option_kind kind, const char *form, const char *text, void *field);

/* The place of a word in a list like "off|on", in upper or lower case. */
int option_parse_choice(const char *form, const char *text, int *choice);

/* HBMSPILL_LOG: a level for all and levels for some, in any order. */
int option_parse_log(const char *text, struct option_log *log);

#endif
