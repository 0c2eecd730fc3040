// SPDX-License-Identifier: Apache-2.0
#include "ref/executor/move.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <assert.h>

// The lane from a tier (row) to a tier (column). Device and NVMe have none: their copies pass through the host.
static const enum lane LANES[TIER_COUNT][TIER_COUNT] = {
    [TIER_DEVICE] = {LANE_COMPUTE, LANE_D2H, LANE_COUNT},
    [TIER_HOST] = {LANE_H2D, LANE_CPU, LANE_NVME_WRITE},
    [TIER_NVME] = {LANE_COUNT, LANE_NVME_READ, LANE_COUNT},
};

size_t move_bytes(enum ledger_tier to, enum ledger_tier from, size_t bytes)
{
    const size_t block = TIER_NVME_ALIGNMENT;
    return to == TIER_NVME || from == TIER_NVME ? (bytes + block - 1) / block * block : bytes;
}

struct copy_arguments {
    const struct move *move;
    enum lane lane;
    void *to;
    const void *from;
    size_t bytes;
};

static void count_copy(const void *arguments)
{
    const struct copy_arguments *a = arguments;
    ledger_move(a->move->ledger, a->lane, OPERATION_COPY, a->bytes);
}

static int run_copy(void *arguments)
{
    struct copy_arguments *a = arguments;
    if (a->lane == LANE_NVME_READ)
        TRY(tier_nvme_read(a->move->nvme, a->from, a->to, a->bytes));
    else if (a->lane == LANE_NVME_WRITE)
        TRY(tier_nvme_write(a->move->nvme, a->to, a->from, a->bytes));
    else
        TRY(bytes_copy(a->to, a->from, a->bytes));
    count_copy(a);
    return ERR_NONE;
}

int move_copy(const struct move *move, const char *name, struct location to, struct location from, size_t bytes,
              const struct executor_span *also)
{
    assert((unsigned)from.tier < TIER_COUNT && (unsigned)to.tier < TIER_COUNT);
    enum lane lane = LANES[from.tier][to.tier];
    if (lane == LANE_COUNT)
        return err_set(ERR_INTERNAL, "%s: there is no direct copy from %s to %s", name, ledger_tier_name(from.tier),
                       ledger_tier_name(to.tier));
    if (bytes == 0)
        return ERR_NONE;
    assert(move->nvme || (lane != LANE_NVME_READ && lane != LANE_NVME_WRITE));
    size_t moved = move_bytes(to.tier, from.tier, bytes);
    struct copy_arguments a = {move, lane, to.address, from.address, moved};
    const struct executor_span spans[] = {{from.address, moved, EXECUTOR_READ},
                                          {to.address, moved, EXECUTOR_WRITE},
                                          also ? *also : (struct executor_span){0}};
    return executor_issue(move->executor, &(struct executor_operation){.name = name,
                                                                       .lane = lane,
                                                                       .run = run_copy,
                                                                       .arguments = &a,
                                                                       .arguments_bytes = sizeof a,
                                                                       .spans = spans,
                                                                       .span_count = 3,
                                                                       .bytes = moved,
                                                                       .count = count_copy,
                                                                       .work_bytes = 2 * moved});
}

struct cast_arguments {
    const void *from;
    void *to;
    enum dtype from_dtype, to_dtype;
    size_t count;
    bool add;
};

static int run_cast(void *arguments)
{
    struct cast_arguments *a = arguments;
    if (a->add)
        dtype_accumulate(a->to_dtype, a->to, a->from_dtype, a->from, a->count);
    else if (a->from_dtype == a->to_dtype)
        return bytes_copy(a->to, a->from, a->count * dtype_bytes(a->to_dtype));
    else if (a->from_dtype == DTYPE_FP32)
        dtype_narrow(a->to_dtype, a->from, a->to, a->count);
    else
        dtype_widen(a->from_dtype, a->from, a->to, a->count);
    return ERR_NONE;
}

static int issue_cast(const struct move *move, enum ledger_tier tier, const void *from, enum dtype from_dtype, void *to,
                      enum dtype to_dtype, size_t count, bool add, bool is_reduced)
{
    assert(tier == TIER_DEVICE || tier == TIER_HOST);
    if (from_dtype != to_dtype && from_dtype != DTYPE_FP32 && to_dtype != DTYPE_FP32)
        return err_set(ERR_INTERNAL, "no conversion from %s to %s", dtype_name(from_dtype), dtype_name(to_dtype));
    if (count == 0)
        return ERR_NONE;
    struct cast_arguments a = {from, to, from_dtype, to_dtype, count, add};
    const struct executor_span spans[] = {
        {from, count * dtype_bytes(from_dtype), EXECUTOR_READ},
        {to, count * dtype_bytes(to_dtype), add ? EXECUTOR_READ_WRITE : EXECUTOR_WRITE}};
    return executor_issue(move->executor,
                          &(struct executor_operation){.name = add ? "accumulate" : "cast",
                                                       .lane = tier == TIER_DEVICE ? LANE_COMPUTE : LANE_CPU,
                                                       .is_reduced = is_reduced,
                                                       .run = run_cast,
                                                       .arguments = &a,
                                                       .arguments_bytes = sizeof a,
                                                       .spans = spans,
                                                       .span_count = 2,
                                                       .work_bytes = executor_span_bytes(spans, 2)});
}

int move_cast(const struct move *move, enum ledger_tier tier, const void *from, enum dtype from_dtype, void *to,
              enum dtype to_dtype, size_t count, bool add)
{
    return issue_cast(move, tier, from, from_dtype, to, to_dtype, count, add, false);
}

int move_reduced(const struct move *move, const void *from, enum dtype from_dtype, void *to, enum dtype to_dtype,
                 size_t count, bool add)
{
    return issue_cast(move, TIER_DEVICE, from, from_dtype, to, to_dtype, count, add, add);
}
