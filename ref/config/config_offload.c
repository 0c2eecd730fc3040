// SPDX-License-Identifier: Apache-2.0
// The tier of each kind of state: offload_optimizer, offload_param, gradients and activations.
#include "ref/config/config_doc.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <string.h>

#define OPTIMIZER "zero_optimization.offload_optimizer."
#define PARAM "zero_optimization.offload_param."
#define OWN_CHECKPOINTING "zerogauge.activation_checkpointing."

static enum ledger_tier device_at(const struct config_doc *doc, const char *path, enum ledger_tier fallback)
{
    const char *name = config_doc_string(doc, path, config_device_name(fallback));
    return strcmp(name, "nvme") == 0 ? TIER_NVME : strcmp(name, "cpu") == 0 ? TIER_HOST : TIER_DEVICE;
}

// Resolves a section's device, given by `path` or by the old boolean key `old`, where true means "cpu". *key is the one
// that decided.
static int resolve_device(struct config_doc *doc, const char *path, const char *old, enum ledger_tier *out,
                          const char **key)
{
    bool cpu = config_doc_flag(doc, old, false);
    *out = device_at(doc, path, cpu ? TIER_HOST : TIER_DEVICE);
    *key = config_doc_given(doc, path) || !cpu ? path : old;
    if (!config_doc_given(doc, old))
        return ERR_NONE;
    if ((*out == TIER_HOST) != cpu)
        return config_doc_fail(doc, old,
                               "is %s, an old form of %s \"%s\", but that is \"%s\"; expected only the "
                               "new name",
                               cpu ? "true" : "false", path, cpu ? "cpu" : "none", config_device_name(*out));
    config_doc_note_old(doc, old, path, cpu ? "cpu" : "none");
    return ERR_NONE;
}

// The value of a key that has an effect only if `meaning` is true; otherwise the default, and a note if it is given.
static size_t size_if(bool meaning, struct config_doc *doc, const char *path, int64_t fallback)
{
    if (!meaning)
        config_doc_ignore(doc, path);
    return meaning ? config_doc_size(doc, path, fallback) : (size_t)fallback;
}

static bool flag_if(bool meaning, struct config_doc *doc, const char *path, bool fallback)
{
    if (!meaning)
        config_doc_ignore(doc, path);
    return meaning ? config_doc_flag(doc, path, fallback) : fallback;
}

static int resolve_ratio(struct config_doc *doc, struct config *out)
{
    static const char KEY[] = OPTIMIZER "ratio";
    struct config_offload_optimizer *offload = &out->offload_optimizer;
    bool meaning = out->stage == 3 && offload->tier == TIER_HOST;
    double ratio = config_doc_number(doc, KEY, 1);
    offload->ratio = meaning ? ratio : 1;
    if (!meaning)
        config_doc_ignore(doc, KEY);
    if (offload->tier == TIER_DEVICE || meaning || ratio == 1)
        return ERR_NONE;
    return config_doc_fail(doc, KEY,
                           "is %g, expected 1, or zero_optimization.stage 3 and the device \"cpu\": only "
                           "then can a part stay on the device",
                           ratio);
}

static int resolve_optimizer(struct config_doc *doc, struct config *out)
{
    struct config_offload_optimizer *offload = &out->offload_optimizer;
    const char *key;
    char shown[TEXT_MESSAGE_BYTES];
    TRY(resolve_device(doc, OPTIMIZER "device", "zero_optimization.cpu_offload", &offload->tier, &key));
    if (offload->tier != TIER_DEVICE && out->stage == 0)
        return config_doc_fail(doc, key,
                               "is %s and zero_optimization.stage is 0, expected stage 1, 2 or 3: without "
                               "ZeRO the optimizer stays on the device",
                               json_message(shown, config_doc_value(doc, key)));
    if (offload->tier == TIER_NVME && out->stage != 3)
        return config_doc_fail(doc, key,
                               "is \"nvme\" and zero_optimization.stage is %d, expected stage 3 or \"cpu\": "
                               "in stages 1 and 2 DeepSpeed silently uses \"cpu\"",
                               out->stage);
    bool offloaded = offload->tier != TIER_DEVICE, nvme = offload->tier == TIER_NVME;
    offload->pin_memory = flag_if(offloaded, doc, OPTIMIZER "pin_memory", true);
    offload->pipeline_read = flag_if(nvme, doc, OPTIMIZER "pipeline_read", false);
    offload->pipeline_write = flag_if(nvme, doc, OPTIMIZER "pipeline_write", false);
    out->sub_group_size = size_if(out->stage > 0, doc, "zero_optimization.sub_group_size", 1000000000);
    if (out->sub_group_size == 0)  // a sub-group for each tensor, as 1 makes them
        out->sub_group_size = 1;
    return resolve_ratio(doc, out);
}

