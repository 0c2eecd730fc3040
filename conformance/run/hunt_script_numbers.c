// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/hunt_internal.h"

#include <stdlib.h>
#include <string.h>

void script_real(FILE *out, double value)
{
    char text[CASE_REAL_BYTES];
    case_real(value, text);
    fprintf(out, "%s%s", text, strpbrk(text, ".en") ? "" : ".0");
}

static void put_list(FILE *out, const float *values, size_t count)
{
    fputc('[', out);
    for (size_t i = 0; i < count; i++) {
        fputs(i ? ", " : "", out);
        script_real(out, (double)values[i]);
    }
    fputc(']', out);
}

void script_initial(FILE *out, const struct hunt_case *h)
{
    const struct check_case *c = h->parts[0];
    fputs("INIT = {", out);
    for (int i = 0; i < c->param_count; i++) {
        fprintf(out, "%s\"%s\": ", i ? ", " : "", c->params[i].name);
        put_list(out, case_initial(h->values[0], i), c->params[i].count);
    }
    fputs("}\n", out);
}

static void put_rank(FILE *out, const struct hunt_case *h, int step, int micro, int rank)
{
    const struct check_case *c = h->parts[0];
    bool any = false;
    fputs(rank ? ", {" : "{", out);
    for (int i = 0; i < c->param_count; i++) {
        const float *gradient = case_gradient(h->values[0], step, micro, rank, i);
        if (!gradient)
            continue;
        fprintf(out, "%s\"%s\": ", any ? ", " : "", c->params[i].name);
        put_list(out, gradient, c->params[i].count);
        any = true;
    }
    fputc('}', out);
}

void script_gradients(FILE *out, const struct hunt_case *h)
{
    const struct check_case *c = h->parts[0];
    fputs("GRADS = [", out);
    for (int step = 1; step <= c->steps; step++) {
        fputs(step > 1 ? ", [" : "[", out);
        for (int micro = 0; micro < c->accumulation; micro++) {
            fputs(micro ? ", [" : "[", out);
            for (int rank = 0; rank < c->world; rank++)
                put_rank(out, h, step, micro, rank);
            fputc(']', out);
        }
        fputc(']', out);
    }
    fputs("]  # by step, micro-step, rank\n", out);
}

void script_groups(FILE *out, const struct check_case *c)
{
    fputs("GROUPS = [", out);
    for (int g = 0; g < c->group_count; g++) {
        const struct case_group *group = &c->groups[g];
        bool any = false;
        fprintf(out, "%s{\"params\": [", g ? ", " : "");
        for (int i = 0; i < c->param_count; i++) {
            if (c->params[i].group != g || c->params[i].frozen)
                continue;
            fprintf(out, "%s\"%s\"", any ? ", " : "", c->params[i].name);
            any = true;
        }
        const double numbers[] = {group->lr[0], group->beta1, group->beta2, group->eps, group->weight_decay};
        const char *const keys[] = {"], \"lr\": ", ", \"betas\": (", ", ", "), \"eps\": ", ", \"weight_decay\": "};
        for (int i = 0; i < 5; i++) {
            fputs(keys[i], out);
            script_real(out, numbers[i]);
        }
        fputc('}', out);
    }
    fputs("]\nLR = [", out);
    for (int step = 0; step < c->steps; step++) {
        fputs(step ? ", [" : "[", out);
        for (int g = 0; g < c->group_count; g++) {
            fputs(g ? ", " : "", out);
            script_real(out, c->groups[g].lr[step]);
        }
        fputc(']', out);
    }
    fputs("]  # by step, group\n", out);
}
