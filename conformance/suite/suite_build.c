// SPDX-License-Identifier: Apache-2.0
// Building blocks of the tables of cases.
#include "conformance/suite/suite_build.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { REACH_MAX = 1000, SPREAD_MAX = 1 << 16, SMALL_MEAN = 4 };

void suite_begin(struct check_case *c, int world, int stage, enum dtype precision, uint64_t seed)
{
    *c = (struct check_case){.world = world,
                             .stage = stage,
                             .precision = precision,
                             .steps = 4,
                             .accumulation = 1,
                             .communication_dtype = precision,
                             .accumulation_dtype = precision,
                             .group_count = 1,
                             .reduce_bucket = 200,
                             .allgather_bucket = 200,
                             .prefetch_bucket = 100,
                             .sub_group = 1000000,
                             .contiguous_gradients = true,
                             .reduce_scatter = true,
                             .exact = true};
    for (int i = 0; i < CASE_GROUP_MAX; i++) {
        c->groups[i] = (struct case_group){
            .decoupled = true, .beta1 = 0.9, .beta2 = 0.999, .eps = 1e-8, .weight_decay = 0.1, .bias_correction = true};
        for (int k = 0; k < CASE_STEP_MAX; k++)
            c->groups[i].lr[k] = 0.01;
    }
    if (precision == DTYPE_FP16) {
        c->loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 128};
        c->overflow_check = true;
    }
    bool half = precision == DTYPE_FP16;
    c->data = (struct case_data){
        .seed = seed, .exponent_low = half ? -16 : -12, .exponent_high = half ? -8 : -4, .init_exponent = 1};
}

int suite_odd_part(int value)
{
    while (value % 2 == 0)
        value /= 2;
    return value;
}

static int significant_bits(enum dtype dtype)
{
    return dtype == DTYPE_FP32 ? 24 : dtype == DTYPE_BF16 ? 8 : 11;
}

static int smaller(int a, int b)
{
    return a < b ? a : b;
}

// The largest number of uses of one parameter.
static int use_count(const struct check_case *c)
{
    int most = 1;
    for (int i = 0; i < c->param_count; i++) {
        int uses = 1;
        for (int k = 0; k < c->param_count; k++)
            uses += c->params[k].tied_to == i;
        most = uses > most ? uses : most;
    }
    return most;
}

void suite_fit(struct check_case *c, int world)
{
    struct case_data *data = &c->data;
    int bits = smaller(significant_bits(c->precision),
                       smaller(significant_bits(c->communication_dtype), significant_bits(c->accumulation_dtype)));
    int uses = use_count(c);
    // In fp32, 21 times the rounded reciprocal of 7 is not 3; powers of two times 7 give the exact quotient.
    data->paired = data->family == FAMILY_EXACT && world % 7 == 0;
    data->unit = data->unit ? data->unit : suite_odd_part(world) * suite_odd_part(c->accumulation);
    int room = (1 << bits) / (data->unit * world * c->accumulation * uses);
    if (data->reach == 0)
        data->reach = data->same_mean ? SMALL_MEAN : smaller(room, REACH_MAX);
    if (data->same_mean && data->spread == 0)
        data->spread = smaller((room - uses * data->reach) / 2, SPREAD_MAX);
}

int suite_tensor(struct check_case *c, size_t rows, size_t columns)
{
    struct case_param *param = &c->params[c->param_count];
    *param = (struct case_param){.shape = {rows, columns}, .shape_rank = columns ? 2 : 1, .used = true, .tied_to = -1};
    param->count = columns ? rows * columns : rows;
    snprintf(param->name, sizeof param->name, "t%d", c->param_count);
    return c->param_count++;
}

void suite_tensors(struct check_case *c, const char *shapes)
{
    for (char *end; *shapes; shapes = end + (*end == ',')) {
        size_t rows = strtoul(shapes, &end, 10);
        suite_tensor(c, rows, *end == 'x' ? strtoul(end + 1, &end, 10) : 0);
    }
}

