// SPDX-License-Identifier: Apache-2.0
#include "ref/ledger/ledger.h"

#include "base/size.h"

#include <assert.h>
#include <stdio.h>

const char *ledger_tier_name(enum ledger_tier tier)
{
    static const char *const names[TIER_COUNT] = {[TIER_DEVICE] = "device", [TIER_HOST] = "host", [TIER_NVME] = "nvme"};
    return names[tier];
}

const char *ledger_kind_name(enum ledger_kind kind)
{
    static const char *const names[KIND_COUNT] = {
        [KIND_PARAMETER] = "parameter", [KIND_GRADIENT] = "gradient", [KIND_OPTIMIZER] = "optimizer",
        [KIND_MASTER] = "master",       [KIND_STAGING] = "staging",   [KIND_ACTIVATION] = "activation",
        [KIND_PADDING] = "padding"};
    return names[kind];
}

const char *ledger_lane_name(enum lane lane)
{
    static const char *const names[LANE_COUNT] = {
        [LANE_COMPUTE] = "compute",     [LANE_COLLECTIVE] = "collective", [LANE_H2D] = "h2d", [LANE_D2H] = "d2h",
        [LANE_NVME_READ] = "nvme_read", [LANE_NVME_WRITE] = "nvme_write", [LANE_CPU] = "cpu"};
    return names[lane];
}

const char *ledger_operation_name(enum ledger_operation operation)
{
    static const char *const names[OPERATION_COUNT] = {[OPERATION_ALL_GATHER] = "all_gather",
                                                       [OPERATION_REDUCE_SCATTER] = "reduce_scatter",
                                                       [OPERATION_ALL_REDUCE] = "all_reduce",
                                                       [OPERATION_ALL_TO_ALL] = "all_to_all",
                                                       [OPERATION_BROADCAST] = "broadcast",
                                                       [OPERATION_SEND] = "send",
                                                       [OPERATION_COPY] = "copy"};
    return names[operation];
}

const char *ledger_group_name(enum ledger_group group)
{
    static const char *const names[GROUP_COUNT] = {[GROUP_WORLD] = "world",         [GROUP_SHARD] = "shard",
                                                   [GROUP_REPLICATE] = "replicate", [GROUP_NODE] = "node",
                                                   [GROUP_NODES] = "nodes",         [GROUP_SECONDARY] = "secondary",
                                                   [GROUP_EXPERT] = "expert",       [GROUP_EXPERT_DATA] = "expert_data",
                                                   [GROUP_TENSOR] = "tensor",       [GROUP_PIPELINE] = "pipeline",
                                                   [GROUP_MODEL] = "model"};
    return names[group];
}

void ledger_hold(struct ledger *ledger, enum ledger_tier tier, enum ledger_kind kind, uint64_t bytes)
{
    if (!ledger)
        return;
    assert(tier < TIER_COUNT && kind < KIND_COUNT);
    atomic_fetch_add(&ledger->held_bytes[tier][kind], bytes);
    uint64_t now = atomic_fetch_add(&ledger->tier_bytes[tier], bytes) + bytes;
    uint64_t peak = atomic_load(&ledger->tier_peak_bytes[tier]);
    while (peak < now && !atomic_compare_exchange_weak(&ledger->tier_peak_bytes[tier], &peak, now))
        continue;
}

void ledger_drop(struct ledger *ledger, enum ledger_tier tier, enum ledger_kind kind, uint64_t bytes)
{
    if (!ledger)
        return;
    uint64_t of_kind = atomic_fetch_sub(&ledger->held_bytes[tier][kind], bytes);
    uint64_t of_tier = atomic_fetch_sub(&ledger->tier_bytes[tier], bytes);
    assert(of_kind >= bytes && of_tier >= bytes);
    (void)of_kind;
    (void)of_tier;
}

void ledger_move(struct ledger *ledger, enum lane lane, enum ledger_operation operation, uint64_t bytes)
{
    if (!ledger)
        return;
    assert(lane < LANE_COUNT && operation < OPERATION_COUNT);
    atomic_fetch_add(&ledger->moved_bytes[lane][operation], bytes);
    atomic_fetch_add(&ledger->moved_count[lane][operation], 1);
}

void ledger_send(struct ledger *ledger, enum ledger_group group, enum ledger_purpose purpose,
                 enum ledger_operation operation, uint64_t count, uint64_t bytes)
{
    if (!ledger)
        return;
    assert(group < GROUP_COUNT && purpose < PURPOSE_COUNT && operation < OPERATION_COUNT);
    atomic_fetch_add(&ledger->moved_bytes[LANE_COLLECTIVE][operation], bytes);
    atomic_fetch_add(&ledger->moved_count[LANE_COLLECTIVE][operation], count);
    atomic_fetch_add(&ledger->sent_bytes[purpose], bytes);
    atomic_fetch_add(&ledger->sent_count[purpose], count);
    atomic_fetch_add(&ledger->group_bytes[group], bytes);
}

const char *ledger_held_text(const struct ledger *ledger, enum ledger_tier tier, char out[LEDGER_HELD_TEXT_BYTES])
{
    size_t length = 0;
    out[0] = '\0';
    for (int kind = 0; kind < KIND_COUNT; kind++) {
        uint64_t bytes = ledger->held_bytes[tier][kind];
        char text[SIZE_TEXT_BYTES];
        if (bytes > 0)
            length += (size_t)snprintf(out + length, LEDGER_HELD_TEXT_BYTES - length, "%s%s %s", length ? ", " : " (",
                                       ledger_kind_name((enum ledger_kind)kind), size_short_text(bytes, text));
    }
    if (length > 0)
        snprintf(out + length, LEDGER_HELD_TEXT_BYTES - length, ")");
    return out;
}
