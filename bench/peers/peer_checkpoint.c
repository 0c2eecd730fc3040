// SPDX-License-Identifier: Apache-2.0
// Checkpoints in turn with a peer: the states of ranks that hold a shard of every parameter, with its two moments in
// fp32. The setting has "operation" (save or load), "world", "folder", and "params", the elements of each parameter.
// The peer saves there, with everything durable, or loads what it saved first, with nothing of it in the page cache; it
// gives its states values that depend on state, parameter and element, and compares them after a load. Rates count the
// bytes of the states, whatever else a file has.
#include "bench/checkpoint/checkpoint_case.h"
#include "bench/peers/bench_peer.h"

#include "base/err.h"
#include "base/process/check_folder.h"

#include <stdlib.h>
#include <string.h>

struct turns {
    struct checkpoint_ranks ranks;
    struct store store;
    char folder[PATH_MAX], store_path[PATH_MAX], peer_path[PATH_MAX];
    bool loads, cold;  // cold: all but a hundredth of what the last load read was not in the page cache
    uint64_t step;
    double state_bytes;
    struct bench_samples ours, theirs;  // GB/s
};

static int save(struct turns *turns, double *ns)
{
    uint64_t begin_ns = clock_now_ns();
    TRY(checkpoint_ranks_save(&turns->ranks, &turns->store, ++turns->step));
    *ns = (double)(clock_now_ns() - begin_ns);
    return store_settle(&turns->store);
}

static int load(struct turns *turns, double *ns)
{
    struct checkpoint_files files;
    uint64_t resident_bytes = 0;
    TRY(checkpoint_ranks_clear(&turns->ranks));
    int code = checkpoint_files_open(turns->store_path, &files);
    if (code == ERR_NONE)
        code = checkpoint_files_drop(&files, &resident_bytes);
    turns->cold = resident_bytes <= files.total_bytes / 100;
    checkpoint_files_close(&files);
    TRY(code);
    uint64_t begin_ns = clock_now_ns();
    TRY(checkpoint_ranks_load(&turns->ranks, turns->store_path));
    *ns = (double)(clock_now_ns() - begin_ns);
    return checkpoint_ranks_compare(&turns->ranks);
}

static int measure(struct turns *turns, const struct bench_options *options, struct peer *peer)
{
    const size_t turn_count = options->warmup + options->repeat;
    for (size_t i = 0; i < turn_count; i++) {
        double ours_ns, theirs_ns;
        TRY(checkpoint_check_interrupt());
        bench_progress("checkpoint, compared with %s: turn %zu of %zu", peer->name, i + 1, turn_count);
        TRY((turns->loads ? load : save)(turns, &ours_ns));
        if (turns->loads && !turns->cold)
            return bench_skip("peer: %s keeps its files in memory, so that no load is cold", turns->folder);
        TRY(peer_run(peer, 1, &theirs_ns));
        if (i < options->warmup)
            continue;
        turns->ours.values[turns->ours.count++] = turns->state_bytes / ours_ns;
        turns->theirs.values[turns->theirs.count++] = turns->state_bytes / theirs_ns;
    }
    double ns;
    return turns->loads ? ERR_NONE : load(turns, &ns);
}

static int start_peer(const struct turns *turns, const struct model *model, struct peer *peer)
{
    json_t *params = json_array();
    for (int i = 0; i < model->param_count; i++)
        json_array_append_new(params, json_integer((json_int_t)model->params[i].count));
    TRY(peer_send_line(peer, json_pack("{s:s, s:s, s:i, s:s, s:o}", "part", "checkpoint", "operation",
                                       turns->loads ? "load" : "save", "world", turns->ranks.setting.world, "folder",
                                       turns->peer_path, "params", params)));
    return peer_ready(peer);
}

static int print(const struct peer_options *options, const struct peer *peer, const struct model *model,
                 const struct turns *turns, uint64_t begin_ns)
{
    struct bench_record record = {
        .name = "peer",
        .description = json_pack("{s:s, s:s, s:s, s:s, s:I, s:i}", "part", "checkpoint", "peer",
                                 options->label ? options->label : peer->name, "operation",
                                 turns->loads ? "load" : "save", "model", model->name, "params",
                                 (json_int_t)model_param_elements(model, false), "world", turns->ranks.setting.world),
        .unit = "GB/s",
        .items = turns->state_bytes,
        .baseline_items = turns->state_bytes,
        .begin_ns = begin_ns,
        .samples = &turns->ours,
        .baseline_name = peer->name,
        .baseline = &turns->theirs};
    return bench_print(&options->shared, &record);
}

static int run(const struct peer_options *options, const struct model *model, struct turns *turns, struct peer *peer)
{
    uint64_t begin_ns = clock_now_ns();
    double ns;
    turns->state_bytes = (double)(STATE_COUNT * sizeof(float) * model_param_elements(model, false));
    TRY(checkpoint_ranks_fill(&turns->ranks));
    TRY(save(turns, &ns));
    TRY(start_peer(turns, model, peer));
    TRY(measure(turns, &options->shared, peer));
    return turns->loads && !turns->cold ? ERR_NONE : print(options, peer, model, turns, begin_ns);
}

static int open_and_run(const struct peer_options *options, const struct model *model, struct turns *turns,
                        struct peer *peer)
{
    const struct checkpoint_ranks_setting setting = {
        .model = model, .world = options->world, .storage = &options->shared.storage};
    TRY(file_join(turns->folder, "store", turns->store_path));
    TRY(file_join(turns->folder, "peer", turns->peer_path));
    TRY(checkpoint_ranks_open(&setting, &turns->ranks));
    int code = store_open(turns->store_path, &turns->store);
    if (code == ERR_NONE) {
        code = run(options, model, turns, peer);
        store_close(&turns->store);
    }
    checkpoint_ranks_close(&turns->ranks);
    return code;
}

int peer_checkpoint(const struct peer_options *options, struct peer *peer)
{
    struct peer_options complete = *options;
    const struct model *model;
    const char *operation = options->operation ? options->operation : "save";
    struct turns turns = {.loads = strcmp(operation, "load") == 0};
    if (!turns.loads && strcmp(operation, "save") != 0)
        return err_set(ERR_USAGE, "--operation %s: expected save or load", operation);
    if (options->world > CHECKPOINT_WORLD_MAX)
        return err_set(ERR_USAGE, "--world %d: expected 1 to %d", options->world, CHECKPOINT_WORLD_MAX);
    bench_default_repeat(&complete.shared, 5, 3, 1);
    TRY(checkpoint_model_find(options->model, false, &model));  // quick runs, too: small files compare otherwise
    TRY(checkpoint_folder_make(&options->shared.storage, turns.folder));
    int code = open_and_run(&complete, model, &turns, peer);
    check_folder_remove(turns.folder);
    return code;
}
