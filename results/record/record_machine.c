// SPDX-License-Identifier: Apache-2.0

#include "results/record/record_shape.h"

#include <math.h>

static const struct shape node_bytes = WHOLE(0, COUNT_MAX);

static const struct shape_field cache_fields[] = {
    {"name", TEXT(16)}, {"bytes", WHOLE(0, COUNT_MAX)}, {"count", WHOLE(1, 1000000)}, {0}};

static const struct shape_field gpu_fields[] = {{"model", TEXT(256)}, {0}};

static const struct shape_field disk_fields[] = {
    {"folder", TEXT(4096)},
    {"file_system", TEXT_OR_NULL(64)},
    {"device", TEXT_OR_NULL(64)},
    {"model", TEXT_OR_NULL(256)},
    {"rotational", {.kind = SHAPE_BOOLEAN, .or_null = true}},
    {"bytes", WHOLE(0, COUNT_MAX)},
    {"available_bytes", WHOLE(0, COUNT_MAX)},
    {0},
};

static const struct shape cache = OBJECT(cache_fields), gpu = OBJECT(gpu_fields), disk = OBJECT(disk_fields);

const struct shape_field record_machine_fields[] = {
    {"processor", TEXT(256)},
    {"architecture", TEXT(64)},
    {"sockets", WHOLE(0, 1000000)},
    {"cores", WHOLE(0, 1000000)},
    {"threads", WHOLE(1, 1000000)},
    {"numa_nodes", WHOLE(0, 1000000)},
    {"numa_node_bytes", LIST(0, 1024, node_bytes)},
    {"caches", LIST(0, 16, cache)},
    {"memory_bytes", WHOLE(1, COUNT_MAX)},
    {"transparent_huge_pages", TEXT(32)},
    {"huge_pages", WHOLE_OR_NULL(0, COUNT_MAX)},
    {"huge_page_bytes", WHOLE_OR_NULL(0, COUNT_MAX)},
    {"gpus", LIST(0, 64, gpu)},
    {"disks", LIST(0, 64, disk)},
    {"kernel", TEXT(256)},
    {"clock_source", TEXT_OR_NULL(64)},
    {"governor", TEXT_OR_NULL(64)},
    {"hypervisor", TEXT_OR_NULL(256)},
    {"container", TEXT_OR_NULL(64)},
    {"allowed_threads", {.kind = SHAPE_WHOLE, .low = 1, .high = 1000000, .optional = true}},
    {"processor_quota", {.kind = SHAPE_NUMBER, .above = true, .high = INFINITY, .or_null = true, .optional = true}},
    {"memory_limit_bytes", {.kind = SHAPE_WHOLE, .low = 0, .high = COUNT_MAX, .or_null = true, .optional = true}},
    {"locked_memory_limit_bytes",
     {.kind = SHAPE_WHOLE, .low = 0, .high = COUNT_MAX, .or_null = true, .optional = true}},
    {0},
};
