// SPDX-License-Identifier: Apache-2.0
#include "plan/device/transformer.h"

size_t transformer_kept_values(const struct transformer *t)
{
    // x, norm(x), x2 and norm(x2); queries, keys and values; attention's output; the MLP's hidden values.
    return 4 * t->width + 2 * t->query_width + 2 * t->key_width + t->mlp_matrices * t->hidden * t->experts_used;
}
