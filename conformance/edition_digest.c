// SPDX-License-Identifier: Apache-2.0
// A case in one number: whoever makes the same cases can show it.
#include "edition.h"
#include "err.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

// Numbers enter as the bits of fp32, little-endian; every NaN is one.
static void add_numbers(XXH3_state_t *hash, const float *numbers, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint32_t bits = f32_bits(numbers[i]);
        bits = (bits & 0x7fffffffu) > 0x7f800000u ? 0x7fc00000u : bits;
        unsigned char bytes[4] = {(unsigned char)bits, (unsigned char)(bits >> 8), (unsigned char)(bits >> 16),
                                  (unsigned char)(bits >> 24)};
        XXH3_128bits_update(hash, bytes, sizeof bytes);
    }
}

static void add_values(XXH3_state_t *hash, const struct check_case *c, const struct case_values *values)
{
    for (int i = 0; i < c->param_count; i++)
        if (case_initial(values, i))
            add_numbers(hash, case_initial(values, i), c->params[i].count);
    for (int step = case_first_step(c); step <= case_last_step(c); step++)
        for (int micro = 0; micro < c->accumulation; micro++)
            for (int rank = 0; rank < c->world; rank++)
                for (int i = 0; i < c->param_count; i++) {
                    const float *gradient = case_gradient(values, step, micro, rank, i);
                    if (gradient)
                        add_numbers(hash, gradient, c->params[i].count);
                }
}

static int digest(const struct check_case *c, const char *text, size_t bytes, XXH3_state_t *hash, char out[33])
{
    struct case_values *values;
    TRY(case_values_open(c, &values));
    XXH3_128bits_reset(hash);
    XXH3_128bits_update(hash, text, bytes);
    add_values(hash, c, values);
    XXH128_hash_t value = XXH3_128bits_digest(hash);
    snprintf(out, 33, "%016" PRIx64 "%016" PRIx64, value.high64, value.low64);
    case_values_close(values);
    return ERR_NONE;
}

int edition_digest(const struct check_case *c, char out[33])
{
    char *text;
    size_t bytes;
    TRY(case_text(c, &text, &bytes));
    XXH3_state_t *hash = XXH3_createState();
    int rc = hash ? digest(c, text, bytes, hash, out) : err_set(ERR_MEMORY, "no memory for a digest");
    XXH3_freeState(hash);
    free(text);
    return rc;
}
