// SPDX-License-Identifier: Apache-2.0
#include "conformance/spec/requirement_parse.h"

#include <assert.h>

const char *need_name(enum need need)
{
    static const char *const names[NEED_COUNT] = {"", "sharding", "offload", "nvme", "checkpoint"};
    assert(need >= 0 && need < NEED_COUNT);
    return names[need];
}

bool need_has(enum need need, const struct check_case *c)
{
    switch (need) {
    case NEED_SHARDING:
        return c->stage > 0 && c->world > 1;
    case NEED_OFFLOAD:
        return c->offload_optimizer != TIER_DEVICE || c->offload_param != TIER_DEVICE;
    case NEED_NVME:
        return c->offload_optimizer == TIER_NVME || c->offload_param == TIER_NVME;
    case NEED_CHECKPOINT:
        return c->phase != PHASE_WHOLE;
    default:
        return true;
    }
}
