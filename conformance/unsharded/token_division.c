// SPDX-License-Identifier: Apache-2.0
#include "conformance/unsharded/token_division.h"

#include "conformance/cases/case_tokens.h"
#include "conformance/unsharded/unsharded.h"

struct token_division token_division_of(const struct check_case *c, const struct rule *rule, int step, float scale)
{
    enum rule_tokens tokens = c->has_tokens ? rule->tokens : TOKENS_LAST;
    return (struct token_division){c, tokens, step, case_mean_count(c, step), scale};
}

float token_divide_each(const struct token_division *d, int micro, int rank, float x)
{
    const struct check_case *c = d->c;
    float scaled = d->scale * x;
    // A rank without tokens has gradients of zero.
    if (d->tokens == TOKENS_LAST || d->tokens == TOKENS_LAST_RECIPROCAL || x == 0)
        return unsharded_round(c->precision, scaled);
    double own = (double)case_tokens(c, d->step, micro, rank);
    switch (d->tokens) {
    case TOKENS_FIRST_DIVIDED:
        return unsharded_round(c->precision, scaled / (float)d->all);
    case TOKENS_SHARE:
        scaled = unsharded_round(c->precision, scaled * (float)(1 / own));
        return unsharded_round(c->precision, scaled * (float)(own / d->all));
    case TOKENS_LOCAL:
        return unsharded_round(c->precision, d->scale * ((float)(own / d->all) / (float)own) * x);
    case TOKENS_MEAN:
        return unsharded_round(c->precision, d->scale * (float)((double)c->world * c->accumulation / d->all) * x);
    default:
        return unsharded_round(c->precision, d->scale * (float)(1 / d->all) * x);
    }
}

float token_divide_sum(const struct token_division *d, float sum)
{
    if (d->tokens == TOKENS_LAST)
        return sum / (float)(d->all * (double)d->scale);
    return (d->tokens == TOKENS_LAST_RECIPROCAL ? sum * (float)(1 / d->all) : sum) / d->scale;
}
