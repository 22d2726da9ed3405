/*
 * plan_cache.h - plans kept for the next start of the same job: files in the user's cache directory.
 *
 * The directory is $XDG_CACHE_HOME/hbmspill, else ~/.cache/hbmspill. A file is named by what its plan is for:
 * the round's hash, the bytes of HBM, the rates of the link and the time the round computes, these to two or
 * three digits. It appears under its name by rename, so that several jobs may use the directory at once.
 * Where the directory cannot be used a temporary one takes its place, for this process alone.
 *
 * A file is read only if it is the user's own and nobody else may write it; what it says is checked all the
 * same, and it says only what to move when.
 *
 * Threads: one at a time. Errors: 0 or -errno.
 */
#ifndef HBMSPILL_HOOKS_PLAN_CACHE_H
#define HBMSPILL_HOOKS_PLAN_CACHE_H

#include "cache/cycle.h"
#include <limits.h>

struct plan_cache {
    char directory[PATH_MAX];
    bool temporary;
};

/* Finds or makes the directory; says (once) what is wrong with the one there should be. */
int plan_cache_open(struct plan_cache *cache);
/* Removes a temporary directory and what is in it. */
void plan_cache_close(struct plan_cache *cache);

/*
 * The path of the plan for a round: that of a file that is there, for this link or one that is up to a
 * quarter faster or slower, and operations that take as long, up to a tenth; else of one to be made.
 */
int plan_cache_path(const struct plan_cache *cache, const struct cycle *cycle, uint64_t hash,
                    char path[PATH_MAX]);

/*
 * Reads a plan for the round with this hash, for the caller to free. -ENOENT: there is no such file. Else
 * `why' says what is wrong with it: -EPERM: it is not only the user's (asked if `private'); -EFBIG; -ESTALE:
 * for another round; -EINVAL: damaged.
 */
int plan_read(const char *path, uint64_t hash, bool private, struct schedule **out, char *why,
              size_t why_size);

/* Makes room for one more: the files that were not used for longest go, and what was left half written. */
void plan_cache_trim(const struct plan_cache *cache);

#endif
