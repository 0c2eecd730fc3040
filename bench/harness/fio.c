// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/fio.h"

#include "base/err.h"

#include <jansson.h>

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

const double fio_percentiles[FIO_PERCENTILE_COUNT] = {50, 95, 99, 99.9};

// Replaces the child process by fio, which ends with this process and writes errors and results to `output`. It gets
// memory in huge pages as our own streams do: such requests have fewer segments, which some disks serve several times
// as fast.
static void become(char *const arguments[], int output, pid_t parent)
{
    setenv("GLIBC_TUNABLES", "glibc.malloc.hugetlb=1", 1);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent)
        execvp(arguments[0], arguments);
    _exit(127);
}

// Reads a file to its end. Returns text that the caller frees; null: out of memory.
static char *read_all(int file)
{
    size_t length = 0, room = 1 << 16;
    char *text = malloc(room);
    for (ssize_t got = 1; text && got != 0;) {
        if (length + 1 == room) {
            char *larger = realloc(text, room *= 2);
            if (!larger)
                free(text);
            text = larger;
            continue;
        }
        got = read(file, text + length, room - 1 - length);
        if (got > 0)
            length += (size_t)got;
        else if (got < 0 && errno != EINTR)
            got = 0;
    }
    if (text)
        text[length] = '\0';
    return text;
}

// Runs fio. *text: its output, which the caller frees. *exit_status: 127 if it is not installed.
static int run(char *const arguments[], char **text, int *exit_status)
{
    int ends[2];
    if (pipe(ends) != 0)
        return err_set(ERR_IO, "cannot create a pipe to fio: %s", strerror(errno));
    pid_t parent = getpid(), child = fork();
    if (child == 0)
        become(arguments, ends[1], parent);
    close(ends[1]);
    *text = child > 0 ? read_all(ends[0]) : NULL;
    close(ends[0]);
    if (child < 0)
        return err_set(ERR_IO, "cannot start fio: %s", strerror(errno));
    int status;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        continue;
    *exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return *text ? ERR_NONE : err_set(ERR_MEMORY, "no memory for the output of fio");
}

int fio_version(char out[FIO_VERSION_BYTES])
{
    char *text;
    int status;
    TRY(run((char *[]){"fio", "--version", NULL}, &text, &status));
    snprintf(out, FIO_VERSION_BYTES, "%.*s", (int)strcspn(text, "\n"), text);
    free(text);
    return status == 0 ? ERR_NONE : err_set(ERR_USAGE, "fio is not installed (apt-get install fio)");
}

static int read_rate(const json_t *job, double *bytes_per_ns)
{
    double bytes_per_s = json_number_value(json_object_get(json_object_get(job, "read"), "bw_bytes")) +
                         json_number_value(json_object_get(json_object_get(job, "write"), "bw_bytes"));
    *bytes_per_ns = bytes_per_s / 1e9;
    return bytes_per_s > 0 ? ERR_NONE : err_set(ERR_IO, "fio moved nothing");
}

// Reads the rates and latencies of the job in fio's result.
static int read_job(const json_t *job, const struct stream *stream, struct fio_result *out)
{
    static const char *const keys[FIO_PERCENTILE_COUNT] = {"50.000000", "95.000000", "99.000000", "99.900000"};
    const json_t *latency =
        json_object_get(json_object_get(job, stream->direction == STREAM_WRITE ? "write" : "read"), "lat_ns");
    const json_t *percentiles = json_object_get(latency, "percentile");
    TRY(read_rate(job, &out->bytes_per_ns));
    for (int i = 0; i < FIO_PERCENTILE_COUNT; i++)
        out->percentiles_us[i] = json_number_value(json_object_get(percentiles, keys[i])) / 1e3;
    return out->percentiles_us[0] > 0 ? ERR_NONE : err_set(ERR_IO, "fio has no latencies");
}

