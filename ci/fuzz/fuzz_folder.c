// SPDX-License-Identifier: Apache-2.0
// Any bytes as a file of a folder of cases, of which one resumes: refused with a message that names the file, or read,
// written and read again to the same. The first byte says as which file.
#include "conformance/hunt/hunt_folder.h"
#include "base/err.h"
#include "base/file.h"
#include "base/process/check_folder.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const files[] = {
    "order.json",          "whole/case.json",       "whole/init.safetensors",       "whole/grads-1.safetensors",
    "half.save/case.json", "half.resume/case.json", "half.resume/init.safetensors", "half.resume/grads-2.safetensors",
};
enum { FILE_COUNT = sizeof files / sizeof *files };

static char root[] = "/tmp/fuzz-folder-XXXXXX", folder[PATH_MAX], second[PATH_MAX];

static void must(int rc)
{
    if (rc == ERR_NONE)
        return;
    fprintf(stderr, "%s\n", err_message());
    abort();
}

static void forget_all(void)
{
    check_folder_remove(root);
}

// A matrix, an empty tensor, a frozen, an unused and a tied one.
static void describe(struct check_case *c, const char *name, enum case_phase phase)
{
    *c = (struct check_case){
        .world = 2,
        .steps = 2,
        .accumulation = 1,
        .phase = phase,
        .checkpoint_step = phase != PHASE_WHOLE,
        .reduce_bucket = 8,
        .allgather_bucket = 8,
        .prefetch_bucket = 8,
        .sub_group = 8,
        .contiguous_gradients = true,
        .reduce_scatter = true,
        .loss_scale = {.kind = SCALE_NONE},
        .group_count = 1,
        .groups = {{.lr = {0.5, 0.5}, .beta1 = 0.5, .beta2 = 0.5, .eps = 0.5, .bias_correction = true}},
        .param_count = 5,
        .params = {{.name = "a", .shape = {2, 3}, .shape_rank = 2, .count = 6, .used = true, .tied_to = -1},
                   {.name = "b", .shape = {0}, .shape_rank = 1, .used = true, .tied_to = -1},
                   {.name = "c", .count = 1, .used = true, .frozen = true, .tied_to = -1},
                   {.name = "d", .shape = {1}, .shape_rank = 1, .count = 1, .tied_to = -1},
                   {.name = "e", .shape = {2, 3}, .shape_rank = 2, .count = 6, .used = true}}};
    snprintf(c->name, sizeof c->name, "%s", name);
}

static void write_cases(void)
{
    static struct check_case whole, save, resume;
    struct hunt_case list[2] = {{0}};
    describe(&whole, "whole", PHASE_WHOLE);
    describe(&save, "half.save", PHASE_SAVE);
    describe(&resume, "half.resume", PHASE_RESUME);
    must(hunt_case_open(&whole, NULL, &list[0]));
    must(hunt_case_open(&save, &resume, &list[1]));
    if (mkdir(folder, 0777) != 0)
        abort();
    must(hunt_folder_write(list, 2, folder));
    hunt_case_close(&list[0]);
    hunt_case_close(&list[1]);
}

// The right bytes of each file.
static struct {
    unsigned char *data;
    size_t size;
} right[FILE_COUNT];

static void keep(int file)
{
    char path[PATH_MAX];
    must(file_join(folder, files[file], path));
    FILE *in = fopen(path, "rb");
    right[file].data = malloc(1 << 16);
    if (!in || !right[file].data)
        abort();
    right[file].size = fread(right[file].data, 1, 1 << 16, in);
    fclose(in);
}

static void put(const char *name, const unsigned char *data, size_t size)
{
    char path[PATH_MAX];
    must(file_join(folder, name, path));
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (fd < 0 || write(fd, data, size) != (ssize_t)size || close(fd) != 0)
        abort();
}

static void same(const float *a, const float *b, size_t count)
{
    if (!a != !b || (a && memcmp(a, b, count * sizeof *a) != 0))
        abort();
}

static void same_cases(const struct hunt_case *a, const struct hunt_case *b)
{
    if (a->part_count != b->part_count)
        abort();
    for (int part = 0; part < a->part_count; part++) {
        const struct check_case *c = a->parts[part];
        if (memcmp(c, b->parts[part], sizeof *c) != 0)
            abort();
        for (int i = 0; i < c->param_count; i++) {
            same(case_initial(a->values[part], i), case_initial(b->values[part], i), c->params[i].count);
            for (int step = case_first_step(c); step <= case_last_step(c); step++)
                for (int k = 0; k < c->accumulation * c->world; k++)
                    same(case_gradient(a->values[part], step, k / c->world, k % c->world, i),
                         case_gradient(b->values[part], step, k / c->world, k % c->world, i), c->params[i].count);
        }
    }
}

// The names in order.json are legal names of folders, and the message begins with a file's or a folder's.
static void read_cases(void)
{
    struct hunt_cases cases, again;
    if (hunt_folder_read(folder, &cases) != ERR_NONE) {
        if (strncmp(err_message(), folder, strlen(folder)) != 0) {
            fprintf(stderr, "%s\n", err_message());
            abort();
        }
        return;
    }
    if (mkdir(second, 0777) != 0)
        abort();
    must(hunt_folder_write(cases.list, cases.count, second));
    must(hunt_folder_read(second, &again));
    if (again.count != cases.count)
        abort();
    for (int i = 0; i < cases.count; i++)
        same_cases(&cases.list[i], &again.list[i]);
    hunt_cases_close(&again);
    hunt_cases_close(&cases);
    check_folder_remove(second);
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size)
{
    static bool is_made;
    if (!is_made) {
        if (!mkdtemp(root) || atexit(forget_all) != 0)
            abort();
        must(file_join(root, "cases", folder));
        must(file_join(root, "again", second));
        write_cases();
        for (int file = 0; file < FILE_COUNT; file++)
            keep(file);
        is_made = true;
    }
    if (size == 0)
        return 0;
    int file = data[0] % FILE_COUNT;
    put(files[file], data + 1, size - 1);
    read_cases();
    put(files[file], right[file].data, right[file].size);
    return 0;
}
