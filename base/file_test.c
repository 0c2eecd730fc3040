// SPDX-License-Identifier: Apache-2.0
// Opening what others have put there: nothing waits, nothing is written through a link, nothing half is left.
#include "base/file.h"

#include "base/err.h"
#include "base/folder_test.h"
#include "base/json.h"

#include <fcntl.h>
#include <sys/resource.h>

static void setup(void)
{
    folder_enter();
    folder_write("regular", "{}", 2);
    cr_assert_eq(symlink("regular", "link"), 0);
    cr_assert_eq(symlink("nothing", "dangling"), 0);
    cr_assert_eq(mkfifo("pipe", 0600), 0);
    cr_assert_eq(symlink("pipe", "link-to-pipe"), 0);
    cr_assert_eq(mkdir("inner", 0777), 0);
}

TestSuite(file, .init = setup, .fini = folder_leave, .timeout = 500);

static void expect_refused(int code, int expected, const char *message)
{
    cr_expect_eq(code, expected, "%d", code);
    cr_expect_str_eq(err_message(), message);
}

Test(file, only_regular_files_are_opened)
{
    int fd;
    cr_assert_eq(file_open("regular", &fd), ERR_NONE, "%s", err_message());
    cr_expect(fcntl(fd, F_GETFD) & FD_CLOEXEC);
    close(fd);
    cr_assert_eq(file_open("link", &fd), ERR_NONE, "%s", err_message());
    close(fd);
    expect_refused(file_open("pipe", &fd), ERR_USAGE, "pipe: is not a regular file");
    expect_refused(file_open("link-to-pipe", &fd), ERR_USAGE, "link-to-pipe: is not a regular file");
    expect_refused(file_open("inner", &fd), ERR_USAGE, "inner: is not a regular file");
    expect_refused(file_open("/dev/zero", &fd), ERR_USAGE, "/dev/zero: is not a regular file");
    expect_refused(file_open("dangling", &fd), ERR_USAGE, "dangling: cannot be opened: No such file or directory");
    cr_expect_eq(fd, -1);
}

Test(file, a_link_in_a_folder_of_others_is_refused)
{
    int fd, inside = open(".", O_RDONLY | O_DIRECTORY);
    cr_assert_eq(file_open_at(inside, "regular", "shown", &fd), ERR_NONE, "%s", err_message());
    close(fd);
    expect_refused(file_open_at(inside, "link", "shown", &fd), ERR_USAGE,
                   "shown: is a symbolic link, expected a regular file");
    expect_refused(file_open_at(inside, "pipe", "shown", &fd), ERR_USAGE, "shown: is not a regular file");
    close(inside);
}

Test(file, readers_of_whole_files_do_not_wait_for_a_pipe)
{
    char *text;
    size_t bytes;
    expect_refused(file_read_text("pipe", 100, &text, &bytes), ERR_USAGE, "pipe: is not a regular file");
    expect_refused(json_read("pipe", &text, &bytes), ERR_USAGE, "pipe: is not a regular file");
    expect_refused(file_read_text("regular", 1, &text, &bytes), ERR_USAGE,
                   "regular: has 2 bytes; at most 1 are expected");
}

Test(file, too_many_open_files_are_named_as_the_cause)
{
    int fd, last = dup(0);
    struct rlimit limit;
    getrlimit(RLIMIT_NOFILE, &limit);
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)last, limit.rlim_max});
    int code = file_open("regular", &fd);
    setrlimit(RLIMIT_NOFILE, &limit);
    expect_refused(code, ERR_IO,
                   "regular: cannot be opened: this process has too many open files; raise their limit with `ulimit "
                   "-n`");
}

static size_t entries(void)
{
    size_t count = 0;
    char command[] = "ls -A | wc -l";
    FILE *list = popen(command, "r");
    cr_assert_eq(fscanf(list, "%zu", &count), 1);
    pclose(list);
    return count;
}

Test(file, output_replaces_a_regular_file_when_it_is_complete)
{
    struct file_output output;
    size_t before = entries();
    cr_assert_eq(file_output_open("regular", FILE_REPLACED, &output), ERR_NONE, "%s", err_message());
    fprintf(output.out, "whole");
    fflush(output.out);
    folder_expect_text("regular", "{}");
    cr_assert_eq(file_output_close(&output, ERR_NONE), ERR_NONE, "%s", err_message());
    folder_expect_text("regular", "whole");
    cr_assert_eq(file_output_open("regular", FILE_REPLACED, &output), ERR_NONE, "%s", err_message());
    fprintf(output.out, "half");
    cr_expect_eq(file_output_close(&output, ERR_CHECK), ERR_CHECK);
    folder_expect_text("regular", "whole");
    cr_expect_eq(entries(), before);
}

