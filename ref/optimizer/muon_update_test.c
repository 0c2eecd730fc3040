// SPDX-License-Identifier: Apache-2.0
// Muon's update by the optimizer and by the oracle: two programs for one definition, equal in every bit; and
// orthogonal.
#include "ref/optimizer/muon.h"

#include "base/err.h"
#include "ref/arithmetic/random.h"
#include "ref/oracle/oracle_muon.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { ELEMENTS_MAX = 64 * 64, DIVISOR = 6 };

static struct model_param param;
static struct config config;
static float sums[ELEMENTS_MAX], mean[ELEMENTS_MAX], master[2][ELEMENTS_MAX], momentum[2][ELEMENTS_MAX];

static void begin(size_t rows, size_t columns, const struct muon_hyper *hyper)
{
    param = (struct model_param){.shape = {rows, columns}, .shape_rank = 2, .count = rows * columns, .whole = true};
    config = (struct config){.uses_muon = true, .muon = *hyper};
    for (size_t i = 0; i < param.count; i++) {
        sums[i] = random_normal(random_at(rows * 100 + columns, i)) * 0.01f;
        master[0][i] = master[1][i] = random_normal(random_at(7, i));
        momentum[0][i] = momentum[1][i] = random_normal(random_at(8, i)) * 0.001f;
        mean[i] = sums[i] / (float)DIVISOR * 0.5f;
    }
}

static void update(void)
{
    float *scratch = malloc(muon_update.scratch_floats(&param) * sizeof *scratch);
    const struct whole_step step = {.config = &config,
                                    .param = &param,
                                    .count = param.count,
                                    .step = 1,
                                    .t = 1,
                                    .grad = sums,
                                    .grad_dtype = DTYPE_FP32,
                                    .grad_divisor = DIVISOR,
                                    .grad_coefficient = 0.5f,
                                    .master = master[0],
                                    .momentum = momentum[0]};
    muon_update.direct(&step, scratch);
    muon_update.move(&step, muon_update.transform(&step, scratch));
    free(scratch);
    cr_assert_eq(oracle_muon(&config.muon, param.shape[0], param.shape[1], mean, master[1], momentum[1]), ERR_NONE);
}

Test(muon, the_optimizer_has_the_bits_of_the_oracle)
{
    static const size_t shapes[][2] = {{8, 12}, {12, 8}, {16, 16}, {1, 9}, {9, 1}, {7, 33}, {64, 64}, {1, 1}, {50, 3}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int form = 0; form < 4; form++) {
            const struct muon_hyper hyper = {.lr = 0.02,
                                             .momentum = form < 2 ? 0.95 : 0.3,
                                             .weight_decay = 0.1,
                                             .nesterov = form % 2,
                                             .ns_steps = 5 - form,
                                             .adjust = form % 2 ? MUON_ORIGINAL : MUON_MATCH_RMS_ADAMW};
            begin(shapes[i][0], shapes[i][1], &hyper);
            update();
            size_t bytes = param.count * sizeof(float);
            cr_expect_eq(memcmp(momentum[0], momentum[1], bytes), 0, "%zu x %zu", shapes[i][0], shapes[i][1]);
            cr_expect_eq(memcmp(master[0], master[1], bytes), 0, "%zu x %zu", shapes[i][0], shapes[i][1]);
        }
}

// Newton-Schulz takes every singular value above 0.004 of the norm to between 0.68 and 1.14.
Test(muon, rows_of_an_update_are_orthogonal_and_of_length_one)
{
    enum { ROWS = 6, COLUMNS = 60 };
    const struct muon_hyper hyper = {.lr = 1, .momentum = 0.95, .nesterov = true, .ns_steps = 5};
    begin(ROWS, COLUMNS, &hyper);
    memset(master, 0, sizeof master);
    update();
    for (size_t i = 0; i < ROWS; i++)
        for (size_t j = 0; j < ROWS; j++) {
            double product = 0;
            for (size_t k = 0; k < COLUMNS; k++)
                product += (double)master[0][i * COLUMNS + k] * (double)master[0][j * COLUMNS + k];
            cr_expect(i == j ? product > 0.46 && product < 1.3 : product > -0.35 && product < 0.35, "%zu, %zu: %g", i,
                      j, product);
        }
}

Test(muon, a_gradient_of_zero_moves_by_the_decay_alone)
{
    const struct muon_hyper hyper = {.lr = 0.5, .momentum = 0.95, .weight_decay = 0.5, .nesterov = true, .ns_steps = 5};
    begin(4, 4, &hyper);
    memset(sums, 0, sizeof sums);
    memset(mean, 0, sizeof mean);
    memset(momentum, 0, sizeof momentum);
    float before = master[0][5];
    update();
    cr_expect_eq(master[0][5], before * 0.75f);
    cr_expect_eq(momentum[0][5], 0);
}

Test(muon, the_rate_follows_the_shape)
{
    struct muon_hyper hyper = {.lr = 0.5, .adjust = MUON_ORIGINAL};
    cr_expect_eq(muon_adjusted_lr(&hyper, 16, 4), 1);
    cr_expect_eq(muon_adjusted_lr(&hyper, 4, 16), 0.5);
    hyper.adjust = MUON_MATCH_RMS_ADAMW;
    cr_expect_eq(muon_adjusted_lr(&hyper, 4, 16), 0.5 * (0.2 * 4));
}
