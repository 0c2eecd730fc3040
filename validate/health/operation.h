// SPDX-License-Identifier: Apache-2.0
// The operations of `preflight` and `soak`: fixed work of training, each a function of a seed alone, whose result has
// the same bits on every core. A core, a memory module, a disk or a link that returns other bits corrupts silently what
// it trains.
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// The resource that an operation exercises.
enum health_lane { HEALTH_COMPUTE, HEALTH_MEMORY, HEALTH_DISK, HEALTH_COLLECTIVE, HEALTH_LANE_COUNT };
const char *health_lane_name(enum health_lane lane);  // "compute", "memory", "disk", "collective"

struct health_operation;

// A bit to flip on purpose, so that a test, or an operator, sees what a broken core looks like.
struct health_flip {
    const char *operation;
    int core;
    uint64_t round;  // only at its first run in this round; 0: always
};

// Where an operation runs. The calling thread is pinned to `core`.
struct health_place {
    int core, neighbour;             // as the system numbers them; a collective also runs on the neighbour
    const char *folder;              // for files; null: operations of the disk are left out
    uint64_t round;                  // from 1
    int attempt;                     // 0: the first run of the round; more: it is repeated
    const struct health_flip *flip;  // null: none
    double *moving_s;                // receives the time in which bytes moved through the lane, without their making
};

// Of a run's first round, whose results are known: what all cores compute alike is held against them.
enum { HEALTH_KNOWN_SEED = 1 };

struct health_operation {
    const char *name;  // "Adam, avx2"
    enum health_lane lane;
    size_t result_bytes, element_bytes;
    uint64_t moved_bytes;  // through the lane, in one run
    int variant;           // an instruction set; operations that differ in it alone have the same result
    const char *known;     // digest of the result for HEALTH_KNOWN_SEED, the same on every machine
    // Writes result_bytes to result, and may use the same memory before. ERR_IO, ERR_MEMORY; ERR_CHECK: the operation's
    // own comparison found wrong bits.
    int (*run)(const struct health_operation *operation, const struct health_place *place, uint64_t seed, void *result);
};

// The operations that this machine can do, in a fixed order. with_disk: also those that need a folder. Returns their
// number, at most HEALTH_OPERATION_MAX.
enum { HEALTH_OPERATION_MAX = 16, HEALTH_NAME_BYTES = 32 };
size_t health_operations(bool with_disk, struct health_operation out[HEALTH_OPERATION_MAX]);

// Flips a bit in the middle of memory if the place asks for it: between an operation's write and its read.
void health_spoil(const struct health_operation *operation, const struct health_place *place, void *memory,
                  size_t bytes);

// Runs of the table's rows (operation_move.c).
int health_memory(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                  void *result);
int health_disk(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                void *result);
int health_collective(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                      void *result);
int health_training(const struct health_operation *operation, const struct health_place *place, uint64_t seed,
                    void *result);

// Their sizes.
enum {
    HEALTH_ADAM_COUNT = 16384 + 13,
    HEALTH_ADAM_BYTES = 14,  // of an element: p, m, v in fp32 and the parameter in bf16
    HEALTH_FORMAT_COUNT = 1 << 16,
    HEALTH_ROWS = 48,
    HEALTH_WIDTH = 323,
    HEALTH_PRODUCT_SIDE = 160,
    HEALTH_MEMORY_BYTES = 32 << 20,
    HEALTH_FILE_BYTES = 4 << 20,
    HEALTH_BLOCK_BYTES = 64 << 10,  // of memory and files; the result has a digest of each
    HEALTH_DIGEST_BYTES = 16,
    HEALTH_SHARD_COUNT = 32749,
    HEALTH_TEXT_BYTES = 32,
};
