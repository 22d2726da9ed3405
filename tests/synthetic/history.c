/* One line for each operation, when it has ended; what is in it is said in history.h. */
#include "history.h"
#include "timeline.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

static FILE *file;

void history_start(void)
{
    char path[4096];
    if (!options.history)
        return;
    options_path(options.history, path, sizeof(path));
    file = fopen(path, "we");
    if (file)
        fprintf(file, "device-history 1\n");
    else
        driver_log("cannot write the history %s: %s", path, strerror(errno));
}

void history_add_locked(const struct op *op, uint64_t stream_id)
{
    char kind;
    if (!file)
        return;
    switch (op->work.kind) {
    case WORK_KERNEL:
        kind = 'l';
        break;
    case WORK_GRAPH:
        kind = 't';
        break;
    case WORK_COPY:
        kind = 'c';
        break;
    case WORK_MEMSET:
        kind = 'm';
        break;
    case WORK_HOST:
    case WORK_CALLBACK:
        kind = 'h';
        break;
    default:
        return;
    }
    fprintf(file, "%c %llu %.0f %.0f %.0f ", kind, (unsigned long long)stream_id, op->time.submit,
            op->time.start, op->time.end);
    if (kind == 'l')
        fprintf(file, "%s\n", work_name(&op->work));
    else
        fprintf(file, "%.0f\n", work_bytes(&op->work));
}

void history_finish_locked(void)
{
    if (file && fclose(file) != 0)
        driver_log("the history could not be written: %s", strerror(errno));
    file = NULL;
}
