// SPDX-License-Identifier: Apache-2.0
// The memory that stages hold: whole states and shares of them, each on the tier that the configuration gives it, and
// the places where the optimizer finds them.
#include "stage.h"

#include "err.h"

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
        if (tier == TIER_NVME)
            TRY(tier_nvme_allocate(stage->setting.nvme, shares->kind, shares->name, share_bytes,
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

static bool delays(const struct stage *stage)
{
    return stage->setting.config->delayed_update_start_step > 0;
}

// In fp32 the parameters are the master parameters, if both live on one tier and are seen at once.
static enum ledger_tier master_tier(const struct stage *stage, int bundle)
{
    const struct place *place = &stage->places[bundle];
    bool shared = stage->setting.config->precision == DTYPE_FP32 && place->optimizer_tier == place->parameter_tier;
    return shared && !delays(stage) ? TIER_COUNT : place->optimizer_tier;
}

static enum ledger_tier pending_tier(const struct stage *stage, int bundle)
{
    enum ledger_tier tier = stage->places[bundle].parameter_tier;
    return tier == TIER_DEVICE ? TIER_HOST : tier;
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

// Host slots through which parameters on NVMe pass: buffer_count, and as many more as may stay for their next use.
static int allocate_host_params(struct stage *stage)
{
    const struct config_offload_param *offload = &stage->setting.config->offload_param;
    size_t element_bytes = dtype_bytes(stage->setting.config->precision), largest = 0;
    const struct slots_rule rule = {
        .bundle_count = stage->layout.bundle_count,
        .shares = true,
        .element_bytes = element_bytes,
        .where = TIER_HOST,
        .name = "parameters on their way from NVMe",
    };
    for (int i = 0; i < stage->layout.bundle_count; i++)
        if (stage->layout.bundles[i].share_count > largest)
            largest = stage->layout.bundles[i].share_count;
    if (largest > offload->buffer_size)
        return err_set(ERR_USAGE,
                       "zero_optimization.offload_param.buffer_size is %zu elements, expected at least %zu, the "
                       "largest share that a rank reads at once",
                       offload->buffer_size, largest);
    size_t turn_bytes = slots_largest_bytes(&stage->layout, &rule);
    size_t count = (size_t)slots_turns(&stage->layout, &rule), wanted = offload->buffer_count;
    if (turn_bytes > 0 && offload->max_in_cpu / (turn_bytes / element_bytes) > wanted)
        wanted = offload->max_in_cpu / (turn_bytes / element_bytes);
    return slots_open(&stage->layout, &rule, (int)(wanted < count ? wanted : count), stage->setting.tier,
                      &stage->host_params);
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
    return stage->setting.config->offload_param.tier == TIER_NVME ? allocate_host_params(stage) : ERR_NONE;
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
                                   dtype_bytes(config->precision), pending_tier};
    void *other[trainable_count + 1], *waiting[trainable_count + 1];
    TRY(allocate_shares(stage, &gradients, other));
    TRY(allocate_shares(stage, &pending, waiting));
    for (int i = 0; i < trainable_count; i++) {
        stage->places[i].other_gradient = other[i];
        stage->places[i].pending = waiting[i];
    }
    return ERR_NONE;
}

// Buffers of one sub-group that states need on their way through the host, and through the device.
static void count_buffers(const struct stage *stage, size_t *host, size_t *device)
{
    *host = *device = 0;
    for (int i = 0; i < stage->layout.trainable_count; i++) {
        const struct place *place = &stage->places[i];
        enum ledger_tier target = delays(stage) ? pending_tier(stage, i) : place->parameter_tier;
        bool copies = master_tier(stage, i) != TIER_COUNT || stage->setting.config->precision != DTYPE_FP32;
        size_t of_host = 0;
        if (optimizer_tier(place) == TIER_DEVICE) {
            *device = copies && target != TIER_DEVICE ? 2 : *device;
            of_host = copies && target == TIER_NVME ? 1 : 0;
        } else {
            // Until the delay begins updated parameters go straight to the device.
            bool direct = target == TIER_HOST && place->parameter_tier != TIER_DEVICE;
            of_host = (place->optimizer_tier == TIER_NVME ? 3u : 0u) + (place->gradient_tier != TIER_HOST ? 1u : 0u) +
                      (copies && !direct ? 1u : 0u);
        }
        *host = of_host > *host ? of_host : *host;
    }
}

static int allocate_buffers(struct stage *stage)
{
    struct optimizer *o = &stage->optimizer;
    size_t host, device, given = stage->setting.config->offload_optimizer.buffer_count;
    count_buffers(stage, &host, &device);
    if (host > 0 && given < host)
        return err_set(ERR_USAGE,
                       "zero_optimization.offload_optimizer.buffer_count is %zu, expected at least %zu: so many "
                       "buffers one sub-group needs on the host",
                       given, host);
    TRY(ring_open(stage->setting.tier, TIER_HOST, "optimizer buffers", optimizer_buffer_bytes(o),
                  host > 0 ? (int)given : 0, &o->host_buffers));
    return ring_open(stage->setting.tier, TIER_DEVICE, "updated parameters", optimizer_buffer_bytes(o), (int)device,
                     &o->device_buffers);
}

// Gradients that are added up on the host, or pass it on their way to NVMe.
static int allocate_arrivals(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    bool changes = config->communication_dtype != config->accumulation_dtype ||
                   (stage->operations->reduces_each_micro_step && config->accumulation > 1);
    size_t largest = 0;
    bool arrive = false, add = false;
    for (int i = 0; i < stage->layout.trainable_count; i++) {
        enum ledger_tier tier = stage->places[i].gradient_tier;
        arrive |= tier == TIER_NVME || (tier == TIER_HOST && changes);
        add |= tier == TIER_NVME && changes;
        if (stage->layout.bundles[i].share_count > largest)
            largest = stage->layout.bundles[i].share_count;
    }
    int count = config->overlap_comm ? 2 : 1;
    TRY(ring_open(stage->setting.tier, TIER_HOST, "arriving gradients",
                  largest * dtype_bytes(config->communication_dtype), arrive ? count : 0, &stage->arrivals));
    return ring_open(stage->setting.tier, TIER_HOST, "gradients being added",
                     largest * dtype_bytes(config->accumulation_dtype), add ? count : 0, &stage->sums);
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
    if (delays(stage))
        TRY(allocate_delayed(stage));
    TRY(allocate_buffers(stage));
    return allocate_arrivals(stage);
}

int stage_allocate_buckets(struct stage *stage)
{
    const struct config *config = stage->setting.config;
    const struct slots_rule rule = {
        .bundle_count = stage->layout.trainable_count,
        .element_bytes = dtype_bytes(config->precision),
        .where = TIER_DEVICE,
        .name = "gradient buckets",
    };
    int slots = slots_least(&stage->layout, &rule, stage->setting.model->unit_count);
    stage->has_buckets = true;
    if (config->overlap_comm)
        slots *= 2;  // one set is filled while the other is sent
    return slots_open(&stage->layout, &rule, slots, stage->setting.tier, &stage->buckets);
}

int stage_allocate_wire(struct stage *stage, enum dtype source, bool always)
{
    const struct config *config = stage->setting.config;
    stage->has_wire = always || source != config->communication_dtype;
    const struct slots_rule rule = {
        .bundle_count = stage->has_wire ? stage->layout.trainable_count : 0,
        .element_bytes = dtype_bytes(config->communication_dtype),
        .where = TIER_DEVICE,
        .name = "gradients on the wire",
    };
    int slots = config->overlap_comm ? 2 : 1;
    if (slots_least(&stage->layout, &rule, stage->setting.model->unit_count) == 0)
        slots = 0;
    return slots_open(&stage->layout, &rule, slots, stage->setting.tier, &stage->wire);
}
