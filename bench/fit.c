// SPDX-License-Identifier: Apache-2.0
#include "fit.h"

#include "activation.h"
#include "err.h"
#include "formula.h"
#include "plan_model.h"
#include "size.h"
#include "stage.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

enum { WORLD_MAX = 4096 };

// A rank as it would be opened.
struct planned {
    struct config config;
    struct tier *tier;
    struct ledger ledger;
    struct stage stage;
    struct activations activations;
};

static int plan(const struct model *model, struct comm *comm, struct planned *p, struct formula *formula)
{
    const struct stage_operations *operations;
    const struct tier_setting tier_setting = {.planned = true};
    TRY(tier_open(&p->ledger, &tier_setting, &p->tier));
    TRY(stage_find(p->config.stage, &operations));
    const struct stage_setting setting = {
        .model = model, .config = &p->config, .comm = comm, .tier = p->tier, .ledger = &p->ledger};
    TRY(stage_plan(operations, &setting, &p->stage));
    TRY(activations_open(model, &p->config, &p->stage.move, p->tier, &p->activations));
    size_t run_bytes = model_run_bytes(model, p->config.micro_batch, p->config.precision,
                                       p->config.activation_checkpointing);
    formula_of(&p->stage, 0, run_bytes, 0, formula);
    activations_formula(&p->activations, formula);
    return ERR_NONE;
}

static int plan_rank(const struct model *model, const char *preset, int world, struct comm *comm,
                     struct formula *formula)
{
    static const char *const set[] = {"train_micro_batch_size_per_gpu=1"};
    static const char *const path[] = {"."};
    const struct config_options options = {
        .world = world, .set = set, .set_count = 1, .nvme_paths = path, .nvme_path_count = 1};
    struct planned *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(ERR_MEMORY, "no memory to plan a rank");
    int rc = config_load_preset(preset, &options, &p->config, NULL);
    // A limit alone, which a user raises for a large model: what is held follows from the model's own layers.
    p->config.offload_param.buffer_size = SIZE_MAX;
    if (rc == ERR_NONE)
        rc = plan(model, comm, p, formula);
    activations_close(&p->activations);
    if (p->stage.operations)
        stage_close(&p->stage);
    tier_close(p->tier);
    free(p);
    return rc;
}

int fit_bytes(const struct model *model, const char *preset, int world, uint64_t out[3])
{
    struct formula formula;
    if (world < 1 || world > WORLD_MAX)
        return err_set(ERR_USAGE, "%d ranks: expected 1 to %d", world, WORLD_MAX);
    struct comm **comms = calloc((size_t)world, sizeof(struct comm *));
    int rc = comms ? comm_local_open(world, comms) : err_set(ERR_MEMORY, "no memory for %d ranks", world);
    if (rc == ERR_NONE)
        rc = plan_rank(model, preset, world, comms[0], &formula);
    for (int i = 0; comms && i < world; i++)
        comm_close(comms[i]);
    free(comms);
    if (rc != ERR_NONE)
        return err_prefix(rc, "%s, %s", model->name, preset);
    for (int tier = 0; tier < TIER_COUNT; tier++) {
        out[tier] = 0;
        for (int kind = 0; kind < KIND_COUNT; kind++)
            out[tier] += formula.held_bytes[tier][kind];
    }
    return ERR_NONE;
}

static json_t *available_json(uint64_t bytes)
{
    return bytes > 0 ? json_integer((json_int_t)bytes) : json_null();
}

// "device is 1.2 GiB short", of the first tier that is, else which one is not known; "" where all is enough.
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
            snprintf(out, bytes, "what the %s has is not known", ledger_tier_name((enum ledger_tier)tier));
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
    json_t *record = json_pack(
        "{s:s, s:s, s:I, s:i, s:s, s:o, s:I, s:I, s:I, s:o, s:o, s:o, s:o}", "record", "fit", "model", model->name,
        "params", (json_int_t)model_param_elements(model, false), "world", setting->world, "preset", preset, "fits",
        fits, "device_bytes", (json_int_t)needs[0], "host_bytes", (json_int_t)needs[1], "nvme_bytes",
        (json_int_t)needs[2], "device_available_bytes", available_json(has[0]), "host_available_bytes",
        available_json(has[1]), "nvme_available_bytes", available_json(has[2]), "reason",
        *reason ? json_string(reason) : json_null());
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

static uint64_t available_memory(void)
{
    char line[256];
    uint64_t kib = 0;
    FILE *file = fopen("/proc/meminfo", "re");
    while (file && kib == 0 && fgets(line, sizeof line, file))
        if (sscanf(line, "MemAvailable: %" SCNu64, &kib) != 1)
            kib = 0;
    if (file)
        fclose(file);
    return kib << 10;
}

// The kernel lists what its drivers hold.
static bool has_gpu(void)
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
    uint64_t memory = available_memory() / (uint64_t)world;
    bool gpu = has_gpu();
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
