// SPDX-License-Identifier: Apache-2.0
#include "bench/checkpoint/checkpoint_case.h"

#include "base/err.h"

static void take(struct bench_samples *samples, double value)
{
    samples->values[samples->count++] = value;
}

// Prints a case, whose data has been verified.
static int print(struct checkpoint_bench *bench, const struct checkpoint_ranks *ranks, const char *operation,
                 uint64_t total_bytes, uint64_t begin_ns, const char *baseline)
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
                                  .items = (double)total_bytes,
                                  .begin_ns = begin_ns,
                                  .samples = &bench->samples,
                                  .baseline_name = baseline,
                                  .baseline = *baseline ? &bench->baseline : NULL};
    return bench_print(bench->options, &record);
}

// Returns whether the case makes another round; counts from 0.
static bool repeats(struct checkpoint_bench *bench, size_t round)
{
    if (round == 0)
        bench->samples.count = bench->baseline.count = 0;
    return bench_repeats(bench->options->warmup, bench->options->repeat, round);
}

static int save_once(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks, bool counted)
{
    struct checkpoint_files files;
    uint64_t begin_ns = clock_now_ns();
    TRY(checkpoint_ranks_save(ranks, &bench->store, ++bench->step));
    double ns = (double)(clock_now_ns() - begin_ns), bytes_per_ns = 0;
    TRY(store_settle(&bench->store));  // removes what is older while a run goes on; fio has the disk alone
    int code = checkpoint_files_open(bench->store_path, &files);
    if (code == ERR_NONE && bench->fio[0])
        code = checkpoint_files_fio_write(&files, bench->folder, &bytes_per_ns);
    if (code == ERR_NONE && counted) {
        take(&bench->samples, (double)files.total_bytes / ns);
        take(&bench->baseline, bytes_per_ns);
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

int checkpoint_case_save(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks)
{
    uint64_t begin_ns = clock_now_ns(), total_bytes;
    for (size_t round = 0; repeats(bench, round); round++) {
        bench_progress("checkpoint: %d ranks save, round %zu", ranks->setting.world, round + 1);
        TRY(checkpoint_check_interrupt());
        TRY(save_once(bench, ranks, round >= bench->options->warmup));
    }
    TRY(verify(bench, ranks));
    TRY(count_bytes(bench, &total_bytes));
    return print(bench, ranks, "save", total_bytes, begin_ns, bench->fio);
}

static int begin_once(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks, uint64_t bytes, bool counted)
{
    uint64_t begin_ns = clock_now_ns();
    TRY(checkpoint_ranks_begin_save(ranks, &bench->store, ++bench->step));
    double ns = (double)(clock_now_ns() - begin_ns);
    TRY(checkpoint_ranks_end_save(ranks));
    TRY(store_settle(&bench->store));
    begin_ns = clock_now_ns();
    TRY(checkpoint_ranks_copy(ranks));
    if (counted) {
        take(&bench->baseline, (double)bytes / (double)(clock_now_ns() - begin_ns));
        take(&bench->samples, (double)bytes / ns);
    }
    return ERR_NONE;
}

int checkpoint_case_begin(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks)
{
    uint64_t begin_ns = clock_now_ns(), bytes;
    TRY(checkpoint_ranks_prepare_save(ranks, &bytes));
    for (size_t round = 0; repeats(bench, round); round++) {
        bench_progress("checkpoint: %d ranks save asynchronously, round %zu", ranks->setting.world, round + 1);
        TRY(checkpoint_check_interrupt());
        TRY(begin_once(bench, ranks, bytes, round >= bench->options->warmup));
    }
    TRY(verify(bench, ranks));
    return print(bench, ranks, "begin save", bytes, begin_ns, "memcpy");
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
        take(&bench->baseline, bytes_per_ns);
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
        TRY(checkpoint_check_interrupt());
        TRY(load_once(bench, ranks, files, round >= bench->options->warmup, &cold));
        if (!cold)
            return bench_skip("checkpoint: load: %s keeps its files in memory, so that no load is cold",
                              bench->options->storage.paths[0]);
    }
    return print(bench, ranks, "load", files->total_bytes, begin_ns, bench->fio);
}

int checkpoint_case_load(struct checkpoint_bench *bench, struct checkpoint_ranks *ranks)
{
    struct checkpoint_files files;
    int code = checkpoint_files_open(bench->store_path, &files);
    if (code == ERR_NONE)
        code = measure_load(bench, ranks, &files);
    checkpoint_files_close(&files);
    return code;
}
