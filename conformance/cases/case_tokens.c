// SPDX-License-Identifier: Apache-2.0
#include "conformance/cases/case_tokens.h"

#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_read_internal.h"

#include "base/err.h"

#include <assert.h>

static size_t place_of(const struct check_case *c, int step, int micro, int data_rank)
{
    size_t slot = (size_t)(step - 1) * (size_t)c->accumulation + (size_t)micro;
    return slot * (size_t)case_data_ranks(c) + (size_t)data_rank;
}

bool case_has_room_for_tokens(const struct check_case *c)
{
    return place_of(c, c->steps + 1, 0, 0) <= CASE_TOKENS_MAX;
}

int case_micro_steps(const struct check_case *c, int step)
{
    int given = c->micro_steps[step - 1];
    return c->has_tokens && given > 0 ? given : c->accumulation;
}

uint32_t case_tokens(const struct check_case *c, int step, int micro, int data_rank)
{
    assert(c->has_tokens && step >= 1 && step <= c->steps);
    return micro < case_micro_steps(c, step) ? c->tokens[place_of(c, step, micro, data_rank)] : 0;
}

void case_set_tokens(struct check_case *c, int step, int micro, int data_rank, uint32_t count)
{
    assert(c->has_tokens && case_has_room_for_tokens(c));
    c->tokens[place_of(c, step, micro, data_rank)] = count;
}

uint64_t case_all_tokens(const struct check_case *c, int step)
{
    uint64_t sum = 0;
    int ranks = case_data_ranks(c);
    for (int micro = 0; micro < case_micro_steps(c, step); micro++)
        for (int rank = 0; rank < ranks; rank++)
            sum += case_tokens(c, step, micro, rank);
    return sum;
}

double case_mean_count(const struct check_case *c, int step)
{
    if (!c->has_tokens)
        return (double)case_data_ranks(c) * c->accumulation;
    uint64_t all = case_all_tokens(c, step);
    return all > 0 ? (double)all : 1;
}

bool case_has_step_without_tokens(const struct check_case *c)
{
    for (int step = 1; step <= c->steps && c->has_tokens; step++)
        if (case_all_tokens(c, step) == 0)
            return true;
    return false;
}

// --- case.json ---

void case_put_tokens(FILE *out, const struct check_case *c)
{
    struct mesh mesh = case_mesh(c);
    const char *separator = "";
    if (!c->has_tokens)
        return;
    fputs(" \"tokens\": [", out);
    for (int step = 1; step <= c->steps; step++) {
        fprintf(out, "%s\n  [", step > 1 ? "," : "");
        for (int micro = 0; micro < case_micro_steps(c, step); micro++) {
            fputs(micro > 0 ? ", [" : "[", out);
            separator = "";
            for (int rank = 0; rank < c->world; rank++, separator = ", ")
                fprintf(out, "%s%u", separator, case_tokens(c, step, micro, mesh_index_in(&mesh, MESH_DATA, rank)));
            fputc(']', out);
        }
        fputc(']', out);
    }
    fputs("\n ],\n", out);
}

// A list of `low` to `high` elements in another; null: it is none.
static const json_t *list_in(const json_t *array, size_t index, int low, int high)
{
    const json_t *list = json_array_get(array, index);
    size_t count = json_array_size(list);
    return count >= (size_t)low && count <= (size_t)high ? list : NULL;
}

static int read_ranks(const struct strict_object *root, const json_t *list, int step, int micro, struct check_case *c)
{
    struct mesh mesh = case_mesh(c);
    char known[CASE_WORLD_MAX] = {0};
    for (int rank = 0; rank < c->world; rank++) {
        const json_t *element = json_array_get(list, (size_t)rank);
        json_int_t count = json_is_integer(element) ? json_integer_value(element) : -1;
        int data_rank = mesh_index_in(&mesh, MESH_DATA, rank);
        if (count < 0 || count > CASE_TOKEN_COUNT_MAX)
            return strict_fail(root, "tokens", "of step %d, micro-step %d, rank %d is not a whole number up to %d",
                               step, micro, rank, CASE_TOKEN_COUNT_MAX);
        if (known[data_rank] && case_tokens(c, step, micro, data_rank) != (uint32_t)count)
            return strict_fail(root, "tokens",
                               "of step %d, micro-step %d, rank %d differ from those of a rank with the same data",
                               step, micro, rank);
        known[data_rank] = 1;
        case_set_tokens(c, step, micro, data_rank, (uint32_t)count);
    }
    return ERR_NONE;
}

int case_read_tokens(const struct strict_object *root, struct check_case *c)
{
    const json_t *steps;
    size_t count;
    if (!case_has_key(root, "tokens"))
        return ERR_NONE;
    TRY(strict_array(root, "tokens", (size_t)c->steps, (size_t)c->steps, &steps, &count));
    c->has_tokens = true;
    if (!case_has_room_for_tokens(c))
        return strict_fail(root, "tokens", "has more than %d counts", CASE_TOKENS_MAX);
    for (int step = 1; step <= c->steps; step++) {
        const json_t *micros = list_in(steps, (size_t)step - 1, 1, c->accumulation);
        if (!micros)
            return strict_fail(root, "tokens", "of step %d is no list of 1 to %d micro-steps", step, c->accumulation);
        c->micro_steps[step - 1] = (unsigned char)json_array_size(micros);
        for (int micro = 0; micro < case_micro_steps(c, step); micro++) {
            const json_t *ranks = list_in(micros, (size_t)micro, c->world, c->world);
            if (!ranks)
                return strict_fail(root, "tokens", "of step %d, micro-step %d is no list of %d ranks' counts", step,
                                   micro, c->world);
            TRY(read_ranks(root, ranks, step, micro, c));
        }
    }
    return ERR_NONE;
}
