// SPDX-License-Identifier: Apache-2.0
// Who owns an element changes no bit: under any map from the elements of a model to ranks, ragged, strided, permuted
// or with ranks that own nothing, Adam on each rank's own elements, clipped by the norm of all ranks' shards, is Adam
// on the whole tensors.
#include "ref/arithmetic/adam.h"
#include "ref/arithmetic/norm.h"
#include "ref/arithmetic/random.h"
#include "ref/optimizer/clip.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

enum { MAPS = 500, ELEMENTS = 600, TENSORS = 6, RANKS = 9, STEPS = 3 };

struct states {
    float param[ELEMENTS], exp_avg[ELEMENTS], exp_avg_sq[ELEMENTS];
};

// The tensors lie end to end; tensor i is of group i % 2. A shard is the list of its elements in the rank's order.
struct map {
    uint64_t key;
    size_t begin[TENSORS + 1];
    int ranks, owner[ELEMENTS];
    size_t counts[RANKS], elements[RANKS][ELEMENTS];
};

static uint64_t draw(const struct map *map, uint64_t what, uint64_t at, uint64_t count)
{
    return random_below(random_at(random_key(map->key, what), at), count);
}

static int owner_of(const struct map *map, size_t element, const size_t ends[RANKS], int kind)
{
    int rank = 0, last = map->ranks - 1;
    switch (kind) {
    case 0:  // ragged: consecutive elements each, of any number
        while (rank < last && element >= ends[rank])
            rank++;
        return rank;
    case 1:  // strided
        return (int)(element % (size_t)map->ranks);
    case 2:  // some ranks own nothing
        return (int)draw(map, 1, element, (uint64_t)map->ranks) / 2 * 2;
    case 3:  // rows of each tensor, whose last ranks stay empty in small ones
        return (int)(element % 64 / 8) % map->ranks;
    default:
        return (int)draw(map, 1, element, (uint64_t)map->ranks);
    }
}

static void open_map(struct map *map, int number)
{
    *map = (struct map){.key = random_key(35, (uint64_t)number)};
    size_t count, ends[RANKS];
    for (uint64_t i = 0; i < TENSORS; i++)
        map->begin[i + 1] = map->begin[i] + draw(map, 2, i, i % 2 ? 4 : ELEMENTS / TENSORS);
    count = map->begin[TENSORS];
    map->ranks = 1 + (int)draw(map, 3, 0, RANKS);
    for (int rank = 0; rank < map->ranks; rank++)
        ends[rank] = (rank ? ends[rank - 1] : 0) + draw(map, 4, (uint64_t)rank, 2 * count / (size_t)map->ranks + 1);
    for (size_t i = 0; i < count; i++) {
        int rank = map->owner[i] = owner_of(map, i, ends, number % 5);
        map->elements[rank][map->counts[rank]++] = i;
    }
    // Every third map keeps its shards in an order of their own.
    for (int rank = 0; number % 3 == 0 && rank < map->ranks; rank++)
        for (size_t i = map->counts[rank]; i > 1; i--) {
            size_t *shard = map->elements[rank], other = draw(map, 5 + (uint64_t)rank, i, i), kept = shard[other];
            shard[other] = shard[i - 1];
            shard[i - 1] = kept;
        }
}

static int tensor_of(const struct map *map, size_t element)
{
    int tensor = 0;
    while (element >= map->begin[tensor + 1])
        tensor++;
    return tensor;
}

// Sums over four ranks; their magnitudes differ by 2^20.
static void make_gradient(const struct map *map, int step, float out[ELEMENTS])
{
    for (size_t i = 0; i < map->begin[TENSORS]; i++) {
        uint64_t bits = random_at(random_key(map->key, 100 + (uint64_t)step), i);
        out[i] = random_normal(bits) * ldexpf(1, -(int)(bits % 20));
    }
}

static float coefficient_of(struct norm_sum sum, uint32_t max_bits)
{
    return clip_coefficient(CLIP_TORCH, norm_finish(sum, max_bits) / 4, 0.1);
}

// One run of elements that follow one another both in their tensor and in `states`, where the first is at `at`.
static void update(const struct map *map, const struct recipe *recipe, const struct adam_scalars scalars[2],
                   float coefficient, const float *gradient, size_t first, size_t at, size_t count,
                   struct states *states)
{
    int tensor = tensor_of(map, first);
    adam_update(&(struct adam_step){
        .recipe = recipe,
        .scalars = scalars[tensor % 2],
        .grad = gradient + at,
        .grad_divisor = 4,
        .grad_coefficient = coefficient,
        .param = states->param + at,
        .exp_avg = states->exp_avg + at,
        .exp_avg_sq = states->exp_avg_sq + at,
        .count = count,
        .tensor_index = first - map->begin[tensor],
        .tensor_count = map->begin[tensor + 1] - map->begin[tensor],
    });
}

