// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/bench_file.h"

#include "base/err.h"
#include "results/record/other_load.h"
#include "results/record/record.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
    struct record_writer *writer;  // null: no --out
    char owner[32];                // the benchmark that opened it
    uint64_t begin_ns;
    struct other_load load;
} file;

// Returns the command line with "zerogauge" and "bench" in front; the caller frees the array. Null: out of memory.
static const char **full_command(int argc, const char **argv)
{
    const char **command = calloc((size_t)argc + 2, sizeof *command);
    if (!command)
        return NULL;
    command[0] = "zerogauge";
    command[1] = "bench";
    memcpy(command + 2, argv, (size_t)argc * sizeof *argv);
    return command;
}

static json_t *run_json(int argc, const char **argv, const struct bench_options *options)
{
    const struct bench_storage *storage = &options->storage;
    const char **command = full_command(argc, argv);
    const char **paths = calloc((size_t)storage->path_count + 1, sizeof *paths);
    json_t *run = NULL;
    if (command && paths) {
        memcpy(paths, storage->paths, (size_t)storage->path_count * sizeof *paths);
        run = record_run("bench", options->quick ? "quick" : "full", argc + 2, command, paths);
    }
    free(command);
    free(paths);
    return run;
}

int bench_file_open(const char *path, int argc, const char **argv, const struct bench_options *options)
{
    assert(!file.writer);
    TRY(record_create(path, &file.writer));
    snprintf(file.owner, sizeof file.owner, "%s", argv[0]);
    file.begin_ns = clock_now_ns();
    other_load_now(&file.load);
    return record_append(file.writer, run_json(argc, argv, options));
}

bool bench_file_is_open(void)
{
    return file.writer != NULL;
}

int bench_file_append(json_t *record)
{
    if (file.writer)
        return record_append(file.writer, record);
    json_decref(record);
    return ERR_NONE;
}

int bench_file_part(int argc, const char **argv, uint64_t begin_ns, int status)
{
    if (!file.writer)
        return ERR_NONE;
    json_t *command = json_pack("[s, s]", "zerogauge", "bench");
    for (int i = 0; i < argc; i++)
        json_array_append_new(command, json_string(argv[i]));
    const char *reason = status == 0 ? NULL : status == 77 ? "nothing can be measured here" : err_message();
    return record_append(file.writer,
                         json_pack("{s:s, s:s+, s:o, s:f, s:f, s:i, s:n, s:s?}", "record", "part", "name", "bench-",
                                   argv[0], "command", command, "begin_s", (double)(begin_ns - file.begin_ns) * 1e-9,
                                   "end_s", (double)(clock_now_ns() - file.begin_ns) * 1e-9, "status", status, "signal",
                                   "reason", reason));
}

static int end(void)
{
    struct other_load now;
    other_load_now(&now);
    double share = other_load_share(&file.load, &now);
    return record_end(file.writer,
                      json_pack("{s:s, s:s, s:n, s:[], s:f, s:o}", "record", "end", "status", "complete", "verdict",
                                "reasons", "elapsed_s", (double)(clock_now_ns() - file.begin_ns) * 1e-9, "other_load",
                                isnan(share) ? json_null() : json_real(share)));
}

int bench_file_close(const char *name, int code)
{
    if (!file.writer || strcmp(file.owner, name) != 0)
        return code;
    if (code == ERR_NONE)
        code = end();
    record_close(file.writer);
    file.writer = NULL;
    return code;
}
