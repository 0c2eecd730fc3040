// SPDX-License-Identifier: Apache-2.0
#include "plan/device/device_time.h"

#include <criterion/criterion.h>

#include <math.h>

// Two blocks of width 4 with an MLP of 16, sequences of 8 tokens, a vocabulary of 32.
static const struct transformer small = {.blocks = 2,
                                         .width = 4,
                                         .query_width = 4,
                                         .key_width = 4,
                                         .value_width = 4,
                                         .output_width = 4,
                                         .attended_length = 8,
                                         .vocabulary = 32,
                                         .sequence_length = 8,
                                         .hidden = 16,
                                         .mlp_matrices = 2,
                                         .experts = 1,
                                         .experts_used = 1};

static struct device_time time_of(const struct transformer *t, const struct device_rates *rates)
{
    struct device_time time;
    device_time_of(t, rates, 3, 2, &time);
    return time;
}

Test(device_time, products_take_two_operations_for_each_element_and_row)
{
    const struct device_rates rates = {1, INFINITY, INFINITY, 0, 0, 0};
    const double rows = 24, block = 2 * rows * (4 * 12 + 4 * 4 + 4 * 16 + 16 * 4), head = 2 * rows * 4 * 32;
    struct device_time time = time_of(&small, &rates);
    cr_expect_eq(time.forward_s, 2 * block + head);
    cr_expect_eq(time.backward_s, 2 * time.forward_s);
    cr_expect_eq(time.recomputed_s, 2 * block);
}

Test(device_time, attention_computes_the_causal_half_and_five_products_backward)
{
    const struct device_rates rates = {INFINITY, 1, INFINITY, 0, 0, 0};
    struct device_time time = time_of(&small, &rates);
    cr_expect_eq(time.forward_s, 2 * 2 * 24 * 8 * 4);
    cr_expect_eq(time.backward_s, 2.5 * time.forward_s);
}

// Queries from 2 latent channels, keys and values from 3, and an MLP of 8 in addition to the experts.
Test(device_time, latent_attention_and_shared_experts_have_their_own_products)
{
    const struct device_rates rates = {1, INFINITY, INFINITY, 0, 0, 0};
    struct transformer latent = small;
    latent.query_latent = 2;
    latent.key_latent = 3;
    latent.shared_hidden = 8;
    const double attention = 4 * (2 + 3) + 2 * 4 + 3 * (4 + 4) + 4 * 4, mlps = 2 * 4 * 16 + 2 * 4 * 8;
    cr_expect_eq(time_of(&latent, &rates).forward_s, 2 * 2 * 24 * (attention + mlps) + 2 * 24 * 4 * 32);
    latent.query_latent = 0;
    cr_expect_eq(time_of(&latent, &rates).forward_s, 2 * 2 * 24 * (attention - 8 - 8 + 16 + mlps) + 2 * 24 * 4 * 32);
    cr_expect_eq(transformer_kept_values(&latent), 4 * 4 + 3 + 3 * 4 + 4 + 2 * (16 + 8));
}

Test(device_time, memory_is_read_and_written_by_products_and_between_them)
{
    const struct device_rates rates = {INFINITY, INFINITY, 1, 0, 0, 0};
    const double rows = 24;
    double products = rows * (16 + 8 + 20 + 20) + 48 + 16 + 64 + 64, passes = rows * (16 + 24 + 32);
    double head = rows * 36 + 128, logits = rows * 32 * 28;
    struct device_time time = time_of(&small, &rates);
    cr_expect_eq(time.forward_s, 2 * 2 * (products + passes) + 2 * head + logits / 2);
}

Test(device_time, experts_read_all_matrices_and_compute_with_those_used)
{
    struct transformer experts = small;
    experts.experts = 8;
    experts.experts_used = 2;
    const struct device_rates compute = {1, INFINITY, INFINITY, 0, 0, 0}, memory = {INFINITY, INFINITY, 1, 0, 0, 0};
    double more_flops = 2 * 24 * (4 * 16 + 16 * 4 + 4 * 8);
    cr_expect_eq(time_of(&experts, &compute).recomputed_s - time_of(&small, &compute).recomputed_s, 2 * more_flops);
    // Tokens are put in order four times, each time read and written.
    double more_bytes = 2 * (24 * (20 + 20) + 7 * (64 + 64) + 24 * 12 + 32 + 24 * 32 + 4 * 24 * 2 * 2 * 4);
    cr_expect_eq(time_of(&experts, &memory).recomputed_s - time_of(&small, &memory).recomputed_s, 2 * more_bytes);
}

Test(device_time, every_layer_takes_its_fixed_time)
{
    const struct device_rates rates = {INFINITY, INFINITY, INFINITY, 3, 0, 0};
    struct device_time time = time_of(&small, &rates);
    cr_expect_eq(time.forward_s, 6);
    cr_expect_eq(time.backward_s, 12);
}

// 24 tokens with 4 + 4 channels of keys and values in 2 bytes pass 3 other ranks. Attention takes 1536 s, a quarter of
// it next to each step of the ring: of 768 s at a rate of 0.5, with 10 s of latency.
Test(device_time, a_ring_takes_what_attention_does_not_hide)
{
    const struct device_rates rates = {INFINITY, 1, INFINITY, 0, 0.5, 10}, fast = {INFINITY, 1, INFINITY, 0, 4, 10};
    struct transformer divided = small;
    divided.context_ranks = 4;
    struct device_time alone = time_of(&small, &rates), ring = time_of(&divided, &rates);
    cr_expect_eq(ring.forward_s - alone.forward_s, 2 * 3 * (768 + 10 - 1536 / 4));
    cr_expect_eq(ring.recomputed_s - alone.recomputed_s, 2 * 3 * (768 + 10 - 1536 / 4));
    cr_expect_eq(ring.backward_s - alone.backward_s, 2 * 3 * (1536 + 10 - 3840 / 4));
    cr_expect_eq(time_of(&divided, &fast).forward_s, alone.forward_s);
}