void suite_empty_third(struct check_case *c, int param)
{
    c->params[param].shape_rank = 3;
    c->params[param].shape[2] = c->params[param].count = 0;
}

void suite_model(struct check_case *c)
{
    suite_tensors(c, "7x5,13,4x8,1,33,6x11");
}

void suite_fours(struct check_case *c, struct suite_item *item)
{
    suite_tensors(c, "8x12,52,4x8,4,120,6x16");
    c->data.same_mean = c->data.square_norm = true;
    c->data.reach = 5;
    c->data.exponent_low = c->data.exponent_high = item->precision == DTYPE_FP16;
}

void suite_trap(struct check_case *c, int micro_steps)
{
    c->accumulation = micro_steps;
    c->accumulation_dtype = c->communication_dtype = DTYPE_FP32;
    c->data.lead = 8;
    c->data.reach = 7;
    c->data.exponent_low = -12;
    c->data.exponent_high = -8;
}

int suite_tie(struct check_case *c, int owner)
{
    int index = c->param_count++;
    c->params[index] = c->params[owner];
    c->params[index].tied_to = owner;
    snprintf(c->params[index].name, sizeof c->params[index].name, "t%d", index);
    return index;
}

void suite_place_stages(struct check_case *c)
{
    for (int i = 0; i < c->param_count; i++)
        c->params[i].placement.pipeline = i * c->mesh.pipeline / c->param_count;
}

void suite_lr(struct check_case *c, int group, const double *lr, int count)
{
    c->groups[group].lr_by_step = true;
    for (int i = 0; i < CASE_STEP_MAX; i++)
        c->groups[group].lr[i] = lr[i < count ? i : count - 1];
}

void suite_split_decay(struct check_case *c)
{
    c->group_count = 2;
    c->groups[1].weight_decay = 0;
    for (int i = 0; i < c->param_count; i++)
        c->params[i].group = c->params[i].shape_rank < 2;
}

void suite_groups(struct check_case *c, int count)
{
    c->group_count = count;
    for (int i = 0; i < c->param_count; i++)
        c->params[i].group = case_owner(c, i) % count;
}

void suite_differ(struct check_case *c, const char *respect)
{
    static const double rates[] = {0.01, 0.04, 0.005, 0.02, 0.001, 0.03};
    bool all = strcmp(respect, "all") == 0;
    suite_groups(c, 3);
    if (all || strcmp(respect, "mode") == 0)
        c->groups[1].decoupled = false;
    if (all || strcmp(respect, "correction") == 0)
        c->groups[1].bias_correction = false;
    if (all || strcmp(respect, "schedule") == 0)
        suite_lr(c, 1, rates, sizeof rates / sizeof *rates);
    if (all || strcmp(respect, "decay") == 0)
        c->groups[2].weight_decay = 0;
}

void suite_mixed(struct check_case *c, struct suite_item *item)
{
    suite_model(c);
    suite_differ(c, item->variant);
    item->own_data = true;
}

void suite_poke(struct check_case *c, int step, int micro, int rank, int param, size_t element, float value)
{
    c->data.pokes[c->data.poke_count++] = (struct case_poke){step, micro, rank, param, element, value};
}

void suite_dynamic(struct check_case *c, double scale, uint64_t window, uint64_t hysteresis, double min_scale)
{
    c->loss_scale = (struct case_loss_scale){SCALE_DYNAMIC, scale, window, hysteresis, min_scale};
    c->overflow_check = true;
}

void suite_check_overflow(struct check_case *c)
{
    c->overflow_check = true;
    if (c->precision == DTYPE_FP16)
        suite_dynamic(c, 0x1p10, 1000, 1, 1);
}

int suite_number(const struct suite_item *item, const char *letters, int fallback)
{
    size_t length = strlen(letters);
    bool matches = strncmp(item->variant, letters, length) == 0 && isdigit((unsigned char)item->variant[length]);
    return matches ? atoi(item->variant + length) : fallback;
}
