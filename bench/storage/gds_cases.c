// SPDX-License-Identifier: Apache-2.0
// Runs each case of `bench gds`: cuFile in turn with the path through host memory.
#include "bench/storage/bench_gds.h"

#include "base/err.h"
#include "bench/storage/gds_ways.h"
#include "ref/cuda/io_cufile.h"
#include "base/size.h"

#include <stdio.h>

static const char *const direction_names[] = {"read", "write"};

// One case.
struct trial {
    const struct gds_bench *bench;
    const char *path;  // of the bytes by cuFile
    struct gds_setting setting;
    bool write;
};

static int take_turns(const struct trial *trial, struct gds_ways *ways, struct bench_samples *direct,
                      struct bench_samples *through)
{
    size_t warmup = trial->bench->options->warmup, repeat = trial->bench->options->repeat;
    direct->count = through->count = 0;
    for (size_t i = 0; i < warmup + repeat; i++) {
        double rates[2];
        bench_progress("gds %s, %zu bytes, %d in flight: run %zu of %zu", direction_names[trial->write],
                       trial->setting.block_bytes, trial->setting.flight_count, i + 1, warmup + repeat);
        for (size_t turn = 0; turn < 2; turn++) {
            bool is_direct = (i + turn) % 2 == 0;
            TRY(gds_ways_sample(ways, trial->write, is_direct, &rates[is_direct]));
        }
        if (i < warmup)
            continue;
        direct->values[direct->count++] = rates[true];
        through->values[through->count++] = rates[false];
    }
    return ERR_NONE;
}

static int print(const struct trial *trial, const struct gds_ways *ways, uint64_t begin_ns,
                 const struct bench_samples *direct, const struct bench_samples *through)
{
    const struct gds_setting *s = &trial->setting;
    const struct bench_options *options = trial->bench->options;
    const char *engine = io_engine_of(s->engine)->name;
    char block[SIZE_TEXT_BYTES], row[200];
    snprintf(row, sizeof row, "%-6s %9s %6d %9.3f (%6.3f to %6.3f) %9.3f  %s", direction_names[trial->write],
             size_short_text(s->block_bytes, block), s->flight_count, bench_median(direct), bench_quantile(direct, 0.1),
             bench_quantile(direct, 0.9), bench_median(through), trial->path);
    struct bench_record record = {
        .name = "gds",
        .description = json_pack("{s:s, s:s, s:s, s:I, s:i, s:I, s:i, s:s}", "direction", direction_names[trial->write],
                                 "device", bench_device_name(s->device), "path", trial->path, "block_bytes",
                                 (json_int_t)s->block_bytes, "in_flight", s->flight_count, "file_bytes",
                                 (json_int_t)s->files->bytes, "paths", s->files->count, "engine", engine),
        .detail = json_pack("{s:I}", "piece_bytes", (json_int_t)gds_ways_piece_bytes(ways)),
        .unit = "GB/s",
        .verified = true,
        .items = (double)s->files->bytes * s->files->count,
        .begin_ns = begin_ns,
        .samples = direct,
        .baseline_name = "through host memory",
        .baseline = through,
        .row = row,
    };
    return bench_print(options, &record);
}

static int run_trial(const struct trial *trial)
{
    struct bench_samples direct, through;
    struct gds_ways *ways;
    uint64_t begin_ns = clock_now_ns();
    TRY(gds_ways_open(&trial->setting, &ways));
    int code = take_turns(trial, ways, &direct, &through);
    if (code == ERR_NONE)
        code = print(trial, ways, begin_ns, &direct, &through);
    gds_ways_close(ways);
    return code;
}

static int run_trials(const struct gds_bench *bench, const char *path, const struct gds_files *files)
{
    struct trial trial = {
        .bench = bench, .path = path, .setting = {.device = &bench->device, .files = files, .engine = bench->engine}};
    for (int write = 0; write < 2; write++)
        for (size_t size = 0; size < bench->options->size_count; size++)
            for (size_t i = 0; bench->directions[write] && i < bench->options->thread_count; i++) {
                trial.write = write;
                trial.setting.block_bytes = bench->options->sizes[size];
                trial.setting.flight_count = bench->options->threads[i];
                TRY(run_trial(&trial));
            }
    return ERR_NONE;
}

static void print_header(const struct gds_bench *bench, const char *path)
{
    char size[SIZE_TEXT_BYTES];
    printf("files of %s in", size_short_text(bench->bytes, size));
    for (int i = 0; i < bench->options->storage.path_count; i++)
        printf(" %s", bench->options->storage.paths[i]);
    printf("\nevery byte verified; medians of %zu runs, in turn with runs through page-locked host memory by %s\n"
           "cuFile's path: %s\nratio    %-6s %9s %6s %9s %18s %9s  path\n",
           bench->options->repeat, io_engine_of(bench->engine)->name, path, "access", "request", "flight", "GB/s",
           "(10 % to 90 %)", "host");
}

int gds_cases_run(const struct gds_bench *bench)
{
    const struct bench_storage *storage = &bench->options->storage;
    struct gds_files files;
    const char *path;
    TRY(bench_device_enter(&bench->device, 0));
    int code = io_cufile_open(bench->calls, &path);
    if (code != ERR_NONE)
        return io_cufile_cannot_serve() ? bench_skip("gds: %s", err_message()) : code;
    code = gds_files_open(storage->paths, storage->path_count, bench->bytes, &files);
    if (code == ERR_NONE) {
        if (!bench->options->json)
            print_header(bench, path);
        code = run_trials(bench, path, &files);
        gds_files_close(&files);
    } else if (io_cufile_cannot_serve()) {
        code = bench_skip("gds: %s", err_message());
    }
    io_cufile_close();
    return code;
}
