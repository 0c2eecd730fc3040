// SPDX-License-Identifier: Apache-2.0
// Faults as a user of `zerogauge train` meets them: a clear error and a non-zero exit, never a wrong number, and
// nothing left on the disk however the program ends.
#include "base/command_test.h"
#include "base/folder_test.h"
#include "base/process/handler_test.h"
#include "ref/tier/storage_test.h"

#include <dirent.h>
#include <jansson.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/wait.h>
#include <time.h>

static char folder[256], output[1 << 16];

static void make_folder(void)
{
    snprintf(folder, sizeof folder, "%s/fault-XXXXXX", storage_folder);
    cr_assert_not_null(mkdtemp(folder));
}

static void remove_folder(void)
{
    folder_remove(folder);
}

TestSuite(fault, .init = make_folder, .fini = remove_folder);

static int entries(const char *path)
{
    int count = -2;  // . and ..
    DIR *dir = opendir(path);
    cr_assert_not_null(dir);
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

// Runs `zerogauge train` with all states on NVMe there; returns the exit status and leaves the printed text in output.
static int train_in(const char *path, const char *options)
{
    char command[2048];
    snprintf(command, sizeof command,
             "%s/zerogauge train --preset zero_infinity --nvme-path %s --model gpt-nano %s 2>&1", ZG_BINARY_DIR, path,
             options);
    return command_run(command, output, sizeof output);
}

__attribute__((format(printf, 1, 2))) static int train(const char *format, ...)
{
    char options[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(options, sizeof options, format, list);
    va_end(list);
    int status = train_in(folder, options);
    cr_assert_eq(entries(folder), 0, "%s left something in %s", options, folder);
    return status;
}

static bool says(const char *text)
{
    return strstr(output, text) != NULL;
}

// The engines in turn, where containers and emulators do not forbid io_uring.
static const char *engine_at(int i)
{
    return i % 2 && storage_has(NVME_IO_URING) ? "io_uring" : "libaio";
}

// A failed request names folder, offset and allocation, a full disk the folder, and both give a remedy.
Test(fault, a_failed_request_ends_the_run_clearly_before_and_during_the_run)
{
    static const struct {
        const char *fault, *says[4];
    } cases[] = {{"eio", {" at offset ", "Input/output error", ", \"", "resume from the last checkpoint"}},
                 {"enospc", {"No space left on device", "--nvme-path"}}};
    for (int i = 0; i < 2; i++)
        for (int k = 1; k < 200; k += 49) {
            int status = train("--steps 4 --engine %s --inject nvme:%s@%d", engine_at(k / 49), cases[i].fault, k);
            cr_assert_eq(status, 2, "%s@%d: %d\n%s", cases[i].fault, k, status, output);
            cr_assert(says(folder), "%s", output);
            for (int part = 0; part < 4 && cases[i].says[part]; part++)
                cr_assert(says(cases[i].says[part]), "%s@%d: %s", cases[i].fault, k, output);
        }
}

Test(fault, short_and_late_requests_change_nothing)
{
    static const char *const faults[] = {"short@1", "short@77", "short@100,nvme:short@101", "delay@150"};
    for (int i = 0; i < 4; i++) {
        cr_assert_eq(train("--steps 2 --verify --engine %s --inject nvme:%s", engine_at(i), faults[i]), 0, "%s: %s",
                     faults[i], output);
        cr_assert(says("equal to unsharded Adam in every bit, 2 of 2 steps"), "%s: %s", faults[i], output);
    }
}

// A changed block is either unused, and the run's digest is equal, or its checksum reports it. A torn write has no
// effect if the missing half was padding. Which request is the k-th differs by run where requests overlap; in serial
// order each run has the same, so that those alone are counted as found.
static int damaged(const char *fault, int from, int stride, int count)
{
    int found = 0;
    for (int i = 0; i < 2 * count; i++) {
        bool serial = i % 2 == 0;
        int k = from + i / 2 * stride;
        const char *schedule = serial ? "serial" : "overlap";
        int status = train("--steps 2 --verify --schedule %s --inject nvme:%s@%d", schedule, fault, k);
        cr_assert(status == 2 || (status == 0 && says("equal to unsharded Adam in every bit")), "%s@%d: %d\n%s", fault,
                  k, status, output);
        found += serial && status == 2;
        if (status == 2)
            cr_assert(says(folder) && says(" at offset ") && says("differ from what was written: checksum") &&
                          says(" of the file there") && says(", \"") && says("resume from the last checkpoint"),
                      "%s", output);
    }
    return found;
}

Test(fault, a_flipped_bit_and_a_torn_write_are_found_by_their_checksum)
{
    cr_expect_geq(damaged("flip", 3, 17, 9), 6);
    cr_expect_geq(damaged("torn", 75, 5, 9), 4);
}

// Without checksums the run trains on the damaged values, and --verify shows where the difference begins.
Test(fault, without_checksums_the_comparison_finds_the_damage)
{
    int found = 0;
    for (int k = 1; k < 120; k += 5) {
        bool serial = k % 2;
        const char *schedule = serial ? "serial" : "overlap";
        int status = train("--steps 2 --verify --no-swap-checksum --schedule %s --inject nvme:flip@%d", schedule, k);
        cr_assert(status == 1 || (status == 0 && says("equal to unsharded Adam in every bit")), "flip@%d: %d\n%s", k,
                  status, output);
        found += serial && status == 1;
        if (status == 1)
            cr_assert(says("FIRST DIFFERENCE  step ") && says("the run differs from unsharded Adam"), "%s", output);
    }
    cr_expect_geq(found, 5);
}

// When one rank ends, all ranks end with its message.
Test(fault, a_rank_that_dies_ends_all_and_is_named)
{
    for (int rank = 0; rank < 3; rank++)
        for (int step = 1; step <= 2; step++) {
            char expected[64];
            snprintf(expected, sizeof expected, "zerogauge train: rank %d: ended in step %d", rank, step);
            time_t begin = time(NULL);
            cr_assert_eq(train("--world 3 --steps 1000 --inject rank:%d:die@%d", rank, step), 2, "%s", output);
            cr_assert(says(expected), "%s", output);
            cr_assert_lt(time(NULL) - begin, 20);
        }
}

// Returns whether the process has an open file below the folder.
static bool has_file(pid_t process)
{
    char path[64], link[512];
    snprintf(path, sizeof path, "/proc/%d/fd", (int)process);
    DIR *dir = opendir(path);
    bool found = false;
    for (struct dirent *entry; dir && (entry = readdir(dir));) {
        char name[sizeof path + sizeof entry->d_name];
        snprintf(name, sizeof name, "%s/%s", path, entry->d_name);
        ssize_t length = readlink(name, link, sizeof link - 1);
        link[length < 0 ? 0 : length] = '\0';
        found |= strncmp(link, folder, strlen(folder)) == 0;
    }
    if (dir)
        closedir(dir);
    return found;
}

// Starts a run without an end, and ends it by the signal when it has files.
static int end_by(int signal_number)
{
    char program[512];
    snprintf(program, sizeof program, "%s/zerogauge", ZG_BINARY_DIR);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        cr_assert(freopen("/dev/null", "w", stderr) && freopen("/dev/null", "w", stdout));
        execl(program, program, "train", "--preset", "zero_infinity", "--nvme-path", folder, "--model", "gpt-nano",
              "--steps", "1000000", NULL);
        _exit(99);
    }
    await_handler(child, SIGINT);
    int status;
    while (!has_file(child)) {
        cr_assert_eq(waitpid(child, &status, WNOHANG), 0, "the run has ended, with status %#x", (unsigned)status);
        usleep(10000);
    }
    cr_assert_eq(kill(child, signal_number), 0);
    cr_assert_eq(waitpid(child, &status, 0), child);
    return status;
}

Test(fault, nothing_is_left_after_a_signal)
{
    int status = end_by(SIGINT);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 130, "%x", (unsigned)status);
    cr_assert_eq(entries(folder), 0);
    status = end_by(SIGKILL);
    cr_expect(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL, "%x", (unsigned)status);
    cr_assert_eq(entries(folder), 0);
}

