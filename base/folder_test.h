// SPDX-License-Identifier: Apache-2.0
// For tests that write files: a temporary folder, removed with its contents.
#pragma once

#include <criterion/criterion.h>
#include <ftw.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static int folder_remove_entry(const char *path, const struct stat *status, int flag, struct FTW *walk)
{
    (void)status, (void)flag, (void)walk;
    return remove(path);
}

// Makes a new, empty folder, in memory if possible: no test depends on durability. Returns path.
static inline char *folder_make(char path[PATH_MAX])
{
    const char *root = getenv("TMPDIR");
    if (!root)
        root = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, PATH_MAX, "%s/zg-test-XXXXXX", root);
    cr_assert_not_null(mkdtemp(path));
    return path;
}

static inline void folder_remove(const char *path)
{
    nftw(path, folder_remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

// The folder in which a suite's tests run, one each: folder_enter and folder_leave are its .init and .fini.
static char own_folder[PATH_MAX];

static inline void folder_enter(void)
{
    cr_assert_eq(chdir(folder_make(own_folder)), 0);
}

static inline void folder_leave(void)
{
    cr_expect_eq(chdir("/"), 0);
    folder_remove(own_folder);
}

// Reads a file and ends it with a zero; the caller frees the result.
static inline char *folder_read(const char *path, size_t *bytes)
{
    FILE *file = fopen(path, "rb");
    cr_assert_not_null(file, "%s", path);
    struct stat status;
    cr_assert_eq(fstat(fileno(file), &status), 0);
    *bytes = (size_t)status.st_size;
    char *data = malloc(*bytes + 1);
    cr_assert_eq(fread(data, 1, *bytes, file), *bytes);
    data[*bytes] = '\0';
    fclose(file);
    return data;
}

static inline void folder_expect_text(const char *path, const char *expected)
{
    size_t bytes;
    char *text = folder_read(path, &bytes);
    cr_expect_str_eq(text, expected);
    free(text);
}

static inline void folder_write(const char *path, const void *data, size_t bytes)
{
    FILE *file = fopen(path, "wb");
    cr_assert_not_null(file, "%s", path);
    cr_assert_eq(fwrite(data, 1, bytes, file), bytes);
    cr_assert_eq(fclose(file), 0);
}
