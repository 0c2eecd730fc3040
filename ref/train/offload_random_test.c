// SPDX-License-Identifier: Apache-2.0
// A seeded sample of the whole space of configurations with states on tiers. A failure prints the whole configuration.
#include "ref/train/offload_random_test.h"

static void sample(uint64_t from, uint64_t count)
{
    for (uint64_t number = from; number < from + count; number++) {
        struct draw d = {random_key(20, number), 0};
        struct offload_trial t = draw_trial(&d);
        offload_demand(&t);
    }
}

Test(offload_random, a_sample_of_all_settings_is_unsharded_adam_concurrent)
{
    sample(0, 16);
}
Test(offload_random, another_sample_is_unsharded_adam)
{
    sample(100, 20);
}
Test(offload_random, a_third_sample_is_unsharded_adam)
{
    sample(200, 15);
}
Test(offload_random, a_large_sample_long, .timeout = 580)
{
    sample(1000, 1500);
}
