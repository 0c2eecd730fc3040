// SPDX-License-Identifier: Apache-2.0
// Folders for results: an empty one stays the same folder, a filled one is refused, links are removed and not followed.
#include "base/process/check_folder.h"

#include "base/err.h"
#include "base/folder_test.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

static char out[PATH_MAX];

TestSuite(check_folder, .init = folder_enter, .fini = folder_leave);

Test(check_folder, the_working_directory_is_not_replaced)
{
    struct stat before, after;
    cr_assert_eq(stat(own_folder, &before), 0);
    cr_assert_eq(check_folder_new("--out", ".", out), ERR_NONE, "%s", err_message());
    cr_expect_str_eq(out, own_folder);
    cr_assert_eq(stat(own_folder, &after), 0);
    cr_expect_eq(before.st_ino, after.st_ino);
    folder_write("still-here", "x", 1);
    cr_expect_eq(access("still-here", F_OK), 0);
}

Test(check_folder, a_filled_folder_is_refused)
{
    cr_assert_eq(check_folder_new("--out", "new", out), ERR_NONE, "%s", err_message());
    cr_assert_eq(check_folder_new("--out", "new", out), ERR_NONE, "%s", err_message());
    folder_write("new/.hidden", "x", 1);
    cr_expect_eq(check_folder_new("--out", "new", out), ERR_USAGE);
    cr_expect_str_eq(err_message(), "--out new: is not an empty folder; give a new one");
    folder_write("file", "x", 1);
    cr_expect_eq(check_folder_new("--out", "file", out), ERR_USAGE);
    cr_expect_eq(check_folder_new("--out", "none/here", out), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "--out none/here: cannot be created"), "%s", err_message());
}

Test(check_folder, removal_does_not_follow_links)
{
    cr_assert_eq(mkdir("elsewhere", 0777), 0);
    folder_write("elsewhere/kept", "x", 1);
    cr_assert_eq(check_folder_new("--out", "mine/", out), ERR_NONE, "%s", err_message());
    cr_assert_eq(mkdir("mine/inner", 0777), 0);
    cr_assert_eq(symlink("../../elsewhere", "mine/inner/link"), 0);
    folder_write("mine/inner/file", "x", 1);
    check_folder_clear(out);
    cr_expect_eq(access("mine/inner", F_OK), -1);
    cr_expect_eq(access("mine", F_OK), 0);
    check_folder_remove(out);
    cr_expect_eq(access("mine", F_OK), -1);
    cr_expect_eq(access("elsewhere/kept", F_OK), 0);
}

// On a disk, in memory, where files can be opened past the page cache, too, and where TMPDIR says so.
Test(check_folder, a_temporary_folder_is_where_it_was_asked_for)
{
    static const char *const wanted[] = {"/tmp/zerogauge-check-", "/dev/shm/zerogauge-check-", "./zerogauge-check-"};
    char path[PATH_MAX + 8];
    for (int i = 0; i < 3; i++) {
        if (i == 2)
            setenv("TMPDIR", ".", 1);
        else
            unsetenv("TMPDIR");
        cr_assert_eq(check_folder_temporary(i > 0, out), ERR_NONE, "%s", err_message());
        bool is_other = i == 1 && strncmp(out, wanted[0], strlen(wanted[0])) == 0;  // there is no room in memory
        cr_expect(is_other || strncmp(out, wanted[i], strlen(wanted[i])) == 0, "%s, not %s", out, wanted[i]);
        if (strncmp(out, wanted[1], strlen(wanted[1])) == 0) {
            snprintf(path, sizeof path, "%s/file", out);
            int file = open(path, O_CREAT | O_RDWR | O_DIRECT | O_CLOEXEC, 0600);
            cr_expect_geq(file, 0, "%s: %s", path, strerror(errno));
            close(file);
        }
        check_folder_remove(out);
        cr_expect_eq(access(out, F_OK), -1);
    }
}
