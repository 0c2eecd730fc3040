// SPDX-License-Identifier: Apache-2.0
// Reads the counts of tokens of case.json.
#include "conformance/cases/case_mesh.h"
#include "conformance/cases/case_read_internal.h"
#include "conformance/cases/case_tokens.h"

#include "base/err.h"

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
    uint32_t first[CASE_WORLD_MAX];  // of data ranks
    for (int rank = 0; rank < c->world; rank++) {
        const json_t *element = json_array_get(list, (size_t)rank);
        json_int_t count = json_is_integer(element) ? json_integer_value(element) : -1;
        int data_rank = mesh_index_in(&mesh, MESH_DATA, rank);
        if (count < 0 || count > CASE_TOKEN_COUNT_MAX)
            return strict_fail(root, "tokens", "of step %d, micro-step %d, rank %d is not a whole number up to %d",
                               step, micro, rank, CASE_TOKEN_COUNT_MAX);
        if (known[data_rank] && first[data_rank] != (uint32_t)count)
            return strict_fail(root, "tokens",
                               "of step %d, micro-step %d, rank %d differ from those of a rank with the same data",
                               step, micro, rank);
        if (!known[data_rank]) {
            int batch = data_rank / case_sequence_ranks(c);
            uint64_t sum = case_tokens(c, step, micro, batch) + (uint64_t)count;
            if (sum > CASE_TOKEN_COUNT_MAX)
                return strict_fail(root, "tokens",
                                   "of step %d, micro-step %d, rank %d and the ranks that share its "
                                   "micro-batch are more than %d",
                                   step, micro, rank, CASE_TOKEN_COUNT_MAX);
            case_set_tokens(c, step, micro, batch, (uint32_t)sum);
        }
        known[data_rank] = 1;
        first[data_rank] = (uint32_t)count;
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
