// SPDX-License-Identifier: Apache-2.0
// Runs real commands: the result reports exactly how each ended, every limit stops them, and no process remains.
#include "base/process/launch.h"

#include "base/err.h"
#include "base/folder_test.h"
#include "base/process/launch_watch.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>

static char output[PATH_MAX + 16];
static struct launch_setting setting;
static struct launch_result result;

static void setup(void)
{
    folder_enter();
    snprintf(output, sizeof output, "%s/output", own_folder);
    setting = (struct launch_setting){.output_path = output, .time_limit_s = 300};
}

TestSuite(launch, .init = setup, .fini = folder_leave);

static void shell(const char *script)
{
    const char *const argv[] = {"sh", "-c", script, NULL};
    setting.argv = argv;
    unlink(output);
    cr_assert_eq(launch(&setting, &result), ERR_NONE, "%s", err_message());
}

enum { ANY = -1 };

static void expect_end(enum launch_end end, int status, const char *script)
{
    shell(script);
    cr_expect_eq(result.end, end, "%s: %s", script, result.text);
    cr_expect(status == ANY || result.status == status, "%s: %d", script, result.status);
}

// The process whose id the command wrote to a file is gone.
static void expect_gone(const char *file)
{
    size_t bytes;
    char *text = folder_read(file, &bytes);
    int pid = atoi(text);
    free(text);
    cr_assert_gt(pid, 1, "%s", file);
    cr_expect(kill(pid, 0) == -1 && errno == ESRCH, "%s: %d is alive", file, pid);
}

enum { LEAST_SHELL_BYTES = 100000 };

static double seen_s;

// A command that ends between two samples, or is sampled before exec, has no observed memory.
static void tell_that_memory_was_seen(void *context, double seconds)
{
    (void)context;
    if (seen_s > 0 || result.peak_memory_bytes < LEAST_SHELL_BYTES)
        return;
    seen_s = seconds;
    folder_write("seen", "", 0);
}

Test(launch, the_exit_status_is_reported)
{
    expect_end(LAUNCH_EXITED, 0, "exit 0");
    setting.tick = tell_that_memory_was_seen;
    expect_end(LAUNCH_EXITED, 3, "echo one; echo two >&2; until [ -e seen ]; do sleep 0.02; done; echo three; exit 3");
    cr_expect_str_eq(result.text, "exited with status 3");
    cr_expect(result.seconds >= seen_s && result.seconds < 300, "%g s, %g s", result.seconds, seen_s);
    cr_expect_lt(result.peak_memory_bytes, 100000000);
    folder_expect_text(output, "one\ntwo\nthree\n");
}

Test(launch, stderr_goes_to_its_own_file)
{
    char errors[PATH_MAX + 32];
    snprintf(errors, sizeof errors, "%s/errors", own_folder);
    setting.error_path = errors;
    shell("echo one; echo two >&2; echo three");
    folder_expect_text(output, "one\nthree\n");
    folder_expect_text(errors, "two\n");
    unlink(output);
    cr_expect_eq(launch(&setting, &result), ERR_IO, "an older file of errors was overwritten");
    cr_expect_neq(access(output, F_OK), 0);
    unlink(errors);
    setting.output_limit_bytes = 100000;
    expect_end(LAUNCH_OUTPUT, ANY, "yes >&2");
}

static int ticks;
static double ticked_s;

static void count_tick(void *context, double seconds)
{
    cr_expect_eq(context, &ticks);
    cr_expect_geq(seconds, ticked_s);
    ticked_s = seconds;
    if (++ticks == 3)
        folder_write("ticked", "", 0);
}

Test(launch, the_tick_is_called_while_it_runs)
{
    setting.tick = count_tick;
    setting.tick_context = &ticks;
    expect_end(LAUNCH_EXITED, ANY, "until [ -e ticked ]; do sleep 0.02; done");
    cr_expect_geq(ticks, 3);
    cr_expect(ticked_s > 0.09 && ticked_s <= result.seconds, "two pauses of 50 ms: %g", ticked_s);
}