static int resolve_param(struct config_doc *doc, struct config *out)
{
    struct config_offload_param *offload = &out->offload_param;
    const char *key;
    char shown[TEXT_MESSAGE_BYTES];
    TRY(resolve_device(doc, PARAM "device", "zero_optimization.cpu_offload_param", &offload->tier, &key));
    if (offload->tier != TIER_DEVICE && out->stage != 3)
        return config_doc_fail(doc, key,
                               "is %s and zero_optimization.stage is %d, expected stage 3: only "
                               "stage 3 partitions parameters",
                               json_message(shown, config_doc_value(doc, key)), out->stage);
    bool nvme = offload->tier == TIER_NVME;
    offload->pin_memory = flag_if(offload->tier != TIER_DEVICE, doc, PARAM "pin_memory", true);
    offload->buffer_count = size_if(nvme, doc, PARAM "buffer_count", 5);
    offload->buffer_size = size_if(nvme, doc, PARAM "buffer_size", 100000000);
    offload->max_in_cpu = size_if(nvme, doc, PARAM "max_in_cpu", 1000000000);
    return ERR_NONE;
}

// Gradients are on the optimizer's tier unless their own key names another.
static int resolve_gradient(struct config_doc *doc, struct config *out)
{
    static const char KEY[] = "zerogauge.offload_gradient.device";
    out->gradient_tier = device_at(doc, KEY, out->offload_optimizer.tier);
    if (out->gradient_tier == TIER_DEVICE)
        return ERR_NONE;
    if (out->offload_optimizer.tier == TIER_DEVICE)
        return config_doc_fail(doc, KEY,
                               "is \"%s\" and %sdevice is \"none\", expected \"none\", or an offloaded "
                               "optimizer",
                               config_device_name(out->gradient_tier), OPTIMIZER);
    if (out->gradient_tier == TIER_NVME && out->stage != 3)
        return config_doc_fail(doc, KEY, "is \"nvme\" and zero_optimization.stage is %d, expected stage 3 or \"cpu\"",
                               out->stage);
    return ERR_NONE;
}

static int resolve_delay(struct config_doc *doc, struct config *out)
{
    static const char SECTION[] = "zerogauge.delayed_update", START[] = "zerogauge.delayed_update.start_step";
    if (!config_doc_given(doc, SECTION))
        return ERR_NONE;
    if (!config_doc_given(doc, START))
        return config_doc_fail(doc, START, "missing, expected the first step with a delayed update");
    if (out->offload_optimizer.tier == TIER_DEVICE)
        return config_doc_fail(doc, SECTION,
                               "is given and %sdevice is \"none\", expected \"cpu\" or \"nvme\": only "
                               "an update on the host can be delayed",
                               OPTIMIZER);
    if (out->offload_optimizer.ratio < 1)
        return config_doc_fail(doc, SECTION,
                               "is given and %sratio is %g, expected 1: only an update on the host "
                               "can be delayed",
                               OPTIMIZER, out->offload_optimizer.ratio);
    out->delayed_update_start_step = config_doc_size(doc, START, 1);
    return ERR_NONE;
}

// Where no decision is between the gradients and the update, there is nothing to speculate about.
static int resolve_speculation(struct config_doc *doc, struct config *out)
{
    static const char KEY[] = "zerogauge.speculative_update";
    if (!config_doc_flag(doc, KEY, false))
        return ERR_NONE;
    if (out->gradient_tier == TIER_DEVICE)
        return config_doc_fail(
            doc, KEY,
            "is true and optimizer and gradients are not both offloaded, expected %sdevice and "
            "zerogauge.offload_gradient.device \"cpu\" or \"nvme\": an update on the device comes after "
            "all gradients",
            OPTIMIZER);
    if (out->delayed_update_start_step > 0)
        return config_doc_fail(doc, KEY,
                               "is true and zerogauge.delayed_update is given, expected one of the two: an update is "
                               "either one step late or ahead of its decision");
    out->speculative_update = out->check_overflow || out->gradient_clipping > 0;
    if (!out->speculative_update)
        config_doc_ignore(doc, KEY);
    return ERR_NONE;
}