Test(fault, folders_that_cannot_be_used_are_named_with_what_to_do)
{
    char file[300], expected[400];
    snprintf(file, sizeof file, "%s/file", folder);
    folder_write(file, "x", 1);
    const struct {
        const char *path, *message;
    } cases[] = {{"/nonexistent", ": No such file or directory"}, {file, ": Not a directory"}, {"/proc", ""}};
    for (int i = 0; i < 3; i++) {
        snprintf(expected, sizeof expected, "%s: cannot create a file there%s", cases[i].path, cases[i].message);
        cr_expect_eq(train_in(cases[i].path, "--steps 1"), 2, "%s", output);
        cr_expect(says(expected) && says("--nvme-path takes existing folders that are writable"), "%s", output);
    }
    if (geteuid() == 0)
        return;  // for whom no folder is closed
    cr_assert_eq(remove(file), 0);
    cr_assert_eq(chmod(folder, 0500), 0);
    cr_expect_eq(train_in(folder, "--steps 1"), 2, "%s", output);
    cr_expect(says("Permission denied"), "%s", output);
    cr_assert_eq(chmod(folder, 0700), 0);
}

Test(fault, without_direct_io_only_buffered_works_and_marks_the_result)
{
    char memory[PATH_MAX];
    snprintf(memory, sizeof memory, "%s/zg-fault-XXXXXX", STORAGE_MEMORY_FOLDER);
    if (!mkdtemp(memory)) {
        printf("TEST SKIPPED: no folder can be made in %s\n", STORAGE_MEMORY_FOLDER);
        return;
    }
    int plain = train_in(memory, "--steps 1 --json");
    bool refused = says("no direct I/O (O_DIRECT)") && says("--buffered"), has_direct = plain == 0;
    int buffered = train_in(memory, "--steps 2 --verify --buffered");
    bool marked = says("BUFFERED: NVMe through the page cache");
    int left = entries(memory);
    folder_remove(memory);
    if (has_direct) {
        printf("TEST SKIPPED: %s has direct I/O\n", STORAGE_MEMORY_FOLDER);
        return;
    }
    cr_expect(plain == 2 && refused);
    cr_expect(buffered == 0 && marked && left == 0);
}

