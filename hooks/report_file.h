/*
 * report_file.h - the statistics as a file: JSON, or what Prometheus' node exporter reads (textfile
 * collector) where the path ends in .prom.
 *
 * Threads: a text is the caller's to keep apart.
 */
#ifndef HBMSPILL_HOOKS_REPORT_FILE_H
#define HBMSPILL_HOOKS_REPORT_FILE_H

#include "cache/statistics.h"
#include "hooks/text.h"

/* Whether a path is that of a file for Prometheus. */
bool report_is_prometheus(const char *path);
/* The counters of the process and the state of its devices, in that form. */
void report_put_prometheus(struct text *text, const struct statistics *sum);
/* Complains where it cannot be written. */
void report_write(const char *path, const struct text *text);

#endif
