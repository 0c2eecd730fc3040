// SPDX-License-Identifier: Apache-2.0
#include "ref/tier/folder_room.h"

#include "base/err.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

Test(folder_room, a_folder_with_room_passes_and_stays_empty)
{
    char folder[PATH_MAX];
    folder_make(folder);
    cr_expect_eq(folder_check_writable("--nvme-path", folder), ERR_NONE);
    cr_expect_eq(folder_check_room("--nvme-path", folder, 1 << 20), ERR_NONE);
    cr_expect_eq(folder_check_room("--nvme-path", folder, 0), ERR_NONE);
    cr_expect_eq(rmdir(folder), 0, "a file was left");
}

Test(folder_room, a_folder_that_takes_no_files_is_named_with_the_reason)
{
    cr_expect_eq(folder_check_writable("--nvme-path", "/proc"), ERR_USAGE);
    cr_expect_eq(strncmp(err_message(), "--nvme-path /proc: cannot create a file there: ", 47), 0, "%s", err_message());
    cr_expect(strstr(err_message(), "; give a folder that is writable"), "%s", err_message());
    cr_expect_eq(folder_check_room("--nvme-path", "/proc", 1), ERR_NONE, "that is for folder_check_writable");
}

Test(folder_room, more_than_the_disk_has_is_refused_with_what_is_free)
{
    char folder[PATH_MAX];
    folder_make(folder);
    cr_expect_eq(folder_check_room("--nvme-path", folder, UINT64_C(1) << 42), ERR_USAGE);
    cr_expect(strstr(err_message(), folder), "%s", err_message());
    cr_expect(strstr(err_message(), "no space for files of 4 TiB (") || strstr(err_message(), "exceed a limit"), "%s",
              err_message());
    folder_remove(folder);
}

Test(folder_room, a_limit_of_file_sizes_is_said_to_be_one)
{
    char folder[PATH_MAX];
    const struct rlimit limit = {1 << 16, 1 << 16};
    folder_make(folder);
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
    cr_expect_eq(folder_check_room("--nvme-path", folder, 1 << 16), ERR_NONE);
    cr_expect_eq(folder_check_room("--nvme-path", folder, (1 << 16) + 1), ERR_USAGE);
    cr_expect(strstr(err_message(), "would exceed a limit there (ulimit -f"), "%s", err_message());
    folder_remove(folder);
}
