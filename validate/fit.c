// SPDX-License-Identifier: Apache-2.0
#include "validate/fit.h"

#include "base/err.h"
#include "ref/tier/folder_room.h"
#include "plan/planner/plan.h"
#include "plan/planner/plan_model.h"
#include "base/resources.h"
#include "base/size.h"

#include <assert.h>
#include <dirent.h>
#include <stdio.h>
#include <sys/statvfs.h>

enum { WORLD_MAX = 4096 };

int fit_bytes(const struct model *model, const char *preset, int world, uint64_t out[3])
{
    static const char *const set[] = {"train_micro_batch_size_per_gpu=1"};
    static const char *const path[] = {"."};
    const struct config_options options = {
        .world = world, .set = set, .set_count = 1, .nvme_paths = path, .nvme_path_count = 1};
    struct config config;
    struct plan plan;
    if (world < 1 || world > WORLD_MAX)
        return err_set(ERR_USAGE, "%d ranks: expected 1 to %d", world, WORLD_MAX);
    TRY(config_load_preset(preset, &options, &config, NULL));
    // This key is only a limit, which a user raises for a large model; the buffers follow the model's own layers.
    config.offload_param.buffer_size = SIZE_MAX;
    const struct plan_setting setting = {.config = &config, .model = model, .world = world, .steps = 1};
    int rc = plan_run(&setting, &plan);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        out[tier] = plan.peak_bytes[tier];
    return rc == ERR_NONE ? rc : err_prefix(rc, "%s, %s", model->name, preset);
}

static json_t *available_json(uint64_t bytes)
{
    return bytes > 0 ? json_integer((json_int_t)bytes) : json_null();
}

// "device is 1.2 GiB short" for the first tier that is short, else names a tier of unknown size; "" if everything fits.
static void find_reason(const uint64_t needs[3], const uint64_t has[3], char *out, size_t bytes)
{
    out[0] = '\0';
    for (int tier = 0; tier < TIER_COUNT && !out[0]; tier++) {
        char text[SIZE_TEXT_BYTES];
        if (has[tier] > 0 && needs[tier] > has[tier])
            snprintf(out, bytes, "%s is %s short", ledger_tier_name((enum ledger_tier)tier),
                     size_short_text(needs[tier] - has[tier], text));
    }
    for (int tier = 0; tier < TIER_COUNT && !out[0]; tier++)
        if (has[tier] == 0 && needs[tier] > 0)
            snprintf(out, bytes, "size of %s unknown", ledger_tier_name((enum ledger_tier)tier));
}

static int fit_one(const struct fit_setting *setting, const struct model *model, const char *preset, json_t *records)
{
    const uint64_t has[] = {setting->device_bytes, setting->host_bytes, setting->nvme_bytes};
    uint64_t needs[3];
    char reason[128];
    bool exceeds = false;
    TRY(fit_bytes(model, preset, setting->world, needs));
    find_reason(needs, has, reason, sizeof reason);
    for (int tier = 0; tier < TIER_COUNT; tier++)
        exceeds |= has[tier] > 0 && needs[tier] > has[tier];
    json_t *fits = exceeds ? json_false() : *reason ? json_null() : json_true();
    json_t *record =
        json_pack("{s:s, s:s, s:I, s:i, s:s, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "record", "fit", "model",
                  model->name, "params", (json_int_t)model_param_elements(model, false), "world", setting->world,
                  "preset", preset, "fits", fits, "device_bytes", (json_int_t)needs[0], "host_bytes",
                  (json_int_t)needs[1], "nvme_bytes", (json_int_t)needs[2], "device_available_bytes",
                  available_json(has[0]), "host_available_bytes", available_json(has[1]), "nvme_available_bytes",
                  available_json(has[2]), "reason", *reason ? json_string(reason) : json_null());
    return record && json_array_append_new(records, record) == 0 ? ERR_NONE
                                                                 : err_set(ERR_MEMORY, "no memory for a record");
}

int fit_all(const struct fit_setting *setting, json_t *records)
{
    for (const char *const *name = setting->models; *name; name++) {
        const struct model *model;
        const char *preset;
        TRY(plan_model_find(*name, 1, &model));
        for (size_t i = 0; (preset = config_preset_name(i)); i++)
            TRY(fit_one(setting, model, preset, records));
    }
    return ERR_NONE;
}

bool fit_has_gpu(void)
{
    DIR *folder = opendir("/proc/driver/nvidia/gpus");
    struct dirent *entry;
    bool found = false;
    while (folder && (entry = readdir(folder)))
        found |= entry->d_name[0] != '.';
    if (folder)
        closedir(folder);
    return found;
}

int fit_available(int world, const char *device_memory, const char *host_memory, const char *const *paths,
                  struct fit_setting *out)
{
    assert(world > 0);
    uint64_t memory = resources_memory_available() / (uint64_t)world;
    bool gpu = fit_has_gpu();
    out->world = world;
    out->device_bytes = gpu ? 0 : memory / 2;
    out->host_bytes = gpu ? memory : memory / 2;
    out->nvme_bytes = 0;
    if (device_memory)
        TRY(size_parse(device_memory, &out->device_bytes));
    if (host_memory)
        TRY(size_parse(host_memory, &out->host_bytes));
    for (; *paths; paths++) {
        struct statvfs status;
        if (statvfs(*paths, &status) == 0)
            out->nvme_bytes += (uint64_t)status.f_bavail * status.f_frsize / (uint64_t)world;
    }
    return ERR_NONE;
}

// Of `bench swap`, which has the largest files.
static const uint64_t QUICK_FILES_BYTES = UINT64_C(384) << 20, FULL_FILES_BYTES = UINT64_C(1536) << 20;

int fit_check_paths(const char *const *paths, bool quick)
{
    uint64_t count = 0;
    while (paths[count])
        count++;
    for (; *paths; paths++) {
        TRY(folder_check_writable("--nvme-path", *paths));
        TRY(folder_check_room("--nvme-path", *paths, (quick ? QUICK_FILES_BYTES : FULL_FILES_BYTES) / count));
    }
    return ERR_NONE;
}
