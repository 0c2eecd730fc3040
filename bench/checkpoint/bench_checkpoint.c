// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench checkpoint`: saving the states of training with everything durable, loading them with nothing in the
// page cache, by as many ranks and by another number, against fio's reads and writes of the same files. Every byte that
// was saved is compared after a load.
#include "bench/checkpoint/checkpoint_files.h"
#include "bench/checkpoint/checkpoint_ranks.h"
#include "bench/storage/fio.h"

#include "base/err.h"
#include "base/process/check_folder.h"
#include "base/process/interrupt.h"

#include <inttypes.h>
#include <popt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

static int checkpoint_main(int argc, const char **argv);

const struct benchmark bench_checkpoint = {
    .name = "checkpoint",
    .run = checkpoint_main,
    .uses = BENCH_USES_STORAGE,
    .summary = "saving and loading checkpoints, against fio",
    .text = "A save ends when all files are durable; a load begins with none of them in memory, and reads them twice: "
            "for their digests, and for the states. Each is repeated in turn with fio, which writes and syncs, or "
            "reads, the same bytes in a file for each rank. With several folders, states are also striped over them.",
    .examples = {"zerogauge bench checkpoint --nvme-path /mnt/nvme --world 8",
                 "zerogauge bench checkpoint --model gpt2-124m --world 4"},
};

struct given {
    char *model;
    int world;
    struct bench_options shared;
};

struct checkpoint_bench {
    const struct bench_options *options;
    const struct model *model;
    char fio[FIO_VERSION_BYTES];           // empty: not installed
    char folder[PATH_MAX];                 // of this run, in the first folder for storage
    char store_path[PATH_MAX];             // in it
    struct store store;                    // open while `saved_by` is not 0
    int saved_by;                          // ranks that saved the store's checkpoints
    uint64_t step;                         // of the store's newest checkpoint
    struct bench_samples samples, of_fio;  // GB/s
};

static volatile sig_atomic_t interrupted;

static void note_interrupt(int signal_number)
{
    interrupted = signal_number;
}

static void take(struct bench_samples *samples, double value)
{
    samples->values[samples->count++] = value;
}

// Prints a case, whose data has been verified.
static int print(struct checkpoint_bench *bench, const struct checkpoint_ranks *ranks, const char *operation,
                 uint64_t total_bytes, uint64_t begin_ns)
{
    const struct checkpoint_ranks_setting *setting = &ranks->setting;
    const struct bench_storage *storage = setting->storage;
    json_t *description = json_pack(
        "{s:s,s:s,s:I,s:i,s:i,s:s,s:i}", "operation", operation, "model", bench->model->name, "params",
        (json_int_t)model_param_elements(bench->model, false), "world", setting->world, "saved_by", bench->saved_by,
        "states", setting->on_nvme ? "nvme" : "memory", "paths", setting->on_nvme ? storage->path_count : 1);
    struct bench_record record = {.name = "checkpoint",
                                  .description = description,
                                  .detail = json_pack("{s:I}", "bytes", (json_int_t)total_bytes),
                                  .unit = "GB/s",
                                  .verified = true,
                                  .items = (double)total_bytes,
                                  .begin_ns = begin_ns,
                                  .samples = &bench->samples,
                                  .baseline_name = bench->fio,
                                  .baseline = bench->fio[0] ? &bench->of_fio : NULL};
    return bench_print(bench->options, &record);
}

// Whether the case makes another round; counts from 0.
static bool repeats(struct checkpoint_bench *bench, size_t round)
{
    if (round == 0)
        bench->samples.count = bench->of_fio.count = 0;
    return bench_repeats(bench->options->warmup, bench->options->repeat, round);
}

static int check_interrupt(void)
{
    return interrupted ? err_set(ERR_IO, "interrupted by signal %d", (int)interrupted) : ERR_NONE;
}

static int save_once(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks, bool counted)
{
    struct checkpoint_files files;
    uint64_t begin_ns = clock_now_ns();
    TRY(checkpoint_ranks_save(ranks, &bench->store, ++bench->step));
    double ns = (double)(clock_now_ns() - begin_ns), bytes_per_ns = 0;
    int code = checkpoint_files_open(bench->store_path, &files);
    if (code == ERR_NONE && bench->fio[0])
        code = checkpoint_files_fio_write(&files, bench->folder, &bytes_per_ns);
    if (code == ERR_NONE && counted) {
        take(&bench->samples, (double)files.total_bytes / ns);
        take(&bench->of_fio, bytes_per_ns);
    }
    checkpoint_files_close(&files);
    return code;
}

// *total_bytes: of the newest checkpoint's rank files.
static int count_bytes(const struct checkpoint_bench *bench, uint64_t *total_bytes)
{
    struct checkpoint_files files;
    int code = checkpoint_files_open(bench->store_path, &files);
    *total_bytes = files.total_bytes;
    checkpoint_files_close(&files);
    return code;
}

