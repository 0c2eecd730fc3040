// SPDX-License-Identifier: Apache-2.0
// Reads the records of a fleet. A result file of one host, or the output of DCGM, is named by the first folder below
// the fleet's, or by itself; under a launcher, in the lines of preflight and soak, and in the output of nccl-tests,
// hosts are named.
#include "results/page/fleet_part.h"

#include "base/array.h"
#include "base/err.h"
#include "base/resources.h"
#include "results/page/result_folder.h"
#include "results/page/result_view.h"
#include "results/record/record_verify.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

// A file's path, and its name below the fleet's folder.
struct file_name {
    char *path, *name;
};

// A file as it is read, before the fleet takes it. After an error rc the thread's message says which.
struct opened {
    int rc;
    char *text;
    size_t bytes;
    json_t *first;  // null: the text does not begin with JSON
    bool is_result;
    struct result_file file;
    char *refusals;  // by record_verify; null: none
};

static int verify(struct opened *opened)
{
    char *refusals = NULL;
    size_t bytes, count = 0;
    FILE *out = open_memstream(&refusals, &bytes);
    int rc = out ? record_verify(&opened->file, out, &count) : err_set(ERR_MEMORY, "no memory for a fleet");
    if (out)
        fclose(out);
    if (count > 0)
        opened->refusals = refusals;
    else
        free(refusals);
    return rc;
}

