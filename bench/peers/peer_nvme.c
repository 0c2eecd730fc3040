// SPDX-License-Identifier: Apache-2.0
// Storage in turn with fio and a peer: files of the same size in one folder, the same block and depth, O_DIRECT. The
// setting has "direction", "block_bytes", "depth", "seconds", and the path "file" of "file_bytes", which is valid as
// long as this process runs. The peer fills the file, then reads or writes all of it again and again for that time, and
// verifies the data. Its answers have "bytes", too. A turn's result is a rate, because runs take about equal time.
#include "bench/peers/bench_peer.h"
#include "bench/harness/fio.h"
#include "bench/harness/nvme_stream.h"

#include "base/err.h"
#include "base/size.h"

#include <string.h>
#include <unistd.h>

struct run {
    struct stream stream;  // over `files`
    struct nvme_files files, fio_files, peer_files;
    char fio[FIO_VERSION_BYTES];  // "": fio is not installed
    struct bench_samples ours, fios, theirs;
    double least_bytes, peer_least_bytes;
};

static int ours_run(struct run *run, double *rate)
{
    struct stream_result result;
    TRY(stream_run(&run->stream, &result));
    *rate = (double)result.bytes / (double)result.ns;
    if (run->least_bytes == 0 || (double)result.bytes < run->least_bytes)
        run->least_bytes = (double)result.bytes;
    return run->stream.direction == STREAM_WRITE ? stream_all(&run->files, STREAM_READ) : ERR_NONE;
}

static int fio_turn(struct run *run, bool buffered, double *rate)
{
    struct stream stream = run->stream;
    struct fio_result result = {0};
    stream.files = &run->fio_files;
    if (run->fio[0])
        TRY(fio_run(&stream, buffered, &result));
    *rate = result.bytes_per_ns;
    return ERR_NONE;
}

static int peer_turn(struct run *run, struct peer *peer, double *rate)
{
    json_t *answer;
    double ns, bytes;
    TRY(peer_ask(peer, json_pack("{s:s, s:i}", "do", "run", "calls", 1), &answer));
    int code = peer_number(peer, answer, "ns", &ns);
    if (code == ERR_NONE)
        code = peer_number(peer, answer, "bytes", &bytes);
    json_decref(answer);
    TRY(code);
    *rate = bytes / ns;
    if (run->peer_least_bytes == 0 || bytes < run->peer_least_bytes)
        run->peer_least_bytes = bytes;
    return ERR_NONE;
}

static int measure(struct run *run, const struct bench_options *options, struct peer *peer)
{
    for (size_t i = 0; i < options->warmup + options->repeat; i++) {
        double ours, fio, theirs;
        bench_progress("nvme, compared with %s: turn %zu of %zu", peer->name, i + 1, options->warmup + options->repeat);
        TRY(ours_run(run, &ours));
        TRY(fio_turn(run, options->storage.buffered, &fio));
        TRY(peer_turn(run, peer, &theirs));
        if (i < options->warmup)
            continue;
        run->ours.values[run->ours.count++] = ours;
        run->fios.values[run->fios.count++] = fio;
        run->theirs.values[run->theirs.count++] = theirs;
    }
    return run->stream.direction == STREAM_READ ? stream_all(&run->files, STREAM_READ) : ERR_NONE;
}

// Opens and fills the files before anything is measured.
static int open_files(struct run *run, const struct bench_storage *of, uint64_t bytes, struct peer *peer)
{
    char name[64];
    TRY(nvme_files_open(of->paths, 1, bytes, of->buffered, &run->files));
    TRY(stream_all(&run->files, STREAM_WRITE));
    if (run->fio[0]) {
        TRY(nvme_files_open(of->paths, 1, bytes, of->buffered, &run->fio_files));
        TRY(stream_all(&run->fio_files, STREAM_WRITE));
    }
    TRY(nvme_files_open(of->paths, 1, bytes, of->buffered, &run->peer_files));
    snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)getpid(), run->peer_files.folders[0].file);
    TRY(peer_send_line(peer, json_pack("{s:s, s:s, s:I, s:i, s:f, s:s, s:I}", "part", "nvme", "direction",
                                       stream_direction_name(run->stream.direction), "block_bytes",
                                       (json_int_t)run->stream.block_bytes, "depth", run->stream.depth, "seconds",
                                       run->stream.seconds, "file", name, "file_bytes", (json_int_t)bytes)));
    return peer_ready(peer);
}

