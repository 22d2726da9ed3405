/*
 * sort.c - the library's qsort: stable, and what it needs beside the array is memory of the library's own.
 *
 * The C library's takes it from the job's heap for more than a kilobyte (glibc before 2.37), and is stable
 * then; newer ones are not, and take none. The linker gives what the library's objects call qsort this
 * (--wrap, in local.mk), so that schedules are the same whatever C library is there.
 *
 * Threads: any; it keeps nothing.
 */
#include <stdlib.h>
#include <string.h>

typedef int comparison(const void *, const void *);

/* NOLINTBEGIN(bugprone-reserved-identifier): the linker's names */
void __wrap_qsort(void *array, size_t count, size_t size, comparison *compare);
void __real_qsort(void *array, size_t count, size_t size, comparison *compare);

/* Runs of `run' elements in `from', in pairs, to `to'. */
static void merge_pairs(char *to, const char *from, size_t count, size_t size, size_t run,
                        comparison *compare)
{
    for (size_t begin = 0; begin < count; begin += 2 * run) {
        size_t left = begin, middle = begin + run < count ? begin + run : count, right = middle;
        size_t end = begin + 2 * run < count ? begin + 2 * run : count;

        for (; left < middle || right < end; to += size) {
            /* Of equals the left one is first. */
            size_t *next =
                right == end || (left < middle && compare(from + left * size, from + right * size) <= 0)
                    ? &left
                    : &right;

            memcpy(to, from + (*next)++ * size, size);
        }
    }
}

void __wrap_qsort(void *array, size_t count, size_t size, comparison *compare)
{
    char *other = count > 1 ? malloc(count * size) : NULL, *from = array, *to = other;

    if (!other) {
        if (count > 1) /* no memory of our own: in any order of equals, with the job's */
            __real_qsort(array, count, size, compare);
        return;
    }
    for (size_t run = 1; run < count; run *= 2) {
        char *next = from;

        merge_pairs(to, from, count, size, run, compare);
        from = to;
        to = next;
    }
    if (from != array)
        memcpy(array, from, count * size);
    free(other);
}
/* NOLINTEND(bugprone-reserved-identifier) */
