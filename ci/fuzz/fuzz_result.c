// SPDX-License-Identifier: Apache-2.0
// Any bytes as a result file: refused with a message that names it, or read, verified and shown in every form, as XML
// that no text has left. What does not hold is shown here, too: no report may trust its numbers. And any bytes as all
// that a fleet has, next to the output of another program: judged and shown.
#include "results/limits/accepted_range.h"
#include "base/err.h"
#include "base/process/check_folder.h"
#include "conformance/spec/requirement.h"
#include "conformance/suite/suite.h"
#include "ref/config/config_presets.h"
#include "results/record/record_check.h"
#include "results/record/record_verify.h"
#include "results/page/result_report.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static char path[64];

// Limits that a mutated file may happen to keep.
static const char limits[] = "{\"schema\":1,\"about\":\"x\",\"bands\":[{\"id\":\"adam-update\",\"bench\":\"adam\","
                             "\"metric\":\"ratio\",\"at_least\":0.4,\"source\":\"x\"}]}";
const struct accepted_range_set accepted_range_sets[] = {{"default", limits, sizeof limits - 1}, {0}};
const struct config_preset config_presets[] = {{0}};

// A suite of one requirement without cases.
const struct requirement *requirement_at(int index)
{
    static const struct requirement one = {.id = "R-ADAM-01", .must = true};
    return index == 0 ? &one : NULL;
}

int suite_case_count(enum suite_level level, int version)
{
    (void)level, (void)version;
    return 0;
}

static void must(int rc)
{
    if (rc == ERR_NONE)
        return;
    fprintf(stderr, "%s\n", err_message());
    abort();
}

static void show(const struct result_view *view, int (*form)(const struct result_view *view, FILE *out))
{
    char *text;
    size_t bytes;
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        abort();
    must(form(view, out));
    fclose(out);
    if (strstr(text, "<script") && form == result_html)
        abort();
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < 0x20 && text[i] != '\n' && text[i] != '\r')
            abort();
    free(text);
}

static int summary(const struct result_view *view, FILE *out)
{
    return result_summaries(view, 1, out);
}

static char folder[] = "/dev/shm/zerogauge-fuzz-XXXXXX";

static void put(const char *name, const void *data, size_t size)
{
    char file[96];
    snprintf(file, sizeof file, "%s/%s", folder, name);
    FILE *out = fopen(file, "w");
    if (!out || fwrite(data, 1, size, out) != size || fclose(out) != 0)
        abort();
}

static void remove_folder(void)
{
    check_folder_remove(folder);
}

static void judge_fleet(const unsigned char *data, size_t size)
{
    static bool made;
    static const char other[] = "{\"DCGM Diagnostic\":{\"runtime_error\":\"x\"}}";
    bool in_service;
    char *text;
    size_t bytes;
    if (!made && (!mkdtemp(folder) || atexit(remove_folder) != 0))
        abort();
    made = true;
    put("a.json", data, size);
    put("b.json", other, sizeof other - 1);
    FILE *out = open_memstream(&text, &bytes);
    if (!out)
        abort();
    must(fleet_report(folder, NULL, out, &in_service));
    fclose(out);
    for (size_t i = 0; i < bytes; i++)
        if ((unsigned char)text[i] < 0x20 && text[i] != '\n')
            abort();
    free(text);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    struct result_file file;
    struct result_view view;
    size_t refusal_count;
    judge_fleet(data, size);
    int fd = memfd_create("result", MFD_CLOEXEC);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size)
        abort();
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    int rc = result_open(path, &file);
    close(fd);
    if (rc != ERR_NONE) {
        if (strncmp(err_message(), path, strlen(path)) != 0)
            abort();
        return 0;
    }
    must(record_verify(&file, NULL, &refusal_count));
    if (file.end) {
        must(result_view_open(&file, &view));
        show(&view, result_markdown);
        show(&view, summary);
        show(&view, result_html);
        result_view_close(&view);
    }
    result_close(&file);
    return 0;
}
