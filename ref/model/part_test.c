// SPDX-License-Identifier: Apache-2.0
#include "ref/model/part.h"

#include "base/err.h"
#include "ref/model/gpt.h"
#include "ref/model/names/model_find.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

// A plan of cuts for any model: matrices lose columns or rows over tensor, all else is whole in every part; layers are
// divided over pipeline.
static int place(const struct model *whole, const struct model_place *p, int *first_layer, int *layer_count)
{
    *layer_count = whole->layer_count / p->pipeline_parts;
    *first_layer = p->pipeline * *layer_count;
    return ERR_NONE;
}

static int slice(const struct model *whole, const struct model_place *p, struct model_slice *s, struct model_param *out)
{
    size_t rows = out->shape[0], columns = out->shape[1], parts = (size_t)p->tensor_parts, part = (size_t)p->tensor;
    (void)whole;
    if (out->shape_rank != 2) {
        s->counted = p->tensor == 0;
        return ERR_NONE;
    }
    bool by_column = s->param % 2 == 0;
    out->shape[by_column] /= parts;
    *s = by_column ? (struct model_slice){s->param, part * columns / parts, rows, columns / parts, columns, true}
                   : (struct model_slice){s->param, part * rows * columns / parts, 1, rows * columns / parts, 0, true};
    return ERR_NONE;
}

// gpt-nano with these cuts. Its layers 0 and 3 are the embedding and the head, which share the token embedding.
struct cut_model {
    struct model model;
    struct model_operations operations;
};
static struct cut_model cut_model(void)
{
    const struct model *gpt;
    cr_assert_eq(model_find("gpt-nano", &gpt), ERR_NONE);
    struct cut_model cut = {*gpt, *gpt->operations};
    cut.operations.place = place;
    cut.operations.slice = slice;
    return cut;
}

// Every part begins with its elements of the whole model, and together the parts that count them have each once.
static void expect_all_elements(const struct model *whole, int tensor_parts, int pipeline_parts)
{
    uint64_t counted = 0;
    unsigned char *seen[whole->param_count];
    for (int i = 0; i < whole->param_count; i++)
        seen[i] = calloc(whole->params[i].count + 1, 1);
    for (int at = 0; at < tensor_parts * pipeline_parts; at++) {
        const struct model_place p = {at % tensor_parts, tensor_parts, at / tensor_parts, pipeline_parts, 0, 1};
        struct model_part *part;
        cr_assert_eq(model_part_open(whole, &p, &part), ERR_NONE, "%s", err_message());
        cr_assert_eq(part->model.part, part);
        for (int i = 0; i < part->model.param_count; i++) {
            const struct model_slice *s = &part->slices[i];
            const struct model_param *param = &part->model.params[i];
            size_t whole_count = whole->params[s->param].count;
            float *own = malloc((param->count + 1) * sizeof *own), *all = malloc((whole_count + 1) * sizeof *all);
            cr_expect_eq(param->count, model_slice_count(s));
            cr_expect_eq(param->duplicate, !s->counted);
            cr_expect(param->shape_rank != 2 || param->shape[0] * param->shape[1] == param->count);
            model_initialise(&part->model, i, 7, own);
            model_initialise(whole, s->param, 7, all);
            for (size_t k = 0; k < param->count; k++) {
                cr_assert_eq(own[k], all[model_slice_index(s, k)], "%s, element %zu", param->name, k);
                seen[s->param][model_slice_index(s, k)] = 1;
            }
            counted += s->counted ? param->count : 0;
            memset(all, 0, whole_count * sizeof *all);
            model_slice_put(s, own, sizeof *own, all);
            memset(own, 0xff, param->count * sizeof *own);
            model_slice_take(s, all, sizeof *own, own);
            for (size_t k = 0; k < param->count; k++)
                cr_assert_eq(own[k], all[model_slice_index(s, k)], "%s, element %zu", param->name, k);
            free(own);
            free(all);
        }
        model_part_close(part);
    }
    for (int i = 0; i < whole->param_count; i++) {
        for (size_t k = 0; k < whole->params[i].count; k++)
            cr_assert(seen[i][k], "no part has %s, element %zu", whole->params[i].name, k);
        free(seen[i]);
    }
    if (pipeline_parts == 1)
        cr_expect_eq(counted, model_param_elements(whole, false));
}

Test(part, parts_together_are_the_whole_model)
{
    const struct cut_model cut = cut_model();
    static const int degrees[][2] = {{1, 1}, {2, 1}, {4, 1}, {1, 2}, {1, 4}, {2, 2}, {4, 2}};
    struct model whole = cut.model;
    whole.operations = &cut.operations;
    for (size_t i = 0; i < sizeof degrees / sizeof degrees[0]; i++)
        expect_all_elements(&whole, degrees[i][0], degrees[i][1]);
}

Test(part, layers_of_a_part_use_its_parameters)
{
    const struct cut_model cut = cut_model();
    struct model whole = cut.model;
    whole.operations = &cut.operations;
    const struct model_place p = {0, 1, 1, 2, 0, 1};
    struct model_part *part;
    cr_assert_eq(model_part_open(&whole, &p, &part), ERR_NONE, "%s", err_message());
    // The second block and the head: 12 parameters, the last layer norm and the tied embedding, which is first.
    cr_expect_eq(part->first_layer, 2);
    cr_expect_eq(part->model.layer_count, 2);
    cr_expect_eq(part->model.param_count, 15);
    cr_expect_str_eq(part->model.params[0].name, "wte.weight");
    cr_expect_eq(part->model.params[0].layer_count, 1);
    cr_expect_eq(part->model.params[0].first_layer, 1);
    cr_expect_str_eq(part->model.params[1].name, "h.1.ln_1.weight");
    for (int layer = 0; layer < 2; layer++) {
        cr_expect_str_eq(part->model.layers[layer].name, whole.layers[2 + layer].name);
        for (int i = 0; i < whole.layers[2 + layer].param_count; i++)
            cr_expect_str_eq(part->model.params[part->model.layers[layer].params[i]].name,
                             whole.params[whole.layers[2 + layer].params[i]].name);
    }
    model_part_close(part);
}

Test(part, a_model_without_cuts_is_refused)
{
    const struct model *linear;
    const struct model_place p = {0, 2, 0, 1, 0, 1};
    struct model_part *part;
    cr_assert_eq(model_find("linear", &linear), ERR_NONE);
    cr_assert_eq(model_part_open(linear, &p, &part), ERR_USAGE);
    cr_expect_null(part);
}