Test(launch, the_signal_is_reported)
{
    sigset_t blocked;
    sigemptyset(&blocked);
    sigaddset(&blocked, SIGTERM);
    sigprocmask(SIG_BLOCK, &blocked, NULL);
    signal(SIGTERM, SIG_IGN);
    expect_end(LAUNCH_SIGNALLED, SIGTERM, "kill -TERM $$; echo alive");
    cr_expect_str_eq(result.text, "was killed by signal 15 (Terminated)");
    folder_expect_text(output, "");
    expect_end(LAUNCH_SIGNALLED, SIGSEGV, "ulimit -c; kill -SEGV $$");
    folder_expect_text(output, "0\n");
}

Test(launch, the_command_has_an_empty_stdin_and_no_other_descriptors)
{
    int fd = open("/dev/zero", O_RDONLY);
    cr_assert_eq(dup2(fd, 57), 57);
    expect_end(LAUNCH_EXITED, 0,
               "cat; ls /proc/self/fd | tr '\\n' ' '; ps -o pgid= -p $$ | tr -d ' ' >group; echo $$ >self");
    folder_expect_text(output, "0 1 2 3 ");
    size_t bytes;
    char *group = folder_read("group", &bytes), *self = folder_read("self", &bytes);
    cr_expect_eq(atoi(group), atoi(self));
    free(group);
    free(self);
    cr_expect_eq(fcntl(57, F_GETFD), 0);
}

// The limit counts from the beginning, but not before the command's files are there.
static void limit_when_there(void *context, double seconds)
{
    const char *const *files = context;
    (void)seconds;
    for (int i = 0; files[i]; i++)
        if (access(files[i], F_OK) != 0)
            return;
    setting.time_limit_s = 1.5;
}

Test(launch, a_time_limit_stops_it)
{
    const char *files[] = {"self", NULL};
    setting.tick = limit_when_there;
    setting.tick_context = files;
    expect_end(LAUNCH_TIME, SIGTERM, "echo $$ >self.tmp; mv self.tmp self; sleep 600");
    cr_expect_str_eq(result.text, "timed out after 1.5 s");
    cr_expect(result.seconds >= 1.5 && result.seconds < 300, "%g s", result.seconds);
    expect_gone("self");
}

// It writes a file every half second, and one that it has written again, for longer than the limit; then nothing.
Test(launch, with_a_watched_folder_the_limit_counts_from_the_last_new_file)
{
    char answers[PATH_MAX];
    snprintf(answers, sizeof answers, "%.3000s/answers", own_folder);
    cr_assert_eq(mkdir(answers, 0777), 0);
    setting.watched_folder = answers;
    setting.time_limit_s = 2;
    expect_end(LAUNCH_TIME, SIGTERM,
               "for i in 1 2 3 4 5 6; do sleep 0.5; touch answers/$i; done; while sleep 0.2; do touch answers/1; done");
    cr_expect_str_eq(result.text, "timed out: for 2 s it wrote nothing new");
    cr_expect(result.seconds >= 5 && result.seconds < 60, "%g s", result.seconds);
}

// The first answer's folder alone is no answer yet. What was there before the command does not count.
Test(launch, five_times_the_limit_passes_before_the_first_new_file)
{
    char answers[PATH_MAX];
    snprintf(answers, sizeof answers, "%.3000s/answers", own_folder);
    cr_assert_eq(mkdir(answers, 0777), 0);
    folder_write("answers/old", "1234567", 7);
    folder_write("answers/older", "1234567", 7);
    setting.watched_folder = answers;
    setting.time_limit_s = 0.6;
    expect_end(LAUNCH_EXITED, 0, "sleep 1.5; mkdir answers/new; sleep 1.5; touch answers/new/file");
    expect_end(LAUNCH_TIME, SIGTERM, "sleep 600");
    cr_expect_str_eq(result.text, "timed out: for 3 s it wrote nothing new");
    expect_end(LAUNCH_TIME, SIGTERM, "mkdir -p answers/newer/file; sleep 600");
    cr_expect_str_eq(result.text, "timed out: for 0.6 s it wrote nothing new");
}

