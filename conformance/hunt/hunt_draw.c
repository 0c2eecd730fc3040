// SPDX-License-Identifier: Apache-2.0
#include "conformance/hunt/hunt_draw.h"

#include "conformance/hunt/hunt_mesh.h"
#include "conformance/suite/factor_case.h"
#include "ref/arithmetic/random.h"

#include <assert.h>
#include <string.h>

enum { STREAM_PLAIN = 1, STREAM_VECTOR, STREAM_CASE, STREAM_MESH };

// Of four draws of a factor, how many leave it at its plainest, by the case's number.
static const uint64_t plain_share[] = {0, 2, 3};

int hunt_draw(uint64_t seed, uint64_t number, unsigned options, struct check_case out[2])
{
    struct factor_vector vector;
    uint64_t key = random_key(seed, number), share = plain_share[number % 3];
    memset(vector.values, FACTOR_OPEN, sizeof vector.values);
    for (int i = 0; i < FACTOR_COUNT; i++) {
        bool plain = random_below(random_at(random_key(key, STREAM_PLAIN), (uint64_t)i), 4) < share;
        // With one rank, or at stage 0, ZeRO has nothing to do.
        if (plain && i != FACTOR_WORLD && i != FACTOR_STAGE)
            vector.values[i] = 0;
    }
    bool complete = factor_complete(&vector, random_key(key, STREAM_VECTOR));
    assert(complete);
    (void)complete;
    int count = factor_case(&vector, random_key(key, STREAM_CASE), HUNT_TOPIC, out);
    if (number % 2)
        hunt_mesh_draw(random_key(key, STREAM_MESH), options, out, count);
    return count;
}
