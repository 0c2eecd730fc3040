// SPDX-License-Identifier: Apache-2.0
// The tensors of a case that is made from a vector, and which steps use them.
#include "conformance/suite/factor_case.h"

#include "conformance/suite/suite_build.h"
#include "ref/arithmetic/random.h"

#include <stdio.h>

enum { PLAIN_COUNT = 6 };

int factor_roll(struct factor_dice *dice, int count)
{
    return (int)random_below(random_at(dice->key, dice->count++), (uint64_t)count);
}

static void shuffle(struct factor_dice *dice, int *list, int count)
{
    for (int i = count; i > 1; i--) {
        int k = factor_roll(dice, i), last = list[i - 1];
        list[i - 1] = list[k];
        list[k] = last;
    }
}

// The ranks' share of an even size is whole in every world; a tiny tensor has fewer elements than there can be ranks.
static void add_plain(struct check_case *c, struct factor_dice *dice, int sizes)
{
    static const size_t even[][2] = {{12, 0}, {4, 6}, {36, 0}, {6, 2}, {48, 0}, {2, 18}};
    static const size_t prime[][2] = {{5, 0}, {7, 3}, {13, 0}, {17, 0}, {29, 0}, {5, 7}, {37, 0}, {11, 0}};
    static const size_t tiny[][2] = {{1, 0}, {2, 0}, {3, 0}, {1, 2}, {3, 1}};
    const size_t *size = sizes == SIZES_EVEN    ? even[factor_roll(dice, sizeof even / sizeof *even)]
                         : sizes == SIZES_PRIME ? prime[factor_roll(dice, sizeof prime / sizeof *prime)]
                                                : tiny[factor_roll(dice, sizeof tiny / sizeof *tiny)];
    suite_tensor(c, size[0], size[1]);
}

static void add_empty(struct check_case *c, struct factor_dice *dice)
{
    int i = suite_tensor(c, 0, factor_roll(dice, 2) ? 5 : 0);
    if (factor_roll(dice, 2)) {
        c->params[i].shape_rank = 3;
        c->params[i].shape[0] = c->params[i].shape[1] = 3;
    }
}

static void add_scalar(struct check_case *c)
{
    c->params[suite_tensor(c, 1, 0)].shape_rank = 0;
}

// Rests for some steps, or in each of them for some micro-steps.
static void rest(struct check_case *c, struct factor_dice *dice, int param, int first, int last, bool by_micro_step)
{
    int every = (1 << c->accumulation) - 1, some = by_micro_step ? 1 + factor_roll(dice, every - 1) : every;
    for (int step = first; step <= last; step++)
        c->params[param].unused_in[step - 1] = (uint16_t)some;
}

// One tensor has its first gradient behind a checkpoint. Another rests later on, across the checkpoint or right behind
// it, or in between an overflow; so does the last use of one that is tied.
static void set_varying(struct check_case *c, struct factor_dice *dice, const struct factor_vector *v,
                        const int plain[])
{
    bool by_micro_step = v->values[FACTOR_VARYING] == VARYING_MICRO_STEPS;
    if (v->values[FACTOR_VARYING] == VARYING_NO)
        return;
    int first = FACTOR_CHECKPOINT_STEP + factor_roll(dice, 3);
    rest(c, dice, plain[3], first, first + 1, by_micro_step);
    rest(c, dice, plain[4], 1, FACTOR_CHECKPOINT_STEP, false);
    if (v->values[FACTOR_TIED])
        rest(c, dice, c->param_count - 1, first, first + 1, by_micro_step);
}

static void name_tensors(struct check_case *c, struct factor_dice *dice)
{
    static const char *const words[] = {"embedding", "attention.query", "mlp", "norm", "head", "h.out-proj", "bias"};
    for (int i = 0; i < c->param_count; i++)
        snprintf(c->params[i].name, sizeof c->params[i].name, "%s.%d",
                 words[factor_roll(dice, sizeof words / sizeof *words)], i);
}

// The owner of the tied use, the frozen, the unused one and those of varying use are different tensors; a plain one
// ends the model, so that no other is always the last.
void factor_tensors(struct check_case *c, struct factor_dice *dice, const struct factor_vector *v)
{
    enum { EMPTY = PLAIN_COUNT, SCALAR };
    int order[PLAIN_COUNT + 2], plain[PLAIN_COUNT], count = PLAIN_COUNT, plain_count = 0;
    for (int i = 0; i < PLAIN_COUNT; i++)
        order[i] = i;
    if (v->values[FACTOR_EMPTY])
        order[count++] = EMPTY;
    if (v->values[FACTOR_SCALAR])
        order[count++] = SCALAR;
    shuffle(dice, order, count);
    for (int i = 0; i < count; i++) {
        if (order[i] == EMPTY)
            add_empty(c, dice);
        else if (order[i] == SCALAR)
            add_scalar(c);
        else
            plain[plain_count++] = (add_plain(c, dice, v->values[FACTOR_SIZES]), c->param_count - 1);
    }
    shuffle(dice, plain, plain_count);
    c->params[plain[1]].frozen = v->values[FACTOR_FROZEN];
    c->params[plain[2]].used = !v->values[FACTOR_UNUSED];
    c->group_count = v->values[FACTOR_GROUPS] ? 3 : 1;
    for (int i = 0; i < c->param_count; i++)
        c->params[i].group = i % c->group_count;
    if (v->values[FACTOR_TIED])
        suite_tie(c, plain[0]);
    set_varying(c, dice, v, plain);
    add_plain(c, dice, v->values[FACTOR_SIZES]);
    name_tensors(c, dice);
}