Test(launch, a_process_that_ignores_sigterm_and_leaves_the_session_is_killed)
{
    const char *files[] = {"self", "grandchild", NULL};
    setting.tick = limit_when_there;
    setting.tick_context = files;
    expect_end(
        LAUNCH_TIME, SIGKILL,
        "trap '' TERM; (setsid sh -c 'trap \"\" TERM; echo $$ >g.tmp; mv g.tmp grandchild; sleep 600; sleep 600' &); "
        "echo $$ >s.tmp; mv s.tmp self; sleep 600; sleep 600");
    expect_gone("grandchild");
    expect_gone("self");
}

Test(launch, processes_that_a_command_leaves_behind_are_killed)
{
    expect_end(
        LAUNCH_EXITED, 0,
        "(setsid sh -c 'echo $$ >orphan.tmp; mv orphan.tmp orphan; exec sleep 600' &); sleep 600 & echo $! >child; "
        "while [ ! -e orphan ]; do sleep 0.02; done");
    expect_gone("orphan");
    expect_gone("child");
}

static struct timespec changed(const char *path)
{
    struct stat status;
    cr_assert_eq(stat(path, &status), 0, "%s", path);
    return status.st_mtim;
}

// Every link of the chain lives for some 100 us and loses its parent; several chains run at the same time.
Test(launch, a_chain_of_forks_that_change_their_session_is_killed)
{
    static const char *const files[] = {"chain-0", "chain-1", "chain-2"};
    char script[PATH_MAX + 256];
    snprintf(script, sizeof script,
             "for i in 0 1 2; do '%s/launch_chain_program' chain-$i; done; "
             "while [ ! -e chain-2 ]; do sleep 0.02; done; exit 5",
             ZG_BINARY_DIR);
    expect_end(LAUNCH_EXITED, 5, script);
    struct timespec before[3];
    for (int i = 0; i < 3; i++)
        before[i] = changed(files[i]);
    nanosleep(&(struct timespec){.tv_nsec = 300000000}, NULL);
    for (int i = 0; i < 3; i++) {
        struct timespec after = changed(files[i]);
        cr_expect(after.tv_sec == before[i].tv_sec && after.tv_nsec == before[i].tv_nsec, "%s lives", files[i]);
    }
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1);
}

static pid_t begin_child(void)
{
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        sleep(600);
        _exit(0);
    }
    return child;
}

static void end_child(pid_t child)
{
    cr_expect_eq(kill(child, SIGKILL), 0);
    cr_expect_eq(waitpid(child, NULL, 0), child);
}

Test(launch, children_of_the_suite_survive)
{
    pid_t mine = begin_child();
    expect_end(LAUNCH_EXITED, 4, "sleep 600 & exit 4");
    cr_expect_eq(waitpid(mine, NULL, WNOHANG), 0);
    end_child(mine);
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1);
}

// A descendant may get the id that another process had before the command.
Test(launch, of_the_processes_before_a_command_only_children_are_known_by_their_ids)
{
    struct process_list list = {0};
    pid_t mine = begin_child();
    cr_assert_eq(process_scan(&list), ERR_NONE);
    cr_expect(process_find(&list, mine) && process_find(&list, getpid()) && process_find(&list, getppid()));
    process_keep_children(&list);
    cr_expect_eq(list.count, 1);
    cr_expect(process_find(&list, mine));
    process_list_free(&list);
    end_child(mine);
}

Test(launch, a_memory_limit_counts_all_processes_together)
{
    setting.memory_limit_bytes = 100 << 20;
    expect_end(LAUNCH_EXITED, 0, "dd if=/dev/zero of=/dev/null bs=64M count=3 2>/dev/null");
    expect_end(LAUNCH_MEMORY, ANY,
               "dd if=/dev/zero of=/dev/null bs=64M & echo $! >first; "
               "dd if=/dev/zero of=/dev/null bs=64M & echo $! >second; wait");
    cr_expect_gt(result.peak_memory_bytes, 100 << 20);
    cr_expect_lt(result.peak_memory_bytes, 300 << 20);
    cr_expect_not_null(strstr(result.text, "MiB, the limit is 100 MiB"), "%s", result.text);
    expect_gone("first");
    expect_gone("second");
}

static pid_t guest;

