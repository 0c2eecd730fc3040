// SPDX-License-Identifier: Apache-2.0
#include "ref/ledger/ledger.h"
#include "ref/model/gpt_test.h"

#include <limits.h>

static const char *const names[] = {"gpt-nano", "gpt-tiny",     "gpt-3m",          "gpt-10m",   "gpt2-124m",
                                    "linear",   "linear-exact", "linear-overflow", "linear-few"};
enum { NAME_COUNT = sizeof names / sizeof *names };

Test(model, counts_follow_from_the_shapes)
{
    cr_assert_eq(model_param_elements(find("gpt2-124m"), false), 124439808);
    cr_assert_eq(model_param_elements(find("gpt-10m"), false), 10844160);
    cr_assert_eq(model_param_elements(find("gpt-3m"), false), 3257856);
    cr_assert_eq(model_param_elements(find("gpt-tiny"), true), 220544);
    cr_assert_eq(model_param_elements(find("gpt-nano"), true), 10944);
    cr_assert_eq(model_param_elements(find("linear"), false), 7370);
    cr_assert_eq(model_param_elements(find("linear"), true), 7370 - 64);
    cr_assert_eq(model_param_elements(find("linear-few"), true), 3);
}

Test(model, a_gpt_has_the_parameter_names_of_its_checkpoints)
{
    const struct model *model = find("gpt2-124m");
    const struct {
        int index;
        const char *name;
        size_t rows, columns;
    } expected[] = {{0, "wte.weight", 50257, 768},
                    {1, "wpe.weight", 1024, 768},
                    {2, "h.0.ln_1.weight", 768, 0},
                    {4, "h.0.attn.c_attn.weight", 768, 2304},
                    {136, "h.11.attn.c_attn.weight", 768, 2304},
                    {145, "h.11.mlp.c_proj.bias", 768, 0},
                    {144, "h.11.mlp.c_proj.weight", 3072, 768},
                    {147, "ln_f.bias", 768, 0}};
    cr_assert_eq(model->param_count, 148);
    for (size_t i = 0; i < sizeof expected / sizeof *expected; i++) {
        const struct model_param *param = &model->params[expected[i].index];
        cr_assert_str_eq(param->name, expected[i].name);
        cr_assert(param->shape[0] == expected[i].rows && param->shape[1] == expected[i].columns, "%s", param->name);
    }
    cr_assert_str_eq(model->layers[0].name, "embedding");
    cr_assert_str_eq(model->layers[12].name, "h.11");
    cr_assert_str_eq(model->layers[13].name, "head");
}

Test(model, parameters_and_layers_agree)
{
    for (int n = 0; n < NAME_COUNT; n++) {
        const struct model *model = find(names[n]);
        int first[model->param_count], uses[model->param_count];
        memset(uses, 0, sizeof uses);
        for (int layer = model->layer_count - 1; layer >= 0; layer--) {
            for (int i = 0; i < model->layers[layer].param_count; i++) {
                first[model->layers[layer].params[i]] = layer;
                uses[model->layers[layer].params[i]]++;
            }
        }
        for (int i = 0; i < model->param_count; i++) {
            const struct model_param *param = &model->params[i];
            size_t count = 1;
            for (int d = 0; d < param->shape_rank; d++)
                count *= param->shape[d];
            cr_assert_eq(param->count, count, "%s %s", model->name, param->name);
            cr_assert_eq(param->layer_count, uses[i], "%s %s", model->name, param->name);
            cr_assert_eq(param->first_layer, first[i], "%s %s", model->name, param->name);
            cr_assert(param->group >= 0 && param->group < model->group_count);
            for (int other = 0; other < i; other++)
                cr_assert_str_neq(param->name, model->params[other].name);
        }
    }
}

Test(model, the_linear_model_has_every_awkward_parameter)
{
    const struct model *model = find("linear");
    int tied = 0, frozen = 0, unused = 0, empty = 0, scalar = 0, groups[2] = {0};
    for (int i = 0; i < model->param_count; i++) {
        const struct model_param *param = &model->params[i];
        tied += param->layer_count == 2;
        frozen += param->frozen;
        unused += !param->used;
        empty += param->count == 0;
        scalar += param->shape_rank == 0;
        groups[param->group]++;
    }
    cr_assert(tied && frozen && unused && empty && scalar && groups[0] && groups[1]);
    cr_assert(model->group_count == 2 && model->layer_count >= 4);
}

