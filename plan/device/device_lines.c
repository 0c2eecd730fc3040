// SPDX-License-Identifier: Apache-2.0
#include "plan/device/device_lines.h"

#include <assert.h>

// A block of 64 values in 4 bits has a scale of 8 bits, and 256 of those one of 32.
#define NF4_BITS (4 + 8.0 / 64 + 32.0 / (64 * 256))

uint64_t *device_add(const struct counting *c, const char *name, unsigned moments, const char *formula,
                     const char *source)
{
    assert(c->m->line_count < DEVICE_LINE_MAX);
    struct device_line *line = &c->m->lines[c->m->line_count++];
    *line = (struct device_line){.name = name, .formula = formula, .source = source, .moments = moments};
    return line->bytes;
}

double device_parameter_bytes(const struct counting *c, const struct model_param *p)
{
    bool in_block = p->first_layer > 0 && p->first_layer < c->s->model->layer_count - 1;
    bool is_quantized = c->s->choice->weights == WEIGHTS_NF4 && p->frozen && p->shape_rank > 1 && in_block;
    return (double)p->count * (is_quantized ? NF4_BITS / 8 : (double)c->element_bytes);
}
