// SPDX-License-Identifier: Apache-2.0
// The folders on NVMe, and how they are read and written. Without a state on NVMe these keys have no effect.
#include "ref/config/config_doc.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <stdio.h>
#include <string.h>

static const char OPTIMIZER_PATH[] = "zero_optimization.offload_optimizer.nvme_path";
static const char PARAM_PATH[] = "zero_optimization.offload_param.nvme_path";
static const char ENGINE[] = "zerogauge.aio_engine";

// The key that puts a state on NVMe; null if no key does.
static const char *nvme_key(const struct config *config)
{
    if (config->offload_optimizer.tier == TIER_NVME)
        return "zero_optimization.offload_optimizer.device";
    if (config->offload_param.tier == TIER_NVME)
        return "zero_optimization.offload_param.device";
    if (config->gradient_tier == TIER_NVME)
        return "zerogauge.offload_gradient.device";
    return config->activation_tier == TIER_NVME ? "zerogauge.activation_checkpointing.device" : NULL;
}

bool config_uses_nvme(const struct config *config)
{
    return nvme_key(config) != NULL;
}

static void add_path(struct config *out, const char *path)
{
    snprintf(out->nvme_paths[out->nvme_path_count++], CONFIG_PATH_NAME_BYTES, "%s", path);
}

static int take_options_paths(const struct config_options *options, struct config *out)
{
    if (options->nvme_path_count > CONFIG_NVME_PATH_MAX)
        return err_set(ERR_USAGE, "--nvme-path is given %zu times, expected at most %d", options->nvme_path_count,
                       CONFIG_NVME_PATH_MAX);
    for (size_t i = 0; i < options->nvme_path_count; i++) {
        const char *path = options->nvme_paths[i];
        char shown[TEXT_MESSAGE_BYTES];
        if (!*path || strlen(path) >= CONFIG_PATH_NAME_BYTES)
            return err_set(ERR_USAGE, "--nvme-path \"%s\": expected a path of 1 to %d bytes",
                           text_message(shown, path, CONFIG_PATH_BYTES), CONFIG_PATH_NAME_BYTES - 1);
        // config_print writes the path as JSON.
        json_t *json = json_string(path);
        json_decref(json);
        if (!json)
            return err_set(ERR_USAGE, "--nvme-path \"%s\": is not UTF-8", text_message(shown, path, CONFIG_PATH_BYTES));
        for (int j = 0; j < out->nvme_path_count; j++)
            if (strcmp(out->nvme_paths[j], path) == 0)
                return err_set(ERR_USAGE, "--nvme-path %s is given twice, expected different paths", path);
        add_path(out, path);
    }
    return ERR_NONE;
}

// True if two values name the same paths; a string equals an array of one string.
static bool same_paths(const json_t *a, const json_t *b)
{
    if (json_is_string(a) && json_array_size(b) == 1)
        b = json_array_get(b, 0);
    else if (json_is_string(b) && json_array_size(a) == 1)
        a = json_array_get(a, 0);
    return json_equal(a, b);
}

// Both sections must give the same paths: all states are striped over one list.
static int resolve_paths(const struct config_doc *doc, const char *key, struct config *out)
{
    if (doc->options->nvme_path_count > 0)
        return take_options_paths(doc->options, out);
    const json_t *optimizer = config_doc_given(doc, OPTIMIZER_PATH), *param = config_doc_given(doc, PARAM_PATH);
    if (optimizer && param && !same_paths(optimizer, param)) {
        char shown[TEXT_MESSAGE_BYTES], other[TEXT_MESSAGE_BYTES];
        return config_doc_fail(doc, PARAM_PATH,
                               "is %s and %s is %s, expected the same: all states are striped over one "
                               "list of paths",
                               json_message(shown, param), OPTIMIZER_PATH, json_message(other, optimizer));
    }
    const json_t *paths = optimizer ? optimizer : param;
    bool param_alone = out->offload_param.tier == TIER_NVME && out->offload_optimizer.tier != TIER_NVME;
    if (!paths)
        return config_doc_fail(doc, key, "is \"nvme\" and no path is given, expected --nvme-path DIR or %s",
                               param_alone ? PARAM_PATH : OPTIMIZER_PATH);
    if (json_is_string(paths))
        add_path(out, json_string_value(paths));
    for (size_t i = 0; i < json_array_size(paths); i++)
        add_path(out, json_string_value(json_array_get(paths, i)));
    return ERR_NONE;
}

static int resolve_engine(const struct config_doc *doc, struct config *out)
{
    const char *option = doc->options->engine;
    const char *name = option ? option : config_doc_string(doc, ENGINE, "libaio");
    bool io_uring = strcmp(name, "io_uring") == 0;
    if (!io_uring && strcmp(name, "libaio") != 0) {
        char shown[TEXT_MESSAGE_BYTES];
        return err_set(ERR_USAGE, "--engine \"%s\": expected libaio or io_uring",
                       text_message(shown, name, CONFIG_PATH_BYTES));
    }
    out->aio.engine = io_uring ? NVME_IO_URING : NVME_LIBAIO;
    return ERR_NONE;
}

static int resolve_block(const struct config_doc *doc, struct config *out)
{
    enum { BLOCK_BYTES_MAX = 1 << 30 };
    static const char KEY[] = "aio.block_size";
    int64_t bytes = config_doc_whole(doc, KEY, 1048576);
    if (bytes < TIER_NVME_ALIGNMENT || bytes > BLOCK_BYTES_MAX || bytes % TIER_NVME_ALIGNMENT != 0)
        return config_doc_fail(doc, KEY, "is %lld, expected a multiple of %d from %d to %d", (long long)bytes,
                               TIER_NVME_ALIGNMENT, TIER_NVME_ALIGNMENT, BLOCK_BYTES_MAX);
    out->aio.block_bytes = (size_t)bytes;
    return ERR_NONE;
}

int config_resolve_nvme(struct config_doc *doc, struct config *out)
{
    const char *key = nvme_key(out);
    TRY(resolve_block(doc, out));
    TRY(resolve_engine(doc, out));
    out->aio.queue_depth = (int)config_doc_whole(doc, "aio.queue_depth", 8);
    out->aio.single_submit = config_doc_flag(doc, "aio.single_submit", false);
    out->aio.overlap_events = config_doc_flag(doc, "aio.overlap_events", true);
    out->aio.intra_op_parallelism = (int)config_doc_whole(doc, "aio.intra_op_parallelism", 1);
    if (key)
        return resolve_paths(doc, key, out);
    out->aio =
        (struct nvme_aio){.block_bytes = 1048576, .queue_depth = 8, .overlap_events = true, .intra_op_parallelism = 1};
    config_doc_ignore(doc, "aio");
    config_doc_ignore(doc, ENGINE);
    config_doc_ignore(doc, OPTIMIZER_PATH);
    config_doc_ignore(doc, PARAM_PATH);
    return ERR_NONE;
}
