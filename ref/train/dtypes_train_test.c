// SPDX-License-Identifier: Apache-2.0
// Dtypes of the model, of communication and of accumulation: a configuration either trains, in the bits of unsharded
// Adam, or is refused before anything runs, with the key to change.
#include "ref/train/offload_test.h"

// True if both formats are of 16 bits, and differ.
static bool clash(enum dtype a, enum dtype b)
{
    return a != b && a != DTYPE_FP32 && b != DTYPE_FP32;
}

static bool must_be_refused(const struct offload_trial *t)
{
    if (t->stage == 0 && t->sum != t->precision && t->sum != DTYPE_FP32)
        return true;
    if (clash(t->communication, t->sum))
        return true;
    return clash(t->precision, t->stage < 2 ? t->sum : t->communication);
}

Test(dtypes_train, every_three_dtypes_train_or_are_refused_by_their_key)
{
    static const enum dtype dtypes[] = {DTYPE_FP32, DTYPE_FP16, DTYPE_BF16};
    for (int i = 0; i < 4 * 27; i++) {
        const struct offload_trial t =
            OFFLOAD_TRIAL(.stage = i / 27, .precision = dtypes[i / 9 % 3], .communication = dtypes[i / 3 % 3],
                          .sum = dtypes[i % 3], .steps = 2, .accumulation = 2, .schedule = {EXECUTOR_SERIAL, 0});
        struct config config;
        if (!must_be_refused(&t)) {
            offload_demand(&t);
            continue;
        }
        cr_assert_eq(offload_config(&t, &config), ERR_USAGE, "%s", offload_name(&t));
        cr_assert(strstr(err_message(), "communication_data_type") || strstr(err_message(), "grad_accum_dtype"),
                  "%s: %s", err_message(), offload_name(&t));
        cr_assert(strstr(err_message(), "expected \""), "%s: %s", err_message(), offload_name(&t));
    }
}
