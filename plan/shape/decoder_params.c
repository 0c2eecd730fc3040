// SPDX-License-Identifier: Apache-2.0
#include "plan/shape/decoder_internal.h"

#include <stdio.h>

void decoder_use(struct decoder *decoder, int layer, int param)
{
    struct model_layer *of = &decoder->layers[layer];
    decoder->lists[decoder->listed] = param;
    if (of->param_count++ == 0)
        of->params = &decoder->lists[decoder->listed];
    decoder->listed++;
}

void decoder_add(struct decoder *decoder, int layer, const char *name, size_t rows, size_t columns,
                 struct decoder_role role)
{
    int index = decoder->model.param_count;
    char full_name[MODEL_NAME_BYTES];
    if (columns == 0)
        return;
    snprintf(full_name, sizeof full_name, "%s.%s", decoder->names[layer], name);
    model_param_set(&decoder->params[index], full_name, rows, columns, layer);
    decoder->params[index].frozen = decoder->shape.lora_rank > 0;
    decoder->params[index].expert = role.expert > 0;
    decoder->roles[index] = role;
    decoder_use(decoder, layer, index);
    decoder->model.param_count++;
}

// A matrix whose rows are cut has an adapter B whose rows are, and one whose columns are has such an A.
static void add_adapter(struct decoder *decoder, int layer, const char *name, size_t rows, size_t columns,
                        struct decoder_role role)
{
    const struct decoder_role roles[] = {{role.cut == DECODER_CUT_COLUMNS ? role.cut : DECODER_WHOLE, role.expert},
                                         {role.cut == DECODER_CUT_ROWS ? role.cut : DECODER_WHOLE, role.expert}};
    size_t rank = decoder->shape.lora_rank;
    for (int i = 0; i < 2; i++) {
        char factor[64];
        snprintf(factor, sizeof factor, "%s.lora_%c", name, i == 0 ? 'A' : 'B');
        decoder_add(decoder, layer, factor, i == 0 ? rank : rows, i == 0 ? columns : rank, roles[i]);
        decoder->params[decoder->model.param_count - 1].frozen = false;
    }
}

void decoder_add_matrix(struct decoder *decoder, int layer, const char *name, size_t rows, size_t columns,
                        struct decoder_role role)
{
    struct decoder_work *work = &decoder->work[layer];
    if (rows == 0 || columns == 0)
        return;
    decoder_add(decoder, layer, name, rows, columns, role);
    if (role.expert <= decoder->shape.experts_used)
        *(role.cut == DECODER_WHOLE ? &work->whole_elements : &work->cut_elements) += (double)rows * (double)columns;
    if (decoder->shape.lora_rank > 0)
        add_adapter(decoder, layer, name, rows, columns, role);
}