static int print(const struct peer_options *options, const struct peer *peer, const struct run *run, uint64_t bytes,
                 uint64_t begin_ns)
{
    const struct stream *stream = &run->stream;
    json_t *detail = json_object();
    if (detail && run->fio[0])
        json_object_set_new(detail, run->fio,
                            json_pack("{s:f, s:f, s:f}", "gb_per_s", bench_median(&run->fios), "ours",
                                      bench_median(&run->ours) / bench_median(&run->fios), "peers",
                                      bench_median(&run->theirs) / bench_median(&run->fios)));
    struct bench_record record = {.name = "peer",
                                  .description = json_pack("{s:s, s:s, s:s, s:s, s:I, s:i, s:I, s:f}", "part", "nvme",
                                                           "peer", options->label ? options->label : peer->name,
                                                           "direction", stream_direction_name(stream->direction),
                                                           "engine", io_engine_of(stream->engine)->name, "block_bytes",
                                                           (json_int_t)stream->block_bytes, "depth", stream->depth,
                                                           "file_bytes", (json_int_t)bytes, "seconds", stream->seconds),
                                  .detail = detail,
                                  .unit = "GB/s",
                                  .items = run->least_bytes,
                                  .baseline_items = run->peer_least_bytes,
                                  .begin_ns = begin_ns,
                                  .samples = &run->ours,
                                  .baseline_name = peer->name,
                                  .baseline = &run->theirs};
    return bench_print(&options->shared, &record);
}

static int choose(const struct peer_options *options, struct bench_options *shared, struct run *run, uint64_t *bytes)
{
    const char *direction = options->direction ? options->direction : "read";
    bench_default_sizes(shared, (const size_t[]){1 << 20}, 1);
    bench_default_repeat(shared, 5, 3, 1);
    *bytes = shared->quick ? 64 << 20 : 1 << 30;
    if (options->size)
        TRY(size_parse(options->size, bytes));
    run->stream = (struct stream){.files = &run->files,
                                  .engine = NVME_LIBAIO,
                                  .direction = strcmp(direction, "write") == 0 ? STREAM_WRITE : STREAM_READ,
                                  .block_bytes = shared->sizes[0],
                                  .depth = options->depth > 0 ? options->depth : 32,
                                  .seconds = options->seconds > 0 ? options->seconds
                                             : shared->quick      ? 0.5
                                                                  : 1};
    if (strcmp(direction, stream_direction_name(run->stream.direction)) != 0)
        return err_set(ERR_USAGE, "--direction %s: expected read or write", direction);
    if (shared->storage.engine)
        TRY(io_engine_parse(shared->storage.engine, &run->stream.engine));
    if (shared->size_count != 1 || run->stream.block_bytes % IO_ALIGNMENT || *bytes % run->stream.block_bytes)
        return err_set(ERR_USAGE, "--sizes: give one, a multiple of %d that divides --size", IO_ALIGNMENT);
    return run->stream.depth <= IO_DEPTH_MAX ? ERR_NONE : err_set(ERR_USAGE, "--depth: at most %d", IO_DEPTH_MAX);
}

int peer_nvme(const struct peer_options *options, struct peer *peer)
{
    struct peer_options complete = *options;
    struct run run = {0};
    uint64_t bytes, begin_ns = clock_now_ns();
    TRY(choose(options, &complete.shared, &run, &bytes));
    if (fio_version(run.fio) != ERR_NONE)
        run.fio[0] = '\0';
    int code = open_files(&run, &complete.shared.storage, bytes, peer);
    if (code == ERR_NONE)
        code = measure(&run, &complete.shared, peer);
    if (code == ERR_NONE)
        code = print(&complete, peer, &run, bytes, begin_ns);
    nvme_files_close(&run.files);
    nvme_files_close(&run.fio_files);
    nvme_files_close(&run.peer_files);
    return code;
}