// States are on NVMe because the host has no room for them, nor for a copy.
static int resolve_async_save(const struct config_doc *doc, struct config *out)
{
    static const char KEY[] = "zerogauge.async_save";
    out->async_save = config_doc_flag(doc, KEY, false);
    if (!out->async_save || (out->offload_optimizer.tier != TIER_NVME && out->offload_param.tier != TIER_NVME))
        return ERR_NONE;
    return config_doc_fail(
        doc, KEY,
        "is true and states are on NVMe, expected %sdevice and %sdevice \"cpu\" or \"none\": the host "
        "memory that they do not fit in would have to hold a copy of them",
        OPTIMIZER, PARAM);
}

// Each state of a sub-group that passes through the host needs a buffer there; with too few, even with its default,
// DeepSpeed fails an assertion in the middle of a step. Updated parameters need no buffer of their own if they are the
// master on the tier of its moments, or if they live on the host.
static int resolve_buffers(struct config_doc *doc, struct config *out)
{
    static const char KEY[] = OPTIMIZER "buffer_count";
    struct config_offload_optimizer *offload = &out->offload_optimizer;
    bool gradient = out->gradient_tier != TIER_HOST;
    bool separate = out->precision != out->master_dtype || offload->tier != out->offload_param.tier ||
                    out->delayed_update_start_step > 0 || out->speculative_update;
    bool updated = separate && out->offload_param.tier != TIER_HOST;
    size_t least = 3 + (size_t)gradient + (size_t)updated;
    bool nvme = offload->tier == TIER_NVME;
    offload->buffer_count = size_if(offload->tier != TIER_DEVICE, doc, KEY, nvme && gradient ? 5 : 4);
    if (!nvme || offload->buffer_count >= least)
        return ERR_NONE;
    if (offload->buffer_count == 4) {  // DeepSpeed's documented number, whose own states need no more
        config_doc_note(doc, CONFIG_RAISED, config_key_find(KEY)->path);
        offload->buffer_count = least;
        return ERR_NONE;
    }
    return config_doc_fail(doc, KEY,
                           "is %zu, expected at least %zu, one for each state of a sub-group: exp_avg, "
                           "exp_avg_sq, the master parameters%s%s",
                           offload->buffer_count, least, updated ? ", the updated parameters" : "",
                           gradient ? ", the gradients" : "");
}

// In DeepSpeed, cpu_checkpointing only says where checkpoints go, and the model's code makes them.
static int resolve_activations(struct config_doc *doc, struct config *out)
{
    static const char ENABLED[] = OWN_CHECKPOINTING "enabled", DEVICE[] = OWN_CHECKPOINTING "device";
    static const char CPU[] = "activation_checkpointing.cpu_checkpointing";
    bool cpu = config_doc_flag(doc, CPU, false);
    out->activation_checkpointing = config_doc_flag(doc, ENABLED, cpu);
    out->activation_tier = device_at(doc, DEVICE, cpu ? TIER_HOST : TIER_DEVICE);
    if (cpu && (!out->activation_checkpointing || out->activation_tier != TIER_HOST))
        return config_doc_fail(doc, CPU,
                               "is true, which means %senabled true and device \"cpu\", but those are "
                               "%s and \"%s\"; expected only one of the two sections",
                               OWN_CHECKPOINTING, out->activation_checkpointing ? "true" : "false",
                               config_device_name(out->activation_tier));
    if (!out->activation_checkpointing && out->activation_tier != TIER_DEVICE)
        return config_doc_fail(doc, DEVICE, "is \"%s\" and %senabled is false, expected enabled to be true",
                               config_device_name(out->activation_tier), OWN_CHECKPOINTING);
    return ERR_NONE;
}

int config_resolve_offload(struct config_doc *doc, struct config *out)
{
    TRY(resolve_optimizer(doc, out));
    TRY(resolve_param(doc, out));
    TRY(resolve_gradient(doc, out));
    TRY(resolve_delay(doc, out));
    TRY(resolve_speculation(doc, out));
    TRY(resolve_async_save(doc, out));
    TRY(resolve_buffers(doc, out));
    return resolve_activations(doc, out);
}
