// SPDX-License-Identifier: Apache-2.0
// The memory that stages hold: whole states and shares of them, each on the tier that the configuration gives it, and
// the places where the optimizer finds them.
#include "ref/stage/stage.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

// Where each bundle's states live. With a ratio below 1 the first bundles' optimizer states go to the host, until they
// have that part of all elements; the others stay on the device.
static void choose_tiers(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    const struct config_offload_optimizer *offload = &config->offload_optimizer;
    double limit = offload->ratio * (double)stage->layout.trainable_share_count, count = 0;
    for (int i = 0; i < stage->layout.bundle_count; i++) {
        struct place *place = &stage->places[i];
        bool trainable = i < stage->layout.trainable_count;
        bool offloads = trainable && offload->tier != TIER_DEVICE && count < limit;
        place->optimizer_tier = offloads ? offload->tier : TIER_DEVICE;
        place->gradient_tier = offloads ? config->gradient_tier : TIER_DEVICE;
        place->parameter_tier = config->stage == 3 ? config->offload_param.tier : TIER_DEVICE;
        count += (double)stage->layout.bundles[i].share_count;
    }
}

int stage_lay_out(struct stage *stage, const struct layout_rule *rule)
{
    TRY(layout_open(stage->setting.model, rule, &stage->layout));
    choose_tiers(stage);
    return ERR_NONE;
}

// Elements of the bundles [0, bundle_count) that are padding in a whole buffer.
static size_t whole_padding(const struct stage *stage, int bundle_count)
{
    size_t padding = 0;
    for (int i = 0; i < bundle_count; i++)
        padding += stage->layout.bundles[i].padded_count - stage->layout.bundles[i].count;
    return padding;
}

static size_t share_room(const struct stage *stage, int bundle)
{
    return bundle_share_room(&stage->layout.bundles[bundle], stage_share(stage, bundle));
}

static size_t share_padding(const struct stage *stage, int bundle)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    return share_room(stage, bundle) - bundle_share_real(b, stage_share(stage, bundle));
}

// A state whose shares are to be held: of which bundles, and on which tier; TIER_COUNT: not of this one.
struct shares {
    enum ledger_kind kind;
    const char *name;
    int bundle_count;
    size_t element_bytes;
    enum ledger_tier (*tier_of)(const struct stage *stage, int bundle);
};

// "exp_avg of h.0.ln_1.weight and 11 more": what a fault on NVMe hits. It lives as long as the stage.
static int name_share(struct stage *stage, const char *state, int bundle, const char **out)
{
    const struct bundle *b = &stage->layout.bundles[bundle];
    char **names = realloc(stage->names, (stage->name_count + 1) * sizeof *names), more[32] = "", *name = NULL;
    if (names)
        stage->names = names;
    if (b->param_count > 1)
        snprintf(more, sizeof more, " and %d more", b->param_count - 1);
    if (!names || asprintf(&name, "%s of %s%s", state, stage->setting.model->params[b->params[0]].name, more) < 0)
        return err_set(ERR_MEMORY, "no memory for the name of a share");
    stage->names[stage->name_count++] = name;
    *out = name;
    return ERR_NONE;
}

// The addresses of all shares, by bundle: one allocation on the device and one on the host, one a bundle on NVMe, where
// transfers begin and end on blocks.
static int allocate_shares(struct stage *stage, const struct shares *shares, void *addresses[])
{
    size_t bytes[TIER_COUNT] = {0}, padding_bytes[TIER_COUNT] = {0};
    for (int i = 0; i < shares->bundle_count; i++) {
        enum ledger_tier tier = shares->tier_of(stage, i);
        size_t share_bytes = share_room(stage, i) * shares->element_bytes;
        addresses[i] = NULL;
        if (tier == TIER_COUNT)
            continue;
        bytes[tier] += share_bytes;
        padding_bytes[tier] += share_padding(stage, i) * shares->element_bytes;
        if (tier != TIER_NVME || !stage->setting.nvme)
            continue;
        const char *name = NULL;
        TRY(name_share(stage, shares->name, i, &name));
        TRY(tier_nvme_allocate(stage->setting.nvme, shares->kind, name, share_bytes,
                               share_padding(stage, i) * shares->element_bytes, &addresses[i]));
    }
    for (enum ledger_tier tier = TIER_DEVICE; tier <= TIER_HOST; tier++) {
        char *memory = NULL;
        if (bytes[tier] == 0)
            continue;
        TRY(tier_allocate(stage->setting.tier, tier, shares->kind, shares->name, bytes[tier], padding_bytes[tier],
                          (void **)&memory));
        for (int i = 0; i < shares->bundle_count; i++)
            if (shares->tier_of(stage, i) == tier) {
                addresses[i] = memory;
                memory += share_room(stage, i) * shares->element_bytes;
            }
    }
    return ERR_NONE;
}

