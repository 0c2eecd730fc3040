// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench checkpoint`: saving the states of training with everything durable, loading them with nothing in the
// page cache, by as many ranks and by another number, against fio's reads and writes of the same files. Every byte that
// was saved is compared after a load.
#include "bench/checkpoint/checkpoint_case.h"

#include "base/err.h"
#include "base/safe_text.h"
#include "base/process/check_folder.h"

#include <inttypes.h>
#include <popt.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/statvfs.h>

static int checkpoint_main(int argc, const char **argv);

const struct benchmark bench_checkpoint = {
    .name = "checkpoint",
    .run = checkpoint_main,
    .uses = BENCH_USES_STORAGE,
    .summary = "saving and loading checkpoints, against fio",
    .text = "A save ends when all files are durable, before older checkpoints are removed; a load begins with none of "
            "them in memory, and compares the digest of every block. Each is repeated in turn with fio, which writes "
            "and syncs, or reads, the same bytes in a file for each rank. Of an asynchronous save only the copy is "
            "counted, for which steps wait. With several folders, states are also striped over them.",
    .examples = {"zerogauge bench checkpoint --nvme-path /mnt/nvme --world 8",
                 "zerogauge bench checkpoint --model gpt2-124m --world 4"},
};

struct given {
    char *model;
    int world;
    struct bench_options shared;
};

// Saves by these ranks, and loads by the same.
static int save_and_load(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks)
{
    bench->saved_by = ranks->setting.world;
    TRY(checkpoint_ranks_fill(ranks));
    TRY(checkpoint_case_save(bench, ranks));
    if (!ranks->setting.on_nvme)
        TRY(checkpoint_case_begin(bench, ranks));
    return checkpoint_case_load(bench, ranks);
}

static int with_ranks(struct checkpoint_bench *bench, int world, bool on_nvme,
                      int (*run)(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks))
{
    const struct checkpoint_ranks_setting setting = {
        .model = bench->model, .world = world, .on_nvme = on_nvme, .storage = &bench->options->storage};
    struct checkpoint_ranks ranks;
    TRY(checkpoint_ranks_open(&setting, &ranks));
    int code = run(bench, &ranks);
    checkpoint_ranks_close(&ranks);
    return code;
}

// All cases of the checkpoints that `world` ranks save, in a store of their own.
static int run_world(struct checkpoint_bench *bench, int world, bool on_nvme)
{
    bench->step = 0;
    TRY(file_join(bench->folder, "store", bench->store_path));
    TRY(store_open(bench->store_path, &bench->store));
    int code = with_ranks(bench, world, on_nvme, save_and_load);
    if (code == ERR_NONE && !on_nvme)
        code = with_ranks(bench, world > 1 ? world - 1 : 2, false, checkpoint_case_load);
    store_close(&bench->store);
    check_folder_remove(bench->store_path);
    return code;
}

// A store holds up to three checkpoints; fio writes one more, and states on NVMe take as much as another.
static int check_space(const struct checkpoint_bench *bench)
{
    enum { COPIES = 5 };
    struct statvfs status;
    uint64_t needed = COPIES * STATE_COUNT * sizeof(float) * model_param_elements(bench->model, false);
    if (statvfs(bench->folder, &status) != 0 || needed <= (uint64_t)status.f_bavail * status.f_frsize)
        return ERR_NONE;
    return err_set(ERR_USAGE,
                   "%s: has %" PRIu64 " MiB, %" PRIu64 " MiB are needed: give another --nvme-path, or a "
                   "smaller --model",
                   bench->options->storage.paths[0], (uint64_t)status.f_bavail * status.f_frsize >> 20, needed >> 20);
}

static int run_all(struct checkpoint_bench *bench, const struct given *given)
{
    int worlds[] = {given->world ? given->world : 2, given->world || bench->options->quick ? 0 : 1};
    TRY(check_space(bench));
    for (size_t i = 0; i < sizeof worlds / sizeof *worlds; i++)
        if (worlds[i] > 0)
            TRY(run_world(bench, worlds[i], false));
    return bench->options->storage.path_count > 1 ? run_world(bench, worlds[0], true) : ERR_NONE;
}

static int begin(struct checkpoint_bench *bench, struct given *given)
{
    struct bench_options *shared = &given->shared;
    if (shared->size_count > 0 || shared->thread_count > 0)
        return err_set(ERR_USAGE, "--sizes and --threads have no effect here; use --model and --world");
    if (given->world < 0 || given->world > CHECKPOINT_WORLD_MAX)
        return err_set(ERR_USAGE, "--world %d: expected 1 to %d", given->world, CHECKPOINT_WORLD_MAX);
    TRY(checkpoint_model_find(given->model, shared->quick, &bench->model));
    bench_default_repeat(shared, 5, 3, 1);
    if (fio_version(bench->fio) != ERR_NONE) {
        bench->fio[0] = '\0';
        text_error("zerogauge bench checkpoint: no baseline");
    }
    TRY(checkpoint_folder_make(&shared->storage, bench->folder));
    int code = run_all(bench, given);
    check_folder_remove(bench->folder);
    return code;
}

static int checkpoint_main(int argc, const char **argv)
{
    struct given given = {0};
    const struct poptOption own[] = {
        {"model", 'm', POPT_ARG_STRING, &given.model, 0,
         "whose states are saved (default: a GPT of 63 million parameters)", "MODEL"},
        {"world", 'w', POPT_ARG_INT, &given.world, 0, "ranks that save (default: 2, then 1)", "N"},
        POPT_TABLEEND,
    };
    struct checkpoint_bench *bench = calloc(1, sizeof *bench);
    int code = bench_parse(argc, argv, &bench_checkpoint, own, &given.shared);
    if (code == ERR_NONE && !given.shared.help)
        code = bench ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the samples");
    if (code == ERR_NONE && !given.shared.help) {
        bench->options = &given.shared;
        code = begin(bench, &given);
    }
    bench_release(&given.shared, own);
    free(bench);
    return bench_exit("checkpoint", code);
}