Test(model, an_unknown_name_is_answered_with_the_known_ones)
{
    const struct model *model;
    cr_assert_eq(model_find("gpt-huge", &model), ERR_USAGE);
    for (int n = 0; n < NAME_COUNT; n++)
        cr_assert(strstr(err_message(), names[n]), "%s is not in: %s", names[n], err_message());
}

Test(model, initial_values_depend_only_on_seed_and_index)
{
    const struct model *model = find("gpt-tiny");
    size_t count = model->params[4].count;
    float a[count], b[count], c[count], d[count];
    model_initialise(model, 4, 1, a);
    model_initialise(model, 4, 2, b);
    model_initialise(model, 16, 1, c);  // the same matrix of the next block
    model_initialise(model, 4, 1, d);
    cr_assert(memcmp(a, d, sizeof a) == 0);
    cr_assert(memcmp(a, b, sizeof a) != 0);
    cr_assert(memcmp(a, c, sizeof a) != 0);
}

Test(model, a_gpt_begins_as_gpt2_does)
{
    const struct model *model = find("gpt-tiny");
    for (int i = 0; i < model->param_count; i++) {
        const struct model_param *param = &model->params[i];
        float *value = malloc(param->count * sizeof *value);
        model_initialise(model, i, 1, value);
        double sum = 0, square = 0, count = (double)param->count;
        for (size_t j = 0; j < param->count; j++) {
            sum += (double)value[j];
            square += (double)value[j] * (double)value[j];
        }
        double deviation = sqrt(square / count - sum / count * (sum / count)), expected = 0.02;
        if (strstr(param->name, "c_proj"))
            expected /= sqrt(8);
        if (param->shape_rank == 2) {
            cr_assert(fabs(sum / count) < 4 * expected / sqrt(count), "%s: mean %g", param->name, sum / count);
            cr_assert(fabs(deviation / expected - 1) < 0.05, "%s: deviation %g", param->name, deviation);
        } else {
            double constant = strstr(param->name, "ln_") && strstr(param->name, "weight") ? 1 : 0;
            cr_assert(sum == constant * count && deviation == 0, "%s", param->name);
        }
        free(value);
    }
}

Test(model, gpt2_has_six_flops_per_matrix_element_and_token_plus_attention)
{
    const struct model *model = find("gpt2-124m");
    double matrices = 12.0 * 12 * 768 * 768 + 50257.0 * 768, tokens = 2 * 1024;
    double expected = tokens * (6 * matrices + 3 * 12 * 4 * 1024.0 * 768);
    cr_assert(fabs(model_flops(model, 2) / expected - 1) < 1e-12);
}

Test(model, a_run_allocates_its_stated_bytes_on_the_tier)
{
    static struct ledger ledger;
    for (int n = 0; n < NAME_COUNT; n++) {
        if (strcmp(names[n], "gpt2-124m") == 0)
            continue;
        for (enum dtype dtype = DTYPE_FP32; dtype <= DTYPE_FP16; dtype++) {
            const struct model *model = find(names[n]);
            struct tier *tier;
            struct model_run *run;
            size_t bytes = model_run_bytes(model, 2, dtype, false);
            cr_assert_eq(tier_open(&ledger, &(struct tier_setting){.device_bytes = bytes}, &tier), ERR_NONE);
            cr_assert(model_run_open(model, 2, dtype, false, tier, &run) == ERR_NONE, "%s", err_message());
            cr_assert_eq(ledger.held_bytes[TIER_DEVICE][KIND_ACTIVATION], bytes);
            cr_assert_eq(ledger.tier_bytes[TIER_DEVICE], bytes);
            cr_assert(model_run_memory(run) != NULL);
            model_run_close(run);
            cr_assert_eq(ledger.tier_bytes[TIER_DEVICE], 0);
            tier_close(tier);
            cr_assert_eq(tier_open(&ledger, &(struct tier_setting){.device_bytes = bytes - 1}, &tier), ERR_NONE);
            cr_assert_eq(model_run_open(model, 2, dtype, false, tier, &run), ERR_BUDGET);
            tier_close(tier);
        }
    }
}

Test(model, an_empty_micro_batch_and_one_larger_than_a_matrix_are_refused)
{
    struct model_run *run;
    const struct model *model = find("gpt-nano");
    cr_assert_eq(model_run_open(model, 0, DTYPE_FP32, false, NULL, &run), ERR_USAGE);
    cr_assert_eq(model_run_open(model, INT_MAX / model->sequence_length + 1, DTYPE_FP32, false, NULL, &run), ERR_USAGE);
    cr_expect(strstr(err_message(), "sequences of gpt-nano has more than 2147483647 tokens"), "%s", err_message());
}