static enum ledger_tier parameter_tier(const struct stage *stage, int bundle)
{
    return stage->places[bundle].parameter_tier;
}

static enum ledger_tier gradient_tier(const struct stage *stage, int bundle)
{
    return stage->places[bundle].gradient_tier;
}

static enum ledger_tier moment_tier(const struct stage *stage, int bundle)
{
    return stage->places[bundle].optimizer_tier;
}

static enum ledger_tier master_tier(const struct stage *stage, int bundle)
{
    const struct place *place = &stage->places[bundle];
    return is_one_copy(stage->setting.config, place) ? TIER_COUNT : place->optimizer_tier;
}

static enum ledger_tier waiting_tier(const struct stage *stage, int bundle)
{
    return pending_tier(&stage->places[bundle]);
}

// Gradients of stages that hold them whole are kept there, unless Adam runs elsewhere.
static enum ledger_tier offloaded_gradient_tier(const struct stage *stage, int bundle)
{
    enum ledger_tier tier = stage->places[bundle].gradient_tier;
    return tier == TIER_DEVICE ? TIER_COUNT : tier;
}

int stage_allocate_whole_params(struct stage *stage)
{
    struct layout *layout = &stage->layout;
    size_t element_bytes = dtype_bytes(stage->setting.config->precision);
    char *memory;
    TRY(tier_allocate(stage->setting.tier, TIER_DEVICE, KIND_PARAMETER, "parameters",
                      layout->padded_count * element_bytes, whole_padding(stage, layout->bundle_count) * element_bytes,
                      (void **)&memory));
    for (int i = 0; i < layout->bundle_count; i++) {
        const struct bundle *b = &layout->bundles[i];
        char *whole = memory + b->offset * element_bytes;
        stage->places[i].whole = whole;
        stage->places[i].parameter = whole + bundle_share_begin(b, stage_share(stage, i)) * element_bytes;
        stage_point_params(stage, i, whole);
    }
    return ERR_NONE;
}

static int allocate_persistent(struct stage *stage)
{
    struct layout *layout = &stage->layout;
    size_t element_bytes = dtype_bytes(stage->setting.config->precision), count = 0, padding = 0;
    for (int i = 0; i < layout->bundle_count; i++) {
        const struct bundle *b = &layout->bundles[i];
        count += b->persistent ? b->padded_count : 0;
        padding += b->persistent ? b->padded_count - b->count : 0;
    }
    char *memory;
    TRY(tier_allocate(stage->setting.tier, TIER_DEVICE, KIND_PARAMETER, "persistent parameters", count * element_bytes,
                      padding * element_bytes, (void **)&memory));
    for (int i = 0; i < layout->bundle_count; i++) {
        const struct bundle *b = &layout->bundles[i];
        if (!b->persistent)
            continue;
        stage->places[i].whole = memory;
        stage_point_params(stage, i, memory);
        memory += b->padded_count * element_bytes;
    }
    return ERR_NONE;
}

int stage_allocate_param_shares(struct stage *stage)
{
    const struct shares shares = {KIND_PARAMETER, "parameter shares", stage->layout.bundle_count,
                                  dtype_bytes(stage->setting.config->precision), parameter_tier};
    void *addresses[shares.bundle_count + 1];
    TRY(allocate_shares(stage, &shares, addresses));
    for (int i = 0; i < shares.bundle_count; i++)
        stage->places[i].parameter = addresses[i];
    TRY(allocate_persistent(stage));
    return stage->setting.config->offload_param.tier == TIER_NVME ? stage_allocate_host_params(stage) : ERR_NONE;
}

