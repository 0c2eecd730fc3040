// SPDX-License-Identifier: Apache-2.0
#include "ref/optimizer/placement.h"

bool placement_is_speculative(const struct config *config, const struct placement *placement)
{
    return config->speculative_update && placement->optimizer_tier != TIER_DEVICE &&
           placement->gradient_tier != TIER_DEVICE;
}

enum ledger_tier optimizer_tier(const struct placement *placement)
{
    return placement->optimizer_tier == TIER_DEVICE ? TIER_DEVICE : TIER_HOST;
}

enum ledger_tier placement_pending_tier(const struct placement *placement)
{
    return placement->parameter_tier == TIER_DEVICE ? TIER_HOST : placement->parameter_tier;
}

bool placement_is_shared(const struct config *config, const struct placement *placement)
{
    return config->precision == config->master_dtype && placement->optimizer_tier == placement->parameter_tier &&
           config->delayed_update_start_step == 0 && !placement_is_speculative(config, placement);
}