static void step_whole(const struct map *map, const struct recipe *recipe, const struct adam_scalars scalars[2],
                       const float *gradient, struct states *states)
{
    struct norm_sum sum = {0};
    uint32_t max_bits = norm_max(DTYPE_FP32, gradient, map->begin[TENSORS]);
    norm_accumulate(&sum, DTYPE_FP32, gradient, map->begin[TENSORS], max_bits);
    for (int i = 0; i < TENSORS; i++)
        if (map->begin[i + 1] > map->begin[i])
            update(map, recipe, scalars, coefficient_of(sum, max_bits), gradient, map->begin[i], map->begin[i],
                   map->begin[i + 1] - map->begin[i], states);
}

static void step_shards(const struct map *map, const struct recipe *recipe, const struct adam_scalars scalars[2],
                        const float *gradient, struct states shards[RANKS])
{
    static float own[RANKS][ELEMENTS];
    struct norm_sum sum = {0};
    uint32_t max_bits = 0;
    for (int rank = 0; rank < map->ranks; rank++) {
        for (size_t i = 0; i < map->counts[rank]; i++)
            own[rank][i] = gradient[map->elements[rank][i]];
        uint32_t bits = norm_max(DTYPE_FP32, own[rank], map->counts[rank]);
        max_bits = bits > max_bits ? bits : max_bits;
    }
    for (int rank = map->ranks - 1; rank >= 0; rank--) {
        struct norm_sum part = {0};
        norm_accumulate(&part, DTYPE_FP32, own[rank], map->counts[rank], max_bits);
        norm_add(&sum, part);
    }
    for (int rank = 0; rank < map->ranks; rank++)
        for (size_t i = 0, end; i < map->counts[rank]; i = end) {
            const size_t *shard = map->elements[rank];
            for (end = i + 1; end < map->counts[rank] && shard[end] == shard[end - 1] + 1 &&
                              tensor_of(map, shard[end]) == tensor_of(map, shard[i]);)
                end++;
            update(map, recipe, scalars, coefficient_of(sum, max_bits), own[rank], shard[i], i, end - i, &shards[rank]);
        }
}

static void check_map(const struct map *map, const struct recipe *recipe)
{
    static const struct adam_hyper hypers[2] = {{1e-2, 0.9, 0.99, 1e-8, 0.1, true, true},
                                                {3e-3, 0.8, 0.95, 1e-6, 0, true, true}};
    static struct states whole, shards[RANKS];
    struct recipe_state states[2] = {{0}};
    static float gradient[ELEMENTS];
    memset(&whole, 0, sizeof whole);
    memset(shards, 0, sizeof shards);
    for (size_t i = 0; i < map->begin[TENSORS]; i++)
        whole.param[i] = random_normal(random_at(map->key, i));
    for (int rank = 0; rank < map->ranks; rank++)
        for (size_t i = 0; i < map->counts[rank]; i++)
            shards[rank].param[i] = whole.param[map->elements[rank][i]];
    for (int step = 1; step <= STEPS; step++) {
        struct adam_scalars scalars[2];
        for (int group = 0; group < 2; group++)
            cr_assert_eq(recipe_begin_step(recipe, &hypers[group], (uint64_t)step, &states[group], &scalars[group]), 0);
        make_gradient(map, step, gradient);
        step_whole(map, recipe, scalars, gradient, &whole);
        step_shards(map, recipe, scalars, gradient, shards);
    }
    for (int rank = 0; rank < map->ranks; rank++)
        for (size_t i = 0; i < map->counts[rank]; i++) {
            size_t at = map->elements[rank][i];
            cr_assert(memcmp(&shards[rank].param[i], &whole.param[at], sizeof(float)) == 0 &&
                          memcmp(&shards[rank].exp_avg[i], &whole.exp_avg[at], sizeof(float)) == 0 &&
                          memcmp(&shards[rank].exp_avg_sq[i], &whole.exp_avg_sq[at], sizeof(float)) == 0,
                      "%s, element %zu, which is at %zu of rank %d", recipe_name(recipe), at, i, rank);
        }
}

Test(owner_map, any_partition_has_the_bits_of_the_whole)
{
    static struct map map;
    int recipes = 0, empty_ranks = 0;
    while (recipe_at(recipes))
        recipes++;
    for (int number = 0; number < MAPS; number++) {
        open_map(&map, number);
        for (int rank = 0; rank < map.ranks; rank++)
            empty_ranks += map.counts[rank] == 0;
        check_map(&map, recipe_at(number % 2 ? number % recipes : 0));
    }
    cr_assert_gt(empty_ranks, MAPS / 5);
}
