// SPDX-License-Identifier: Apache-2.0
// Building blocks of the tables of cases.
#include "conformance/suite/suite_build.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int suite_tensor(struct check_case *c, size_t rows, size_t columns)
{
    struct case_param *param = &c->params[c->param_count];
    *param = (struct case_param){.shape = {rows, columns}, .shape_rank = columns ? 2 : 1, .used = true, .tied_to = -1};
    param->count = columns ? rows * columns : rows;
    snprintf(param->name, sizeof param->name, "t%d", c->param_count);
    return c->param_count++;
}

void suite_model(struct check_case *c)
{
    static const size_t shapes[][2] = {{7, 5}, {13, 0}, {4, 8}, {1, 0}, {33, 0}, {6, 11}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        suite_tensor(c, shapes[i][0], shapes[i][1]);
}

int suite_tie(struct check_case *c, int owner)
{
    int index = c->param_count++;
    c->params[index] = c->params[owner];
    c->params[index].tied_to = owner;
    snprintf(c->params[index].name, sizeof c->params[index].name, "t%d", index);
    return index;
}

void suite_lr(struct check_case *c, int group, const double *lr, int count)
{
    c->groups[group].lr_by_step = true;
    for (int i = 0; i < CASE_STEP_MAX; i++)
        c->groups[group].lr[i] = lr[i < count ? i : count - 1];
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

int suite_number(const struct suite_item *item, const char *letters, int fallback)
{
    size_t length = strlen(letters);
    bool matches = strncmp(item->variant, letters, length) == 0 && isdigit((unsigned char)item->variant[length]);
    return matches ? atoi(item->variant + length) : fallback;
}
