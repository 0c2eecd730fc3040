// SPDX-License-Identifier: Apache-2.0
#include "ref/stage/access_trace.h"

#include "base/array.h"
#include "base/err.h"

#include <assert.h>
#include <stdlib.h>

void access_trace_close(struct access_trace *trace)
{
    free(trace->buckets);
    *trace = (struct access_trace){0};
}

int access_trace_ask(struct access_trace *trace, int bucket)
{
    assert(bucket >= 0 && trace->at <= trace->count);
    size_t position = trace->at++;
    if (trace->complete && position < trace->count && trace->buckets[position] == bucket)
        return ERR_NONE;
    if (trace->complete) {
        trace->complete = false;
        trace->count = position;
        trace->changes++;
    }
    TRY(array_grow(&trace->buckets, &trace->capacity, position, sizeof *trace->buckets, "layers in their order"));
    trace->buckets[position] = bucket;
    trace->count = position + 1;
    return ERR_NONE;
}

void access_trace_restart(struct access_trace *trace)
{
    // A step that asks for fewer buckets than the recorded one leaves the order, too.
    if (trace->complete && trace->at < trace->count)
        trace->changes++;
    trace->count = trace->at;
    trace->at = 0;
    trace->complete = true;
}

int access_trace_at(const struct access_trace *trace, size_t position)
{
    return trace->complete && position < trace->count ? trace->buckets[position] : -1;
}
