// SPDX-License-Identifier: Apache-2.0
#include "conformance/unsharded/muon.h"

#include "base/err.h"

#include <criterion/criterion.h>
#include <math.h>

static double polynomial(double s)
{
    return 3.4445 * s - 4.7750 * s * s * s + 2.0315 * s * s * s * s * s;
}

// Of a diagonal matrix the diagonal is what Newton-Schulz changes, each element by the polynomial.
Test(muon, newton_schulz_is_the_polynomial_of_singular_values)
{
    const double wide[2 * 3] = {3, 0, 0, 0, 0, 4}, tall[3 * 2] = {3, 0, 0, 0, 0, 4};
    double expected[2] = {3.0 / 5, 4.0 / 5}, out[6];
    for (int i = 0; i < 5; i++)
        for (int k = 0; k < 2; k++)
            expected[k] = polynomial(expected[k]);
    cr_assert_eq(muon_orthogonalise(wide, 2, 3, 5, out), ERR_NONE);
    cr_expect(fabs(out[0] - expected[0]) < 1e-12 && fabs(out[5] - expected[1]) < 1e-12, "%g %g", out[0], out[5]);
    cr_expect(out[1] == 0 && out[2] == 0 && out[3] == 0 && out[4] == 0);
    cr_assert_eq(muon_orthogonalise(tall, 3, 2, 5, out), ERR_NONE);
    cr_expect(fabs(out[0] - expected[0]) < 1e-12 && fabs(out[5] - expected[1]) < 1e-12, "%g %g", out[0], out[5]);
}

Test(muon, singular_values_of_known_matrices)
{
    // Rotations on both sides of diag(5, 2): the second has 1, 1 and 1, -1 as its directions.
    const double matrices[][6] = {{5, 0, 0, 0, 2, 0}, {3.5, 1.5, 0, 1.5, 3.5, 0}, {0, 0, 2, 5, 0, 0}};
    struct muon_range range;
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(muon_singular_values(matrices[i], 2, 3, &range), ERR_NONE);
        cr_expect(fabs(range.least - 2) < 1e-9 && fabs(range.most - 5) < 1e-9, "%d: %g %g", i, range.least, range.most);
    }
}

Test(muon, forms_of_the_momentum)
{
    static const float expected[] = {0.75f, 0.75f, 0.75f, 0.75f, 1.5f, 1.5f};
    for (int form = 0; form < MOMENTUM_COUNT; form++)
        cr_expect_eq(muon_momentum_of((enum muon_momentum)form, 0.5, 1, 0.5f) + (form < 4 ? 0 : 0.5f), expected[form],
                     "%s", muon_momentum_text((enum muon_momentum)form));
    // A weight of at least a half begins at the gradient.
    float third = 1.0f / 3, ninth = 1.0f / 9;
    cr_expect_eq(muon_momentum_of(MOMENTUM_INTERPOLATED, 0.25, third, ninth), fmaf(-0.25f, ninth - third, ninth));
    cr_expect_eq(muon_momentum_of(MOMENTUM_INTERPOLATED, 0.75, third, ninth), fmaf(0.25f, ninth - third, third));
}

Test(muon, rates)
{
    struct case_group group = {.muon = true};
    cr_expect_eq(muon_rate(&group, 16, 4), 2);
    cr_expect_eq(muon_rate(&group, 4, 16), 1);
    group.matches_adamw = true;
    cr_expect_eq(muon_rate(&group, 4, 16), 0.2 * 4);
}