Test(file, a_new_output_replaces_nothing)
{
    static const char refused[] = "regular: exists, and is never overwritten; give another name, or remove it";
    struct file_output output, second;
    size_t before = entries();
    int fd;
    expect_refused(file_output_open("regular", FILE_NEW, &output), ERR_USAGE, refused);
    expect_refused(file_create("regular", &fd), ERR_IO, refused);
    expect_refused(file_create("dangling", &fd), ERR_IO,
                   "dangling: exists, and is never overwritten; give another name, or remove it");
    expect_refused(file_output_open("dangling", FILE_NEW, &output), ERR_USAGE,
                   "dangling: is a symbolic link, which is never written to; give another name");
    cr_assert_eq(file_output_open("new", FILE_NEW, &output), ERR_NONE, "%s", err_message());
    cr_assert_eq(file_output_open("new", FILE_NEW, &second), ERR_NONE, "%s", err_message());
    fprintf(output.out, "first");
    fprintf(second.out, "second");
    cr_expect_eq(file_output_close(&second, ERR_NONE), ERR_NONE, "%s", err_message());
    expect_refused(file_output_close(&output, ERR_NONE), ERR_USAGE,
                   "new: exists, and is never overwritten; give another name, or remove it");
    folder_expect_text("new", "second");
    folder_expect_text("regular", "{}");
    cr_expect_eq(entries(), before + 1);
}

Test(file, folders_are_made_and_opened_but_not_through_links)
{
    int fd;
    cr_expect_eq(file_make_folder("made"), ERR_NONE, "%s", err_message());
    cr_expect_eq(file_make_folder("made"), ERR_NONE, "%s", err_message());
    cr_assert_eq(file_open_folder(AT_FDCWD, "made", "made", &fd), ERR_NONE, "%s", err_message());
    close(fd);
    cr_assert_eq(symlink("made", "linked"), 0);
    expect_refused(file_make_folder("linked"), ERR_USAGE,
                   "linked: is a link or a file; expected a folder, or a new name");
    expect_refused(file_make_folder("regular"), ERR_USAGE,
                   "regular: is a link or a file; expected a folder, or a new name");
    expect_refused(file_make_folder("none/here"), ERR_USAGE, "none/here: cannot be created: No such file or directory");
    expect_refused(file_open_folder(AT_FDCWD, "linked", "linked", &fd), ERR_USAGE,
                   "linked: is a link or a file; expected a folder");
    expect_refused(file_open_folder(AT_FDCWD, "regular", "regular", &fd), ERR_USAGE,
                   "regular: is a link or a file; expected a folder");
}

Test(file, output_is_never_written_through_a_link)
{
    struct file_output output;
    size_t before = entries();
    expect_refused(file_output_open("link", FILE_REPLACED, &output), ERR_USAGE,
                   "link: is a symbolic link, which is never written to; give another name");
    expect_refused(file_output_open("dangling", FILE_REPLACED, &output), ERR_USAGE,
                   "dangling: is a symbolic link, which is never written to; give another name");
    expect_refused(file_output_open("pipe", FILE_REPLACED, &output), ERR_USAGE,
                   "pipe: is not a regular file, which is never written to; give another name");
    expect_refused(file_output_open("inner", FILE_REPLACED, &output), ERR_USAGE,
                   "inner: is a folder, which is never written to; give another name");
    expect_refused(file_output_open("none/here", FILE_NEW, &output), ERR_USAGE,
                   "none/here: cannot be created: No such file or directory");
    folder_expect_text("regular", "{}");
    cr_expect_eq(entries(), before);
}

Test(file, output_that_gets_lost_is_an_error)
{
    struct file_output output;
    FILE *full = fopen("/dev/full", "w");
    fprintf(full, "lost");
    cr_expect_eq(file_flush(full, "the text"), ERR_IO);
    cr_expect_str_eq(err_message(), "the text could not be written completely: No space left on device");
    fclose(full);
    cr_assert_eq(file_output_open("regular", FILE_REPLACED, &output), ERR_NONE, "%s", err_message());
    cr_assert_neq(dup2(open("/dev/full", O_WRONLY), fileno(output.out)), -1);
    fprintf(output.out, "lost");
    cr_expect_eq(file_output_close(&output, ERR_NONE), ERR_IO);
    folder_expect_text("regular", "{}");
}
