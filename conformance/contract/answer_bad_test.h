// SPDX-License-Identifier: Apache-2.0
// For tests of malformed answers: a good answer, whose files and tensors a test changes.
#pragma once

#include "conformance/contract/answer_test.h"
#include "ref/checkpoint/safetensors.h"

static char folder[PATH_MAX], file_path[PATH_MAX + 64];
static struct check_case c;
static struct answer answer;

static inline void setup(void)
{
    folder_make(folder);
    fixture_case(&c);
    fixture_answer(&c, folder);
}

static inline void teardown(void)
{
    folder_remove(folder);
}

TestSuite(answer_bad, .init = setup, .fini = teardown);

static inline const char *in_folder(const char *name)
{
    snprintf(file_path, sizeof file_path, "%s/%s", folder, name);
    return file_path;
}

// The answer is refused, and the message holds both texts.
static inline void expect_refused(const char *where, const char *why)
{
    int rc = answer_open(&c, folder, &answer);
    cr_assert_eq(rc, ERR_USAGE, "%s, %s: %d %s", where, why, rc, err_message());
    cr_expect_not_null(strstr(err_message(), where), "\"%s\" is not in: %s", where, err_message());
    cr_expect_not_null(strstr(err_message(), why), "\"%s\" is not in: %s", why, err_message());
    cr_expect_null(answer.folder);
}

static inline void expect_good(void)
{
    cr_assert_eq(answer_open(&c, folder, &answer), ERR_NONE, "%s", err_message());
    answer_close(&answer);
}

// A file's tensors in memory, to be changed and written again.
struct tensors {
    struct safetensors_tensor list[64];
    char names[64][200];
    double scalars[64];  // eight bytes for a new value
    void *data[64];
    size_t count;
};
static struct tensors tensors;

static inline void load(const char *name)
{
    struct safetensors file;
    cr_assert_eq(safetensors_open(in_folder(name), &file), ERR_NONE, "%s", err_message());
    tensors.count = file.tensor_count;
    for (size_t i = 0; i < file.tensor_count; i++) {
        tensors.list[i] = file.tensors[i];
        snprintf(tensors.names[i], sizeof tensors.names[i], "%s", file.tensors[i].name);
        tensors.list[i].name = tensors.names[i];
        tensors.data[i] = calloc(1, file.tensors[i].count * 8 + 8);
        cr_assert_eq(safetensors_read(&file, &file.tensors[i], 0, file.tensors[i].count, tensors.data[i]), ERR_NONE);
    }
    safetensors_close(&file);
}

static inline size_t find(const char *name)
{
    size_t i = 0;
    while (i < tensors.count && strcmp(tensors.list[i].name, name) != 0)
        i++;
    cr_assert_lt(i, tensors.count, "there is no tensor %s", name);
    return i;
}

static inline void save(const char *name)
{
    struct safetensors_writer *writer;
    cr_assert_eq(remove(in_folder(name)), 0);
    cr_assert_eq(safetensors_create(file_path, tensors.list, tensors.count, NULL, &writer), ERR_NONE, "%s",
                 err_message());
    for (size_t i = 0; i < tensors.count; i++) {
        size_t bytes = tensors.list[i].count * safetensors_type_bytes(tensors.list[i].type);
        cr_assert_eq(safetensors_write(writer, tensors.data[i], bytes), ERR_NONE);
        free(tensors.data[i]);
    }
    cr_assert_eq(safetensors_finish(writer, NULL, NULL), ERR_NONE);
}

// Writes a good file again, whose name is of the form [rank-R/]step-N.safetensors.
static inline void restore(const char *name)
{
    int step = atoi(strstr(name, "step-") + strlen("step-"));
    cr_assert_eq(remove(in_folder(name)), 0);
    if (strncmp(name, "rank-", 5) == 0)
        fixture_write_seen(&c, folder, step, atoi(name + 5));
    else
        cr_assert_eq(fixture_write_step(&c, folder, step, NULL), ERR_NONE, "%s", err_message());
}

static inline void drop(size_t i)
{
    free(tensors.data[i]);
    for (size_t k = i; k + 1 < tensors.count; k++) {
        tensors.list[k] = tensors.list[k + 1];
        tensors.data[k] = tensors.data[k + 1];
    }
    tensors.count--;
}

static inline void set_whole(const char *name, int64_t value)
{
    memcpy(tensors.data[find(name)], &value, sizeof value);
}

static inline void set_real(const char *name, double value)
{
    memcpy(tensors.data[find(name)], &value, sizeof value);
}