static void bring_guest(void *context, double seconds)
{
    struct process_list children = {0};
    (void)context, (void)seconds;
    cr_assert_eq(process_scan(&children), ERR_NONE);
    process_keep_children(&children);
    for (size_t i = 0; i < children.count; i++)
        if (children.list[i].pid != guest)
            setpgid(guest, children.list[i].pid);
    process_list_free(&children);
}

Test(launch, a_process_that_joins_the_group_of_a_command_counts_and_ends_with_it)
{
    guest = fork();
    if (guest == 0) {
        signal(SIGTERM, SIG_IGN);
        alarm(20);
        mmap(NULL, 200 << 20, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        for (;;)
            pause();
    }
    setting.memory_limit_bytes = 100 << 20;
    setting.tick = bring_guest;
    expect_end(LAUNCH_MEMORY, ANY, "sleep 20");
    int status;
    cr_expect_eq(waitpid(guest, &status, 0), guest);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
}

static void release_when_both_are_large(void *context, double seconds)
{
    (void)context, (void)seconds;
    if (result.sum_of_peaks_bytes > 128u << 20)
        folder_write("seen", "", 0);
}

// The peaks of processes that have let their memory go, or have ended, still count.
Test(launch, the_peaks_of_all_processes_are_added)
{
    setting.tick = release_when_both_are_large;
    expect_end(
        LAUNCH_EXITED, ANY,
        "for part in 1 2; do (dd if=/dev/zero of=/dev/null bs=64M & dd=$!; until [ -e seen ]; do sleep 0.02; done; "
        "kill $dd) & done; wait");
    cr_expect_gt(result.sum_of_peaks_bytes, 128u << 20);
    cr_expect_lt(result.sum_of_peaks_bytes, 200u << 20);
}

Test(launch, the_peak_of_this_process_can_begin_anew)
{
    enum { BYTES = 64 << 20 };
    uint64_t before_bytes = process_peak(getpid());
    char *memory = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);  // free may keep it
    cr_assert_neq(memory, MAP_FAILED);
    memset(memory, 1, BYTES);
    uint64_t with_bytes = process_peak(getpid());
    cr_expect_gt(with_bytes, before_bytes + BYTES / 2);
    munmap(memory, BYTES);
    cr_expect_gt(process_peak(getpid()), before_bytes + BYTES / 2);
    cr_assert_eq(process_peak_restart(), ERR_NONE, "%s", err_message());
    cr_expect_lt(process_peak(getpid()), with_bytes - BYTES / 2);
    cr_expect_eq(process_peak(0), 0);
}

Test(launch, an_output_limit_stops_endless_output)
{
    struct stat status;
    setting.output_limit_bytes = 1 << 20;
    expect_end(LAUNCH_OUTPUT, ANY, "echo $$ >self; exec yes");
    cr_expect_not_null(strstr(result.text, "the limit is 1 MiB"), "%s", result.text);
    cr_assert_eq(stat(output, &status), 0);
    cr_expect_gt(status.st_size, 1 << 20);
    expect_gone("self");
    expect_end(LAUNCH_OUTPUT, ANY, "head -c 1048577 /dev/zero");
    expect_end(LAUNCH_EXITED, ANY, "head -c 1048576 /dev/zero");
}

Test(launch, an_output_limit_counts_the_watched_folder)
{
    setting.output_limit_bytes = 4 << 20;
    setting.watched_folder = "watched";
    cr_assert_eq(mkdir("watched", 0777), 0);
    expect_end(LAUNCH_OUTPUT, ANY, "exec dd if=/dev/zero of=watched/file bs=1M count=100000");
    cr_assert_eq(unlink("watched/file"), 0);
    expect_end(LAUNCH_OUTPUT, ANY,
               "mkdir -p watched/a/b; i=0; while :; do head -c 100000 /dev/zero >watched/a/b/$i; i=$((i+1)); done");
    folder_remove("watched/a");
    expect_end(LAUNCH_OUTPUT, ANY,
               "mkdir watched/many; cd watched/many; while :; do mktemp -p . >/dev/null; truncate -s 1T huge; done");
    folder_remove("watched/many");
    expect_end(
        LAUNCH_OUTPUT, ANY,
        "cd watched; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30 31 32 "
        "33; do mkdir x; cd x; done");
    cr_expect_str_eq(result.text, "was stopped: it nested folders too deep");
}

