// SPDX-License-Identifier: Apache-2.0
#include "conformance/cases/case_tokens.h"

#include "conformance/cases/case_mesh.h"

#include <assert.h>

static size_t place_of(const struct check_case *c, int step, int micro, int batch)
{
    size_t slot = (size_t)(step - 1) * (size_t)c->accumulation + (size_t)micro;
    return slot * (size_t)case_batches(c) + (size_t)batch;
}

bool case_has_room_for_tokens(const struct check_case *c)
{
    return place_of(c, c->steps + 1, 0, 0) <= CASE_TOKENS_MAX;
}

uint32_t case_tokens(const struct check_case *c, int step, int micro, int batch)
{
    assert(c->has_tokens && step >= 1 && step <= c->steps);
    return micro < case_micro_steps(c, step) ? c->tokens[place_of(c, step, micro, batch)] : 0;
}

uint32_t case_rank_tokens(const struct check_case *c, int step, int micro, int rank)
{
    struct mesh mesh = case_mesh(c);
    uint32_t ranks = (uint32_t)case_sequence_ranks(c);
    uint32_t count = case_tokens(c, step, micro, mesh_index_in(&mesh, MESH_DATA, rank) / (int)ranks);
    uint32_t last = count / (2 * ranks);
    return case_sequence_rank(c, rank) > 0 ? last : count - (ranks - 1) * last;
}

void case_set_tokens(struct check_case *c, int step, int micro, int batch, uint32_t count)
{
    assert(c->has_tokens && case_has_room_for_tokens(c));
    c->tokens[place_of(c, step, micro, batch)] = count;
}

uint64_t case_all_tokens(const struct check_case *c, int step)
{
    uint64_t sum = 0;
    for (int micro = 0; micro < case_micro_steps(c, step); micro++)
        for (int batch = 0; batch < case_batches(c); batch++)
            sum += case_tokens(c, step, micro, batch);
    return sum;
}

double case_mean_count(const struct check_case *c, int step)
{
    if (!c->has_tokens)
        return (double)case_batches(c) * c->accumulation;
    uint64_t all = case_all_tokens(c, step);
    return all > 0 ? (double)all : 1;
}