static int open_file(const struct file_name *file, struct opened *out)
{
    json_error_t error;
    bool is_lines = strcmp(strrchr(file->name, '.'), ".jsonl") == 0;
    TRY(file_read_text(file->path, RECORD_FILE_BYTES_MAX, &out->text, &out->bytes));
    out->first = json_loadb(out->text, out->bytes, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
    out->is_result = view_is(out->first, "run") || (!out->first && is_lines);
    if (!out->is_result)
        return ERR_NONE;
    TRY(result_parse(file->path, out->text, out->bytes, &out->file));
    return out->file.end ? verify(out) : ERR_NONE;
}

static void close_file(struct opened *opened)
{
    free(opened->text);
    json_decref(opened->first);
    result_close(&opened->file);
    free(opened->refusals);
}

static int take_result(struct fleet_source *source, const struct opened *opened)
{
    if (!opened->file.end)
        return fleet_say_of_file(source, FLEET_INCOMPLETE, "has no end: the run failed");
    return opened->refusals ? fleet_say_of_record(source, FLEET_UNVERIFIED, opened->refusals)
                            : fleet_take_result(source, &opened->file);
}

// --- preflight and soak ---

static int read_preflight(struct fleet_source *source, const json_t *line)
{
    const json_t *checks = json_object_get(line, "checks"), *check, *failed = NULL;
    struct fleet_run *run;
    char text[FLEET_TEXT_BYTES];
    size_t i;
    json_array_foreach (checks, i, check)
        if (!failed && strcmp(view_text(check, "state"), "FAIL") == 0)
            failed = check;
    bool says_ok = strcmp(view_text(line, "verdict"), "ok") == 0;
    if (json_array_size(checks) == 0 || says_ok == (failed != NULL))
        return fleet_say_of_file(source, FLEET_UNVERIFIED, "a preflight's verdict is not that of its checks");
    fleet_name_part(source, source->host);
    TRY(fleet_add_runs(source, "preflight"));
    run = source->parts[0].run;
    snprintf(run->started, sizeof run->started, "%s", view_text(line, "started"));
    run->digests = json_incref(json_object_get(line, "digests"));
    snprintf(text, sizeof text, "preflight: %s: %s", view_text(failed, "check"), view_text(failed, "text"));
    return failed ? fleet_say(run, FLEET_PREFLIGHT, text) : ERR_NONE;
}

// All ranks' hosts, those without an event, too; the state of one rank names it alone.
static int read_soak(struct fleet_source *source, const json_t *line)
{
    static const struct {
        const char *key, *before;  // of a text; the first list only names hosts
        enum fleet_what what;
    } lists[] = {{.key = "hosts"}, {"events", "", FLEET_ARITHMETIC}, {"worse", "counters: ", FLEET_INVALID}};
    const json_t *one;
    fleet_name_part(source, view_text(line, "host"));
    for (size_t k = 0, i; k < sizeof lists / sizeof *lists; k++)
        json_array_foreach (json_object_get(line, lists[k].key), i, one)
            fleet_name_part(source, view_text(one, "host"));
    TRY(fleet_add_runs(source, "soak"));
    for (size_t k = 1, i; k < sizeof lists / sizeof *lists; k++)
        json_array_foreach (json_object_get(line, lists[k].key), i, one) {
            char text[FLEET_TEXT_BYTES];
            struct fleet_part *part = fleet_part_of(source, view_text(one, "host"));
            snprintf(text, sizeof text, "soak: %s%s", lists[k].before, view_text(one, "text"));
            TRY(part ? fleet_say(part->run, lists[k].what, text) : ERR_NONE);
        }
    return ERR_NONE;
}

// --- all that is no result file ---

typedef int value_reader(struct fleet_source *source, const json_t *value);

// Null: the value is none of these.
static value_reader *reader_of(const json_t *value)
{
    return view_is(value, "preflight") ? read_preflight
           : view_is(value, "soak")    ? read_soak
           : fleet_is_dcgm(value)      ? fleet_take_dcgm
           : fleet_is_nccl(value)      ? fleet_take_nccl
                                       : NULL;
}

// Values one after the other: lines, or a value of several lines.
static int read_values(struct fleet_source *source, const char *text, size_t bytes)
{
    json_error_t error = {0};
    for (size_t at = 0; at + strspn(text + at, " \t\r\n") < bytes; at += (size_t)error.position) {
        json_t *value = json_loadb(text + at, bytes - at, JSON_DISABLE_EOF_CHECK | JSON_REJECT_DUPLICATES, &error);
        value_reader *reader = reader_of(value);
        const char *host = view_text(value, "host");
        if (*host)
            snprintf(source->host, sizeof source->host, "%s", host);
        source->part_count = 0;
        int rc = reader ? reader(source, value)
                        : fleet_say_of_file(source, FLEET_UNVERIFIED, "is followed by something else");
        json_decref(value);
        TRY(rc);
        if (!reader)
            break;
    }
    return ERR_NONE;
}

static int take_file(struct fleet *fleet, const struct file_name *file, const struct opened *opened)
{
    struct fleet_source source = {.fleet = fleet, .path = file->path, .name = file->name};
    const char *slash = strchr(file->name, '/'), *end = slash ? slash : strrchr(file->name, '.');
    snprintf(source.host, sizeof source.host, "%.*s", (int)(end - file->name), file->name);
    if (opened->rc != ERR_NONE)
        return opened->rc == ERR_MEMORY ? opened->rc : fleet_say_of_record(&source, FLEET_UNVERIFIED, err_message());
    if (opened->is_result)
        return take_result(&source, opened);
    if (reader_of(opened->first))
        return read_values(&source, opened->text, opened->bytes);
    fleet->left_out_count++;
    return ERR_NONE;
}

// --- all files, by as many threads as there are processors ---

enum { THREAD_MAX = 16 };

struct reading {
    struct fleet *fleet;
    struct file_name *files;  // in the order of their names
    size_t count, room;
    pthread_mutex_t lock;  // of all that follows, and of the fleet
    pthread_cond_t taken;
    size_t next, turn;  // the file that is opened next, and the one that is taken next
    int rc;
    char message[ERR_MESSAGE_BYTES];
};

static int list_file(void *context, const char *path, const char *name)
{
    struct reading *reading = context;
    TRY(array_grow(&reading->files, &reading->room, reading->count, sizeof *reading->files, "files"));
    struct file_name *file = &reading->files[reading->count++];
    *file = (struct file_name){strdup(path), strdup(name)};
    return file->path && file->name ? ERR_NONE : err_set(ERR_MEMORY, "no memory for a fleet");
}

// Files are opened side by side and taken one after the other, so that any number of threads has one result. The
// thread of the first file that is not taken waits for no other.
static void *read_files(void *context)
{
    struct reading *reading = context;
    pthread_mutex_lock(&reading->lock);
    while (reading->next < reading->count && reading->rc == ERR_NONE) {
        size_t i = reading->next++;
        struct opened opened = {0};
        pthread_mutex_unlock(&reading->lock);
        opened.rc = open_file(&reading->files[i], &opened);
        pthread_mutex_lock(&reading->lock);
        while (reading->turn < i)
            pthread_cond_wait(&reading->taken, &reading->lock);
        if (reading->rc == ERR_NONE)
            reading->rc = take_file(reading->fleet, &reading->files[i], &opened);
        if (reading->rc != ERR_NONE && !*reading->message)
            err_keep(reading->message);
        reading->turn++;
        pthread_cond_broadcast(&reading->taken);
        pthread_mutex_unlock(&reading->lock);
        close_file(&opened);
        pthread_mutex_lock(&reading->lock);
    }
    pthread_mutex_unlock(&reading->lock);
    return NULL;
}

static int read_all(struct reading *reading)
{
    pthread_t threads[THREAD_MAX];
    int processors = resources_processor_count(), made = 0;
    // Without a thread, or with fewer, it only takes longer.
    while (made + 1 < processors && made < THREAD_MAX && pthread_create(&threads[made], NULL, read_files, reading) == 0)
        made++;
    read_files(reading);
    for (int i = 0; i < made; i++)
        pthread_join(threads[i], NULL);
    if (reading->rc != ERR_NONE)
        err_restore(reading->message);
    return reading->rc;
}

int fleet_read(const char *folder, struct fleet *out)
{
    uint32_t none;
    *out = (struct fleet){.folder = folder, .texts = json_object(), .indices = json_object()};
    struct reading reading = {.fleet = out, .lock = PTHREAD_MUTEX_INITIALIZER, .taken = PTHREAD_COND_INITIALIZER};
    TRY(fleet_number(out, "unknown", &none));
    int rc = result_folder_visit(folder, "jsonl|json", RESULT_FOLDER_DEPTH, list_file, &reading);
    if (rc == ERR_NONE)
        rc = read_all(&reading);
    for (size_t i = 0; i < reading.count; i++) {
        free(reading.files[i].path);
        free(reading.files[i].name);
    }
    free(reading.files);
    TRY(rc);
    return out->host_count > 0 ? ERR_NONE : err_set(ERR_USAGE, "%s: has no record of a host", folder);
}

void fleet_close(struct fleet *fleet)
{
    for (size_t h = 0; h < fleet->host_count; h++) {
        struct fleet_host *host = &fleet->hosts[h];
        for (size_t i = 0; i < host->run_count; i++) {
            free(host->runs[i].text);
            free(host->runs[i].figures);
            json_decref(host->runs[i].digests);
        }
        for (size_t i = 0; i < FLEET_WHAT_COUNT; i++)
            free(host->reasons[i].text);
        free(host->runs);
        free(host->name);
    }
    free(fleet->hosts);
    free(fleet->names);
    json_decref(fleet->texts);
    json_decref(fleet->indices);
}
