// SPDX-License-Identifier: Apache-2.0
// What the positions of wrong elements say.
#include "conformance/judge/diagnose_internal.h"

// The most elements that a vector loop or a block may leave at a tensor's end.
enum { TAIL_COUNT = 16 };

// The wrong elements of one tensor, and the runs that they form.
struct positions {
    size_t count, wrong, first, last, run_count, longest_run;
};

static struct positions positions_of(const struct row *row, int param)
{
    struct positions p = {.count = row->begin[param + 1] - row->begin[param]};
    size_t run = 0;
    for (size_t i = 0; i < p.count; i++) {
        run = row->wrong[row->begin[param] + i] ? run + 1 : 0;
        p.run_count += run == 1;
        p.longest_run = run > p.longest_run ? run : p.longest_run;
        if (run == 0)
            continue;
        p.first = p.wrong++ == 0 ? i : p.first;
        p.last = i;
    }
    return p;
}

// True if only a tensor's end, or the ends of its shards, are wrong.
static bool is_tail(const struct positions *p, size_t world)
{
    return p->first + TAIL_COUNT >= p->count ||
           (p->last + 1 == p->count && p->longest_run < TAIL_COUNT && p->run_count <= world);
}

enum hint diagnose_places(const struct row *row)
{
    size_t whole = 0, cut = 0;
    bool tails = true, dense = true;
    for (int param = 0; param < row->trial->c->param_count; param++) {
        struct positions p = positions_of(row, param);
        if (p.wrong == 0)
            continue;
        bool is_whole = p.wrong * 10 >= p.count * 9;
        whole += is_whole;
        cut += !is_whole;
        tails &= is_tail(&p, (size_t)row->trial->c->world);
        dense &= p.wrong * 10 >= (p.last - p.first + 1) * 9;
    }
    if (row->wrong_count * 10 >= row->count * 9)
        return HINT_NONE;
    if (tails && cut > 0)
        return HINT_TAIL;
    if (cut == 0)
        return HINT_BUCKET;
    // Of the shards of two ranks or more one is at most about a half.
    return dense && cut <= whole + 2 && row->wrong_count * 3 <= row->count * 2 ? HINT_SHARD : HINT_NONE;
}
