// SPDX-License-Identifier: Apache-2.0
#include "validate/health/operation.h"

#include "ref/arithmetic/isa.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

const char *health_lane_name(enum health_lane lane)
{
    static const char *const names[HEALTH_LANE_COUNT] = {"compute", "memory", "disk", "collective"};
    assert((unsigned)lane < HEALTH_LANE_COUNT);
    return names[lane];
}

// One row for each instruction set: their bits are the same, so that each also checks the others.
static size_t add_variants(const struct health_operation *operation, char names[ISA_COUNT][HEALTH_NAME_BYTES],
                           struct health_operation *out)
{
    size_t count = 0;
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (!isa_kernels_of((enum isa)isa))
            continue;
        snprintf(names[isa], HEALTH_NAME_BYTES, "%s, %s", operation->name, isa_name((enum isa)isa));
        out[count] = *operation;
        out[count].name = names[isa];
        out[count++].variant = isa;
    }
    return count;
}

size_t health_operations(bool with_disk, struct health_operation out[HEALTH_OPERATION_MAX])
{
    static char adam[ISA_COUNT][HEALTH_NAME_BYTES], formats[ISA_COUNT][HEALTH_NAME_BYTES];
    static char rows[ISA_COUNT][HEALTH_NAME_BYTES];
    const size_t digests = (size_t)HEALTH_DIGEST_BYTES;
    const struct health_operation variants[] = {
        {"Adam", HEALTH_COMPUTE, HEALTH_ADAM_COUNT * (size_t)HEALTH_ADAM_BYTES, 4, 0, true, 0, health_adam},
        {"formats", HEALTH_COMPUTE, HEALTH_FORMAT_COUNT * 8, 4, 0, true, 0, health_formats},
        {"rows", HEALTH_COMPUTE, HEALTH_ROWS * HEALTH_WIDTH * 4, 4, 0, true, 0, health_rows},
    };
    const struct health_operation rest[] = {
        // OpenBLAS has kernels of its own for each processor.
        {"matrix products", HEALTH_COMPUTE, HEALTH_PRODUCT_SIDE * HEALTH_PRODUCT_SIDE * 4, 4, 0, false, 0,
         health_products},
        {"memory", HEALTH_MEMORY, HEALTH_MEMORY_BYTES / HEALTH_BLOCK_BYTES * digests, digests,
         2 * (uint64_t)HEALTH_MEMORY_BYTES, true, 0, health_memory},
        {"collective", HEALTH_COLLECTIVE, 2 * (size_t)HEALTH_SHARD_COUNT * 4, 4, 4 * (uint64_t)HEALTH_SHARD_COUNT * 4,
         true, 0, health_collective},
        {"training", HEALTH_COMPUTE, HEALTH_TEXT_BYTES, HEALTH_TEXT_BYTES, 0, true, 0, health_training},
        {"disk", HEALTH_DISK, HEALTH_FILE_BYTES / HEALTH_BLOCK_BYTES * digests, digests,
         2 * (uint64_t)HEALTH_FILE_BYTES, true, 0, health_disk},
    };
    size_t count = add_variants(&variants[0], adam, out);
    count += add_variants(&variants[1], formats, out + count);
    count += add_variants(&variants[2], rows, out + count);
    for (size_t i = 0; i < sizeof rest / sizeof rest[0]; i++)
        if (rest[i].lane != HEALTH_DISK || with_disk)
            out[count++] = rest[i];
    assert(count <= HEALTH_OPERATION_MAX);
    return count;
}

void health_spoil(const struct health_operation *operation, const struct health_place *place, void *memory,
                  size_t bytes)
{
    const struct health_flip *flip = place->flip;
    if (flip && flip->core == place->core && strcmp(flip->operation, operation->name) == 0 &&
        (flip->round == 0 || (flip->round == place->round && place->attempt == 0)))
        ((unsigned char *)memory)[bytes / 2] ^= 0x10;
}