Test(launch, an_earlier_interrupt_stops_it)
{
    static volatile sig_atomic_t interrupted;
    interrupted = 1;
    setting.interrupted = &interrupted;
    expect_end(LAUNCH_INTERRUPTED, ANY, "echo $$ >self; sleep 600");
}

static volatile sig_atomic_t asked_to_end;

static void ask_when_it_runs(void *context, double seconds)
{
    (void)context, (void)seconds;
    asked_to_end = access("self", F_OK) == 0;
}

Test(launch, an_interrupt_while_it_runs_stops_it)
{
    setting.interrupted = &asked_to_end;
    setting.tick = ask_when_it_runs;
    expect_end(LAUNCH_INTERRUPTED, ANY, "echo $$ >self.tmp; mv self.tmp self; sleep 600");
    expect_gone("self");
}

Test(launch, a_command_that_cannot_start_is_an_error)
{
    static const char *const none[] = {"./nothing", NULL}, *const unknown[] = {"zerogauge-no-such-command", NULL};
    static const char *const text[] = {"./text", "x", NULL}, *const a_folder[] = {".", NULL};
    static const struct {
        const char *const *argv, *why;
    } rows[] = {{none, "./nothing: cannot be started: No such file or directory"},
                {unknown, "zerogauge-no-such-command: cannot be started: No such file or directory"},
                {text, "./text: cannot be started: Permission denied"},
                {a_folder, ".: cannot be started: Permission denied"}};
    folder_write("text", "no program", 10);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setting.argv = rows[i].argv;
        cr_expect_eq(launch(&setting, &result), ERR_USAGE);
        cr_expect_str_eq(err_message(), rows[i].why);
        cr_expect_eq(access(output, F_OK), -1);
    }
    cr_expect_eq(waitpid(-1, NULL, WNOHANG), -1);
}

Test(launch, an_existing_output_file_is_not_overwritten)
{
    static const char *const argv[] = {"true", NULL};
    folder_write(output, "mine", 4);
    setting.argv = argv;
    cr_expect_eq(launch(&setting, &result), ERR_IO);
    folder_expect_text(output, "mine");
}

Test(launch, the_tail_is_complete_printable_lines)
{
    char tail[12], longer[16];
    folder_write("log", "first line\nsecond\tli\033e\n", 23);
    cr_expect_str_eq(launch_tail("log", longer, sizeof longer), "second li?e");
    cr_expect_str_eq(launch_tail("log", tail, sizeof tail), "econd li?e");
    folder_write("log", "first\nab\0\xff\n", 11);
    cr_expect_str_eq(launch_tail("log", tail, sizeof tail), "first\nab??");
    folder_write("log", "0123456789abcdef", 16);
    cr_expect_str_eq(launch_tail("log", tail, sizeof tail), "56789abcdef");
    folder_write("log", "", 0);
    cr_expect_str_eq(launch_tail("log", tail, sizeof tail), "");
    cr_expect_str_eq(launch_tail("nothing", tail, sizeof tail), "");
    cr_assert_eq(symlink("/etc/passwd", "link"), 0);
    cr_expect_str_eq(launch_tail("link", tail, sizeof tail), "");
}

Test(launch, a_folder_counts_its_contents_and_follows_no_links)
{
    cr_expect_eq(folder_weight("nothing"), 0);
    cr_assert_eq(mkdir("w", 0777), 0);
    cr_expect_eq(folder_weight("w"), 0);
    folder_write("w/a", "1234567", 7);
    cr_assert_eq(mkdir("w/b", 0777), 0);
    folder_write("w/b/c", "12345", 5);
    cr_assert_eq(symlink("..", "w/b/up"), 0);
    cr_assert_eq(symlink("/", "w/b/root"), 0);
    cr_expect_eq(folder_weight("w"), 12 + 5 * 512);
    cr_assert_eq(symlink("w", "link"), 0);
    cr_expect_eq(folder_weight("link"), 0);
}