// Loads what was saved, and compares every element.
static int verify(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks)
{
    TRY(checkpoint_ranks_clear(ranks));
    TRY(checkpoint_ranks_load(ranks, bench->store_path));
    return checkpoint_ranks_compare(ranks);
}

static int run_save(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks)
{
    uint64_t begin_ns = clock_now_ns(), total_bytes;
    for (size_t round = 0; repeats(bench, round); round++) {
        bench_progress("checkpoint: %d ranks save, round %zu", ranks->setting.world, round + 1);
        TRY(check_interrupt());
        TRY(save_once(bench, ranks, round >= bench->options->warmup));
    }
    TRY(verify(bench, ranks));
    TRY(count_bytes(bench, &total_bytes));
    return print(bench, ranks, "save", total_bytes, begin_ns);
}

// *cold: whether all but a hundredth of the files has left the page cache.
static int drop(const struct checkpoint_files *files, bool *cold)
{
    uint64_t resident_bytes;
    TRY(checkpoint_files_drop(files, &resident_bytes));
    *cold = resident_bytes <= files->total_bytes / 100;
    return ERR_NONE;
}

static int load_once(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks,
                     const struct checkpoint_files *files, bool counted, bool *cold)
{
    double bytes_per_ns = 0;
    TRY(checkpoint_ranks_clear(ranks));
    TRY(drop(files, cold));
    uint64_t begin_ns = clock_now_ns();
    TRY(checkpoint_ranks_load(ranks, bench->store_path));
    double ns = (double)(clock_now_ns() - begin_ns);
    TRY(checkpoint_ranks_compare(ranks));
    bool again = true;
    if (bench->fio[0]) {
        TRY(drop(files, &again));
        TRY(checkpoint_files_fio_read(files, &bytes_per_ns));
    }
    *cold &= again;
    if (counted) {
        take(&bench->samples, (double)files->total_bytes / ns);
        take(&bench->of_fio, bytes_per_ns);
    }
    return ERR_NONE;
}

static int measure_load(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks,
                        const struct checkpoint_files *files)
{
    uint64_t begin_ns = clock_now_ns();
    for (size_t round = 0; repeats(bench, round); round++) {
        bool cold;
        bench_progress("checkpoint: %d ranks load what %d saved, round %zu", ranks->setting.world, bench->saved_by,
                       round + 1);
        TRY(check_interrupt());
        TRY(load_once(bench, ranks, files, round >= bench->options->warmup, &cold));
        if (!cold)
            return bench_skip("checkpoint: load: %s keeps its files in memory, so that no load is cold",
                              bench->options->storage.paths[0]);
    }
    return print(bench, ranks, "load", files->total_bytes, begin_ns);
}

static int run_load(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks)
{
    struct checkpoint_files files;
    int code = checkpoint_files_open(bench->store_path, &files);
    if (code == ERR_NONE)
        code = measure_load(bench, ranks, &files);
    checkpoint_files_close(&files);
    return code;
}

// Saves by these ranks, and loads by the same.
static int save_and_load(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks)
{
    bench->saved_by = ranks->setting.world;
    TRY(checkpoint_ranks_fill(ranks));
    TRY(run_save(bench, ranks));
    return run_load(bench, ranks);
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
        code = with_ranks(bench, world > 1 ? world - 1 : 2, false, run_load);
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
    const char *model = shared->quick ? "gpt:layers=4,width=256,heads=4" : "gpt:layers=20,width=512,heads=8";
    if (shared->size_count > 0 || shared->thread_count > 0)
        return err_set(ERR_USAGE, "--sizes and --threads have no effect here; use --model and --world");
    if (given->world < 0 || given->world > CHECKPOINT_WORLD_MAX)
        return err_set(ERR_USAGE, "--world %d: expected 1 to %d", given->world, CHECKPOINT_WORLD_MAX);
    TRY(model_find(given->model ? given->model : model, &bench->model));
    bench_default_repeat(shared, 5, 3, 1);
    if (fio_version(bench->fio) != ERR_NONE) {
        bench->fio[0] = '\0';
        fprintf(stderr, "zerogauge bench checkpoint: no baseline: %s\n", err_message());
    }
    if (snprintf(bench->folder, sizeof bench->folder, "%s/zerogauge-checkpoint-XXXXXX", shared->storage.paths[0]) >=
        (int)sizeof bench->folder)
        return err_set(ERR_USAGE, "--nvme-path: is too long");
    if (!mkdtemp(bench->folder))
        return err_set(ERR_IO, "%s: no folder can be created in it", shared->storage.paths[0]);
    interrupt_watch(note_interrupt);
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
    bench_release(&given.shared);
    free(given.model);
    free(bench);
    return bench_exit("checkpoint", code);
}