// *result: fio's output, which the caller releases, also after an error; *job: its first job.
static int parse(const char *text, int exit_status, json_t **result, const json_t **job)
{
    // Warnings may be first; the result begins with a brace at the start of a line.
    const char *begin = text[0] == '{' ? text : strstr(text, "\n{");
    *result = begin ? json_loads(begin, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    *job = json_array_get(json_object_get(*result, "jobs"), 0);
    if (exit_status != 0 || !*job || json_integer_value(json_object_get(*job, "error")) != 0)
        return err_set(ERR_IO, "fio failed with exit status %d: %.*s", exit_status,
                       begin > text ? (int)(begin - text) : 400, text);
    return ERR_NONE;
}

// Runs fio and parses its output, as parse does.
static int run_job(char *const arguments[], json_t **result, const json_t **job)
{
    char *text;
    int status;
    *result = NULL;
    TRY(run(arguments, &text, &status));
    int code = parse(text, status, result, job);
    free(text);
    return code;
}

int fio_rate(char *const arguments[], double *bytes_per_ns)
{
    json_t *result;
    const json_t *job;
    int code = run_job(arguments, &result, &job);
    if (code == ERR_NONE)
        code = read_rate(job, bytes_per_ns);
    json_decref(result);
    return code;
}

// Makes "--filename=/proc/7/fd/3:/proc/7/fd/4", names by which fio can open the files of this process.
static int file_names(const struct nvme_files *files, char *out, size_t room)
{
    size_t length = (size_t)snprintf(out, room, "--filename=");
    for (int i = 0; i < files->count && length < room; i++)
        length += (size_t)snprintf(out + length, room - length, "%s/proc/%d/fd/%d", i ? ":" : "", (int)getpid(),
                                   files->folders[i].file);
    return length < room ? ERR_NONE : err_set(ERR_INTERNAL, "%d files have too long names for fio", files->count);
}

int fio_run(const struct stream *stream, bool buffered, struct fio_result *out)
{
    static const char *const sequential[] = {"read", "write", "rw"}, *const scattered[] = {"randread", "randwrite",
                                                                                           "randrw"};
    char names[2048], engine[64], direction[64], block[64], depth[64], size[64], file_size[64], time[64];
    TRY(file_names(stream->files, names, sizeof names));
    uint64_t bytes = stream->files->bytes / stream->block_bytes * stream->block_bytes;
    snprintf(engine, sizeof engine, "--ioengine=%s", io_engine_of(stream->engine)->name);
    snprintf(direction, sizeof direction, "--rw=%s", (stream->random ? scattered : sequential)[stream->direction]);
    snprintf(block, sizeof block, "--bs=%zu", stream->block_bytes);
    snprintf(depth, sizeof depth, "--iodepth=%d", stream->depth);
    snprintf(file_size, sizeof file_size, "--filesize=%llu", (unsigned long long)bytes);
    snprintf(size, sizeof size, "--size=%llu", (unsigned long long)bytes * (unsigned)stream->files->count);
    snprintf(time, sizeof time, "--runtime=%dms", (int)(stream->seconds * 1e3));
    char *const arguments[] = {"fio",
                               "--name=zerogauge",
                               names,
                               engine,
                               direction,
                               block,
                               depth,
                               file_size,
                               size,
                               time,
                               buffered ? "--direct=0" : "--direct=1",
                               "--time_based",
                               "--thread",
                               "--norandommap",
                               "--mem=malloc",
                               "--iomem_align=2m",
                               "--file_service_type=roundrobin:1",
                               "--allow_file_create=0",
                               "--fallocate=none",
                               "--lat_percentiles=1",
                               "--clat_percentiles=0",
                               "--output-format=json",
                               NULL};
    json_t *result;
    const json_t *job;
    int code = run_job(arguments, &result, &job);
    if (code == ERR_NONE)
        code = read_job(job, stream, out);
    json_decref(result);
    return code;
}