int stage_allocate_whole_gradients(struct stage *stage)
{
    struct layout *layout = &stage->layout;
    size_t element_bytes = dtype_bytes(stage->setting.config->accumulation_dtype);
    TRY(tier_allocate(stage->setting.tier, TIER_DEVICE, KIND_GRADIENT, "gradients",
                      layout->trainable_padded_count * element_bytes,
                      whole_padding(stage, layout->trainable_count) * element_bytes,
                      (void **)&stage->gradients_whole));
    const struct shares shares = {KIND_GRADIENT, "gradient shares", layout->trainable_count, element_bytes,
                                  offloaded_gradient_tier};
    void *addresses[shares.bundle_count + 1];
    TRY(allocate_shares(stage, &shares, addresses));
    for (int i = 0; i < layout->trainable_count; i++) {
        const struct bundle *b = &layout->bundles[i];
        size_t own = b->offset + bundle_share_begin(b, stage_share(stage, i));
        stage->places[i].gradient = addresses[i] ? addresses[i] : stage->gradients_whole + own * element_bytes;
    }
    return ERR_NONE;
}

int stage_allocate_gradient_shares(struct stage *stage)
{
    const struct shares shares = {KIND_GRADIENT, "gradient shares", stage->layout.trainable_count,
                                  dtype_bytes(stage->setting.config->accumulation_dtype), gradient_tier};
    void *addresses[shares.bundle_count + 1];
    TRY(allocate_shares(stage, &shares, addresses));
    for (int i = 0; i < shares.bundle_count; i++)
        stage->places[i].gradient = addresses[i];
    return ERR_NONE;
}

// The second copies that the delayed update needs: of gradients, and of parameters that are not yet to be seen.
static int allocate_delayed(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    int trainable_count = stage->layout.trainable_count;
    const struct shares gradients = {KIND_GRADIENT, "gradients being used", trainable_count,
                                     dtype_bytes(config->accumulation_dtype), gradient_tier};
    const struct shares pending = {KIND_PARAMETER, "pending parameters", trainable_count,
                                   dtype_bytes(config->precision), waiting_tier};
    void *other[trainable_count + 1], *waiting[trainable_count + 1];
    TRY(allocate_shares(stage, &gradients, other));
    TRY(allocate_shares(stage, &pending, waiting));
    for (int i = 0; i < trainable_count; i++) {
        stage->places[i].other_gradient = other[i];
        stage->places[i].pending = waiting[i];
    }
    return ERR_NONE;
}

int stage_allocate_optimizer(struct stage *stage)
{
    int trainable_count = stage->layout.trainable_count;
    const struct shares moments[] = {
        {KIND_OPTIMIZER, "exp_avg", trainable_count, sizeof(float), moment_tier},
        {KIND_OPTIMIZER, "exp_avg_sq", trainable_count, sizeof(float), moment_tier},
        {KIND_MASTER, "fp32 master parameters", trainable_count, sizeof(float), master_tier},
    };
    void *exp_avg[trainable_count + 1], *exp_avg_sq[trainable_count + 1], *master[trainable_count + 1];
    TRY(allocate_shares(stage, &moments[0], exp_avg));
    TRY(allocate_shares(stage, &moments[1], exp_avg_sq));
    TRY(allocate_shares(stage, &moments[2], master));
    for (int i = 0; i < trainable_count; i++) {
        struct place *place = &stage->places[i];
        place->exp_avg = exp_avg[i];
        place->exp_avg_sq = exp_avg_sq[i];
        place->master = master_tier(stage, i) == TIER_COUNT ? place->parameter : master[i];
    }
    if (stage->setting.config->delayed_update_start_step > 0)
        TRY(allocate_delayed(stage));
    TRY(stage_allocate_buffers(stage));
    return stage_allocate_arrivals(stage);
}
