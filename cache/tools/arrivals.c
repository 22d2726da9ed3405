#include "cache/tools/arrivals.h"
#include <errno.h>
#include <stdlib.h>

#define ROUNDING 1.0 /* ns: of times that are sums of many */

enum { FOR_NOBODY = UINT32_MAX };

void arrivals_free(struct arrivals *arrivals)
{
    free(arrivals->operation);
    free(arrivals->open);
    *arrivals = (struct arrivals){0};
}

int arrivals_note(struct arrivals *arrivals, const struct simulation *simulation)
{
    uint32_t count = simulation_copies_in(simulation);

    if (count > arrivals->capacity) {
        uint32_t capacity = 2 * count;
        uint32_t *operation = realloc(arrivals->operation, capacity * sizeof *operation);
        uint32_t *open = realloc(arrivals->open, capacity * sizeof *open);

        arrivals->operation = operation ? operation : arrivals->operation;
        arrivals->open = open ? open : arrivals->open;
        if (!operation || !open)
            return -ENOMEM;
        arrivals->capacity = capacity;
    }
    while (arrivals->count < count) {
        arrivals->operation[arrivals->count] = FOR_NOBODY;
        arrivals->open[arrivals->open_count++] = arrivals->count++;
    }
    return 0;
}

static void give(struct arrivals *arrivals, const struct simulation *simulation, uint64_t address,
                 uint64_t size, uint32_t operation, bool whole)
{
    uint32_t kept = 0;

    for (uint32_t i = 0; i < arrivals->open_count; i++) {
        uint32_t number = arrivals->open[i];
        const struct simulation_copy *copy = simulation_copy_in(simulation, number);
        bool touched = copy->address < address + size && copy->address + copy->size > address;
        bool inside = copy->address >= address && copy->address + copy->size <= address + size;

        if (whole ? inside : touched)
            arrivals->operation[number] = operation;
        else
            arrivals->open[kept++] = number;
    }
    arrivals->open_count = kept;
}

void arrivals_claim(struct arrivals *arrivals, const struct simulation *simulation, uint64_t address,
                    uint64_t size)
{
    uint32_t before = arrivals->open_count;

    give(arrivals, simulation, address, size, arrivals->operations, false);
    arrivals->claimed |= arrivals->open_count != before;
}

bool arrivals_operation(struct arrivals *arrivals, uint32_t *number)
{
    if (!arrivals->claimed)
        return false;
    arrivals->claimed = false;
    *number = arrivals->operations++;
    return true;
}

void arrivals_drop(struct arrivals *arrivals, const struct simulation *simulation, uint64_t address,
                   uint64_t size)
{
    give(arrivals, simulation, address, size, FOR_NOBODY, true);
}

double arrivals_late(const struct arrivals *arrivals, const struct simulation *simulation, uint32_t from,
                     uint32_t until)
{
    double late = 0;

    for (uint32_t number = 0; number < arrivals->count; number++) {
        const struct simulation_copy *copy = simulation_copy_in(simulation, number);
        uint32_t operation = arrivals->operation[number];

        if (operation >= from && operation < until &&
            copy->end > simulation_watched(simulation, operation) + ROUNDING)
            late += (double)copy->size;
    }
    return late;
}
