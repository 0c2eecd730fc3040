// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/io.h"

#include "base/err.h"

#include <assert.h>
#include <string.h>

const struct io_engine *io_engine_of(enum nvme_engine engine)
{
    static const struct io_engine *const engines[NVME_ENGINE_COUNT] = {
        [NVME_LIBAIO] = &io_engine_libaio, [NVME_IO_URING] = &io_engine_uring};
    assert((unsigned)engine < NVME_ENGINE_COUNT);
    return engines[engine];
}

int io_engine_parse(const char *name, enum nvme_engine *out)
{
    for (int engine = 0; engine < NVME_ENGINE_COUNT; engine++)
        if (strcmp(name, io_engine_of((enum nvme_engine)engine)->name) == 0) {
            *out = (enum nvme_engine)engine;
            return ERR_NONE;
        }
    return err_set(ERR_USAGE, "unknown I/O engine '%s': expected libaio or io_uring", name);
}

int io_queue_open(const struct io_engine *engine, int depth, struct io_queue **out)
{
    assert(depth > 0 && depth <= IO_DEPTH_MAX);
    return engine->open(depth, out);
}

void io_queue_close(struct io_queue *queue)
{
    if (queue)
        queue->engine->close(queue);
}
