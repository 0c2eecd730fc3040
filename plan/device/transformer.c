// SPDX-License-Identifier: Apache-2.0
#include "plan/device/transformer.h"

size_t transformer_kept_width(const struct transformer *t)
{
    return t->width / (t->sequence_ranks > 0 ? t->sequence_ranks : 1);
}

size_t transformer_kept_values(const struct transformer *t)
{
    // x, norm(x), x2 and norm(x2); queries, keys and values; attention's output; the MLP's hidden values.
    size_t attention = t->query_latent + t->key_latent + t->query_width + t->key_width + t->value_width;
    size_t hidden = t->hidden * t->experts_used + t->shared_hidden;
    return 4 * transformer_kept_width(t) + attention + t->output_width + t->mlp_matrices * hidden;
}
