// SPDX-License-Identifier: Apache-2.0
// The settings of a row, by name.
#include "conformance/suite/suite_build.h"

#include <assert.h>
#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_MAX = 8, NORM_OF_FOURS = 60 };

#define AT(member) offsetof(struct check_case, member)

static const struct setting {
    const char *name;
    enum { FLAG, WHOLE, SIZE, REAL, LR, EXPONENTS, BUCKETS, SCALE, DYNAMIC, POKE, CLIP, ZERO_STEPS, TIED, FROZEN } kind;
    size_t offset;  // of one number's place
} settings[] = {
    {"steps", WHOLE, AT(steps)},
    {"accumulation", WHOLE, AT(accumulation)},
    {"checkpoint_step", WHOLE, AT(checkpoint_step)},
    {"delayed_update", WHOLE, AT(delayed_update)},
    {"gradient_clipping", REAL, AT(gradient_clipping)},
    {"overflow_check", FLAG, AT(overflow_check)},
    {"expects_refusal", FLAG, AT(expects_refusal)},
    {"gathers_e4m3", FLAG, AT(gathers_e4m3)},
    {"prefetch_bucket", SIZE, AT(prefetch_bucket)},
    {"allgather_bucket", SIZE, AT(allgather_bucket)},
    {"sub_group", SIZE, AT(sub_group)},
    {"reach", WHOLE, AT(data.reach)},
    {"spread", WHOLE, AT(data.spread)},
    {"init_exponent", WHOLE, AT(data.init_exponent)},
    {"same_mean", FLAG, AT(data.same_mean)},
    {"steps_alike", FLAG, AT(data.steps_alike)},
    {"decoupled", FLAG, AT(groups[0].decoupled)},
    {"bias_correction", FLAG, AT(groups[0].bias_correction)},
    {"nesterov", FLAG, AT(groups[0].nesterov)},
    {"matches_adamw", FLAG, AT(groups[0].matches_adamw)},
    {"beta1", REAL, AT(groups[0].beta1)},
    {"beta2", REAL, AT(groups[0].beta2)},
    {"eps", REAL, AT(groups[0].eps)},
    {"weight_decay", REAL, AT(groups[0].weight_decay)},
    {"lr", LR, 0},
    {"exponents", EXPONENTS, 0},
    {"buckets", BUCKETS, 0},
    {"scale", SCALE, 0},
    {"dynamic", DYNAMIC, 0},
    {"poke", POKE, 0},
    {"clip", CLIP, 0},
    {"zero_steps", ZERO_STEPS, 0},
    {"tied", TIED, 0},
    {"frozen", FROZEN, 0},
};

static void set_one(struct check_case *c, const struct setting *setting, double value)
{
    void *place = (char *)c + setting->offset;
    if (setting->kind == FLAG)
        *(bool *)place = value != 0;
    else if (setting->kind == WHOLE)
        *(int *)place = (int)value;
    else if (setting->kind == SIZE)
        *(size_t *)place = (size_t)value;
    else
        *(double *)place = value;
}

static void set_list(struct check_case *c, const struct setting *setting, const double v[], int count)
{
    switch (setting->kind) {
    case LR:
        suite_lr(c, 0, v, count);
        c->groups[0].lr_by_step = count > 1;
        break;
    case EXPONENTS:
        c->data.exponent_low = (int)v[0];
        c->data.exponent_high = (int)v[count - 1];
        break;
    case BUCKETS:
        c->reduce_bucket = c->allgather_bucket = c->prefetch_bucket = (size_t)v[0];
        break;
    case SCALE:
        c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = v[0]};
        break;
    case DYNAMIC:
        suite_dynamic(c, v[0], (uint64_t)v[1], (uint64_t)v[2], v[3]);
        break;
    case POKE:
        suite_poke(c, (int)v[0], (int)v[1], v[2] < 0 ? c->world - 1 : (int)v[2], (int)v[3], (size_t)v[4], (float)v[5]);
        break;
    case CLIP:
        c->gradient_clipping =
            ldexp(NORM_OF_FOURS * suite_odd_part(c->world) * suite_odd_part(c->accumulation), c->data.exponent_high) /
            v[0];
        break;
    default:
        for (int i = 0; i < count; i++)
            if (setting->kind == ZERO_STEPS)
                c->data.zero_steps |= (uint64_t)1 << ((int)v[i] - 1);
            else if (setting->kind == TIED)
                suite_tie(c, (int)v[i]);
            else
                c->params[(int)v[i]].frozen = true;
    }
}

static void set_numbers(struct check_case *c, const char *name, const char *value)
{
    double numbers[NUMBER_MAX];
    int count = 0;
    for (char *end; *value && count < NUMBER_MAX; value = end + (*end == ','))
        numbers[count++] = strtod(value, &end);
    const struct setting *setting = settings, *end = settings + sizeof settings / sizeof *settings;
    while (setting < end && strcmp(setting->name, name) != 0)
        setting++;
    assert(setting < end && count > 0);
    if (setting->kind <= REAL)
        set_one(c, setting, numbers[0]);
    else
        set_list(c, setting, numbers, count);
}

void suite_set(struct check_case *c, const char *text)
{
    char copy[256], *rest = NULL;
    assert(strlen(text) < sizeof copy);
    snprintf(copy, sizeof copy, "%s", text);
    for (char *name = strtok_r(copy, " ", &rest); name; name = strtok_r(NULL, " ", &rest)) {
        char *value = strchr(name, '=');
        if (value)
            *value++ = '\0';
        if (strcmp(name, "tensors") == 0)
            c->param_count = 0;
        if (strcmp(name, "tensors") == 0 || strcmp(name, "more_tensors") == 0)
            suite_tensors(c, value);
        else if (strcmp(name, "checked") == 0)
            suite_check_overflow(c);
        else if (strcmp(name, "split_decay") == 0)
            suite_split_decay(c);
        else if (strcmp(name, "trap") == 0)
            suite_trap(c, 2);
        else if (strcmp(name, "differ") == 0)
            suite_differ(c, value);
        else
            set_numbers(c, name, value ? value : "1");
    }
}
