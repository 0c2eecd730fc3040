// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/executor_versions.h"

#include "base/array.h"
#include "base/err.h"
#include "ref/executor/reach.h"

#include <stdio.h>
#include <stdlib.h>

// An operation reads this range, and expects it as that writer left it.
struct expectation {
    uintptr_t begin, end;
    long writer;  // the operation's number; REACH_NO_EVENT: none has written it
};

struct numbered {
    const char *name;
    int bucket;
    struct expectation *expected;
    size_t count;
};

struct executor_versions {
    int rank;
    struct reach promised, present;  // by the operations that are issued, and by those that have run
    struct numbered *operations;
    size_t count, capacity;
};

int executor_versions_open(int rank, struct executor_versions **out)
{
    *out = calloc(1, sizeof **out);
    if (!*out)
        return err_set(ERR_MEMORY, "executor: no memory for its bookkeeping");
    (*out)->rank = rank;
    return ERR_NONE;
}

void executor_versions_close(struct executor_versions *v)
{
    if (!v)
        return;
    for (size_t i = 0; i < v->count; i++)
        free(v->operations[i].expected);
    free(v->operations);
    reach_close(&v->promised);
    reach_close(&v->present);
    free(v);
}

static bool in_span(const struct reach_range *range, const struct executor_span *span)
{
    return range && range->begin < (uintptr_t)span->address + span->bytes;
}

static int set_writer(struct reach *reach, const struct executor_span *span, long writer)
{
    struct reach_range *range;
    TRY(reach_cover(reach, span, &range));
    for (; in_span(range, span); range = range->next[0])
        range->writer = writer;
    return ERR_NONE;
}

static int expect(struct executor_versions *v, const struct executor_span *span, struct numbered *operation)
{
    struct reach_range *range;
    TRY(reach_cover(&v->promised, span, &range));
    for (; in_span(range, span); range = range->next[0]) {
        struct expectation *expected = realloc(operation->expected, (operation->count + 1) * sizeof *expected);
        if (!expected)
            return err_set(ERR_MEMORY, "executor: no memory for versions");
        operation->expected = expected;
        expected[operation->count++] = (struct expectation){range->begin, range->end, range->writer};
    }
    return ERR_NONE;
}

int executor_versions_expect(struct executor_versions *v, struct operation *operation)
{
    TRY(array_grow(&v->operations, &v->capacity, v->count, sizeof *v->operations, "operations and their versions"));
    operation->number = (long)v->count;
    struct numbered *numbered = &v->operations[v->count++];
    *numbered = (struct numbered){.name = operation->name, .bucket = operation->bucket};
    for (size_t i = 0; i < operation->span_count; i++)
        if (operation->spans[i].access & EXECUTOR_READ)
            TRY(expect(v, &operation->spans[i], numbered));
    for (size_t i = 0; i < operation->span_count; i++)
        if (operation->spans[i].access & EXECUTOR_WRITE)
            TRY(set_writer(&v->promised, &operation->spans[i], operation->number));
    return ERR_NONE;
}

enum { VERSION_TEXT_BYTES = 160 };

static const char *version_text(const struct executor_versions *v, long writer, char out[VERSION_TEXT_BYTES])
{
    if (writer == REACH_NO_EVENT)
        return "what was there before";
    const struct numbered *by = &v->operations[writer];
    char bucket[32] = "";
    if (by->bucket >= 0)
        snprintf(bucket, sizeof bucket, " of bucket %d", by->bucket);
    snprintf(out, VERSION_TEXT_BYTES, "the version of \"%.80s\"%s (operation %ld)", by->name, bucket, writer);
    return out;
}

static int meet(struct executor_versions *v, const struct operation *operation, const struct expectation *expected)
{
    char wanted[VERSION_TEXT_BYTES], found[VERSION_TEXT_BYTES];
    const struct executor_span span = {(const void *)expected->begin, expected->end - expected->begin, EXECUTOR_READ};
    struct reach_range *range;
    TRY(reach_cover(&v->present, &span, &range));
    for (; in_span(range, &span); range = range->next[0])
        if (range->writer != expected->writer)
            return err_set(ERR_INTERNAL, "rank %d: operation \"%s\" (%ld) expects %s at 0x%zx, and finds %s", v->rank,
                           operation->name, operation->number, version_text(v, expected->writer, wanted),
                           (size_t)range->begin, version_text(v, range->writer, found));
    return ERR_NONE;
}

int executor_versions_meet(struct executor_versions *v, const struct operation *operation)
{
    struct numbered *numbered = &v->operations[operation->number];
    for (size_t i = 0; i < numbered->count; i++)
        TRY(meet(v, operation, &numbered->expected[i]));
    free(numbered->expected);
    numbered->expected = NULL;
    numbered->count = 0;
    for (size_t i = 0; i < operation->span_count; i++)
        if (operation->spans[i].access & EXECUTOR_WRITE)
            TRY(set_writer(&v->present, &operation->spans[i], operation->number));
    return ERR_NONE;
}
