// SPDX-License-Identifier: Apache-2.0
// Cases that the reference refuses or declines.
#include "conformance/reference/reference_test.h"

// The reference refuses invalid cases before any step, and declines valid ones that it does not support.
Test(reference, what_makes_no_sense_is_refused)
{
    struct check_case cases[6], plain = case_of("", 2, 2);
    set_precision(&plain, DTYPE_FP16);
    plain.expects_refusal = true;
    for (int i = 0; i < 6; i++) {
        cases[i] = plain;
        snprintf(cases[i].name, sizeof cases[i].name, "refused-%d", i);
    }
    cases[0].gradient_clipping = -1;
    cases[1].loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = -2};
    cases[2].loss_scale = (struct case_loss_scale){.kind = SCALE_STATIC, .scale = 0};
    cases[3].loss_scale = (struct case_loss_scale){SCALE_DYNAMIC, 1024, 0, 2, 1};
    cases[4].groups[1].beta2 = 1;
    cases[5].groups[0].beta1 = -0.5;
    static const char *const keys[] = {"gradient_clipping", "loss scale", "loss scale",
                                       "loss_scale_window", "betas",      "betas"};
    for (int i = 0; i < 6; i++) {
        struct answer a;
        struct case_values *values;
        cr_assert_eq(case_values_open(&cases[i], &values), ERR_NONE, "%s", err_message());
        answer(&cases[i], values, &a);
        cr_assert_eq(a.kind, ANSWER_REFUSED, "%s: %s", cases[i].name, a.text);
        cr_assert(strstr(a.text, keys[i]), "%s: %s", cases[i].name, a.text);
        answer_close(&a);
        case_values_close(values);
    }
}

Test(reference, what_it_has_not_is_declined)
{
    struct check_case cases[4], plain = case_of("", 2, 2);
    set_precision(&plain, DTYPE_FP16);
    for (int i = 0; i < 4; i++) {
        cases[i] = plain;
        snprintf(cases[i].name, sizeof cases[i].name, "declined-%d", i);
    }
    cases[0].loss_scale = (struct case_loss_scale){SCALE_DYNAMIC, 1000, 2, 2, 1};
    cases[1].offload_optimizer = TIER_NVME;
    cases[2].delayed_update = 1;
    cases[3].groups[0].bias_correction = false;
    options.recipe = "torch-cpu";
    static const char *const words[] = {"power of 2", "stage 3", "delayed_update", "bias"};
    for (int i = 0; i < 4; i++) {
        struct answer a;
        struct case_values *values;
        cr_assert_eq(case_values_open(&cases[i], &values), ERR_NONE, "%s", err_message());
        answer(&cases[i], values, &a);
        cr_assert_eq(a.kind, ANSWER_UNSUPPORTED, "%s: %s", cases[i].name, a.text);
        cr_assert(strstr(a.text, words[i]), "%s: %s", cases[i].name, a.text);
        answer_close(&a);
        case_values_close(values);
    }
}