// The bytes held in the result are exactly the budget that the run needs; one byte less is refused, and the message
// lists the bytes held.
Test(fault, budgets_are_exact_on_every_tier)
{
    static const char *const tiers[] = {"device", "host", "nvme"};
    static const char *const budgets[] = {"--device-memory", "--host-memory", "--nvme-space"};
    long long held[3] = {0};
    cr_assert_eq(train("--steps 1 --json"), 0, "%s", output);
    json_t *record = json_loads(output, 0, NULL), *value;
    cr_assert_not_null(record, "%s", output);
    for (int tier = 0; tier < 3; tier++) {
        const char *kind;
        json_t *kinds = json_object_get(json_object_get(record, "held_bytes_by_tier"), tiers[tier]);
        json_object_foreach (kinds, kind, value)
            held[tier] += json_integer_value(value);
        cr_assert_gt(held[tier], 0);
    }
    json_decref(record);
    for (int less = -1; less < 3; less++) {
        int status = train("--steps 2 --verify --device-memory %lld --host-memory %lld --nvme-space %lld",
                           held[0] - (less == 0), held[1] - (less == 1), held[2] - (less == 2));
        cr_assert_eq(status, less < 0 ? 0 : 2, "%s less: %s", less < 0 ? "nothing" : tiers[less], output);
        if (less >= 0)
            cr_assert(says(budgets[less]) && says("does not fit") && says(" held ("), "%s", output);
    }
}
