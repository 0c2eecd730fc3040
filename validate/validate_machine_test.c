// SPDX-License-Identifier: Apache-2.0
// Validates a machine with a fault through the program itself: the verdict names the fault.
#include "validate/validate.h"

#include "base/command_test.h"
#include "base/err.h"
#include "base/process/launch_watch.h"
#include "bench/harness/fio.h"
#include "results/record/record_verify.h"
#include "validate/validate_test.h"

#include <glob.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>

static char folder[PATH_MAX];
static const char disk[] = ZG_BINARY_DIR;

static void setup(void)
{
    folder_make(folder);
}

static void teardown(void)
{
    folder_remove(folder);
}

TestSuite(validate_machine, .init = setup, .fini = teardown);

// Runs one real benchmark, judged by one accepted range unless that is null. The caller closes the file.
static struct result_file validate_part(const char *name, const char *const *words, const char *range)
{
    struct validate_plan plan = {.count = 1};
    struct validate_part *part = &plan.parts[0];
    struct accepted_ranges ranges = {0};
    struct validate_result result;
    struct result_file file;
    char path[PATH_MAX + 16];
    *part = (struct validate_part){
        .bench = name, .expected_s = 3, .limit_s = 300, .argv = {ZG_BINARY_DIR "/zerogauge", "bench", name, "--json"}};
    snprintf(part->name, sizeof part->name, "bench-%s", name);
    for (int i = 0; words[i]; i++)
        part->argv[4 + i] = words[i];
    if (range)
        cr_assert_eq(accepted_ranges_parse("test", range, strlen(range), &ranges), ERR_NONE, "%s", err_message());
    const struct validate_setting setting = trial_setting(folder, &plan, &ranges);
    cr_assert_eq(validate_run(&setting, &result), ERR_NONE, "%s", err_message());
    validate_result_free(&result);
    accepted_ranges_free(&ranges);
    snprintf(path, sizeof path, "%s/result.jsonl", folder);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    return file;
}

// Returns whether the run is INVALID for a reason that contains both words.
static bool is_invalid_for(const struct result_file *file, const char *word, const char *other)
{
    size_t i;
    json_t *reason;
    const char *verdict = json_string_value(json_object_get(file->end, "verdict"));
    json_array_foreach (json_object_get(file->end, "reasons"), i, reason) {
        const char *text = json_string_value(reason);
        if (verdict && strcmp(verdict, "INVALID") == 0 && strstr(text, word) && strstr(text, other))
            return true;
    }
    return false;
}

static char *end_of(const struct result_file *file)
{
    return json_dumps(file->end, 0);
}

Test(validate_machine, a_throttled_lane_is_found_and_named)
{
    char version[FIO_VERSION_BYTES];
    if (fio_version(version) != ERR_NONE) {
        printf("TEST SKIPPED: %s\n", err_message());
        return;
    }
    static const char range[] = "{\"schema\":1,\"about\":\"x\",\"bands\":[{\"id\":\"nvme-read\",\"bench\":\"nvme\","
                                "\"case\":{\"direction\":\"read\"},\"metric\":\"ratio\",\"at_least\":0.9,"
                                "\"source\":\"this test\"}]}";
    const char *const words[] = {"--quick",    "--direction=read",
                                 "--size=16M", "--sizes=64K",
                                 "--depths=4", "--seconds=0.2",
                                 "--repeat=1", "--nvme-path",
                                 disk,         "--emulate=nvme-read=0.001",
                                 NULL};
    struct result_file file = validate_part("nvme", words, range);
    char *end = end_of(&file);
    cr_expect(is_invalid_for(&file, "nvme-read: nvme read ", "EMULATED nvme-read=0.001 reaches "), "%s", end);
    free(end);
    result_close(&file);
}

enum { BURNER_MAX = 256 };

// Runnable programs; the scheduler moves them to the processors with less to do.
static int running_count(void)
{
    int count = 0;
    FILE *file = fopen("/proc/loadavg", "r");
    if (file && fscanf(file, "%*s %*s %*s %d/", &count) != 1)
        count = 0;
    if (file)
        fclose(file);
    return count;
}

// Starts busy loops on one processor, enough to outweigh all other runnable programs; they end with this test. Each has
// its own session, because the scheduler may divide processors by session. Returns their number.
static int burners_start(int processor, pid_t burners[BURNER_MAX])
{
    int count = 6 + running_count();
    count = count < BURNER_MAX ? count : BURNER_MAX;
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET((size_t)processor, &set);
    for (int i = 0; i < count; i++) {
        burners[i] = fork();
        if (burners[i] != 0)
            continue;
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        setsid();
        sched_setaffinity(0, sizeof set, &set);
        for (volatile bool ends = false; !ends;)
            continue;
    }
    return count;
}

static void burners_stop(const pid_t burners[BURNER_MAX], int count)
{
    for (int i = 0; i < count; i++) {
        kill(burners[i], SIGKILL);
        waitpid(burners[i], NULL, 0);
    }
}

// The first two processors that this process may use; false: there is one.
static bool two_processors(int out[2])
{
    cpu_set_t set;
    int count = 0;
    cr_assert_eq(sched_getaffinity(0, sizeof set, &set), 0);
    for (int i = 0; i < CPU_SETSIZE && count < 2; i++)
        if (CPU_ISSET((size_t)i, &set))
            out[count++] = i;
    return count == 2;
}

// Other work on all processors may hide the slow rank once, so there are two attempts.
Test(validate_machine, a_rank_on_a_busy_processor_is_found_and_named_long)
{
    int processors[2];
    if (!two_processors(processors)) {
        printf("TEST SKIPPED: one processor is as busy as itself\n");
        return;
    }
    char pin[32], who[64], *end = NULL;
    bool found = false;
    snprintf(pin, sizeof pin, "%d,%d", processors[0], processors[1]);
    snprintf(who, sizeof who, "processor %d) takes ", processors[1]);
    const char *const words[] = {"--repeat", "3", "--warmup", "0", "--world", "2", "--pin", pin, NULL};
    for (int attempt = 0; attempt < 2 && !found; attempt++) {
        pid_t burners[BURNER_MAX];
        folder_remove(folder);
        folder_make(folder);
        int count = burners_start(processors[1], burners);
        struct result_file file = validate_part("ranks", words, NULL);
        burners_stop(burners, count);
        found = is_invalid_for(&file, "ranks-compute-alone: rank 1 (host ", who);
        free(end);
        end = end_of(&file);
        result_close(&file);
    }
    cr_expect(found, "%s", end);
    free(end);
}

Test(validate_machine, an_interrupted_run_leaves_a_file_that_says_so)
{
    char out[PATH_MAX + 8], path[PATH_MAX + 32];
    snprintf(out, sizeof out, "%s/out", folder);
    pid_t child = fork();
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGTERM);
        cr_assert(freopen("/dev/null", "w", stderr) && freopen("/dev/null", "w", stdout));
        execl(ZG_BINARY_DIR "/zerogauge", "zerogauge", "validate", "--quick", "--nvme-path", ZG_BINARY_DIR, "--out",
              out, (char *)NULL);
        _exit(99);
    }
    int status = 0;
    snprintf(path, sizeof path, "%s/arithmetic.out", out);
    while (access(path, F_OK) != 0 && waitpid(child, &status, WNOHANG) == 0)
        usleep(1000);
    kill(child, SIGINT);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 130, "%#x", (unsigned)status);
    struct result_file file;
    size_t refusal_count;
    snprintf(path, sizeof path, "%s/result.jsonl", out);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_assert_not_null(file.end, "the file has no end");
    cr_expect_str_eq(json_string_value(json_object_get(file.end, "status")), "interrupted");
    cr_expect_str_eq(json_string_value(json_object_get(file.end, "verdict")), "INCOMPLETE");
    cr_assert_eq(record_verify(&file, stderr, &refusal_count), ERR_NONE);
    cr_expect_eq(refusal_count, 0);
    result_close(&file);
    snprintf(path, sizeof path, "%s/report.html", out);
    cr_expect_eq(access(path, R_OK), 0, "the results so far have a page");
}

// The process id of a child; 0 if it has none.
static pid_t child_of(pid_t parent)
{
    struct process_list list = {0};
    pid_t found = 0;
    cr_assert_eq(process_scan(&list), ERR_NONE);
    for (size_t i = 0; i < list.count; i++)
        if (list.list[i].parent == parent)
            found = list.list[i].pid;
    process_list_free(&list);
    return found;
}

static bool matches(const char *pattern)
{
    glob_t found;
    bool any = glob(pattern, 0, NULL, &found) == 0;
    if (any)
        globfree(&found);
    return any;
}

// The part in progress is stopped, so that it cannot remove its own files and is killed.
static void interrupt_stuck(int signal_number)
{
    char out[PATH_MAX + 8], temporary[PATH_MAX + 8], pattern[PATH_MAX + 64];
    int status = 0;
    snprintf(out, sizeof out, "%s/out-%d", folder, signal_number);
    snprintf(temporary, sizeof temporary, "%s/tmp-%d", folder, signal_number);
    cr_assert_eq(mkdir(temporary, 0777), 0);
    pid_t child = fork();
    if (child == 0) {
        setenv("TMPDIR", temporary, 1);
        cr_assert(freopen("/dev/null", "w", stderr) && freopen("/dev/null", "w", stdout));
        execl(ZG_BINARY_DIR "/zerogauge", "zerogauge", "validate", "--quick", "--nvme-path", ZG_BINARY_DIR, "--out",
              out, (char *)NULL);
        _exit(99);
    }
    snprintf(pattern, sizeof pattern, "%s/zerogauge-check-*/zerogauge-check-*/*", temporary);
    while (!matches(pattern) && waitpid(child, &status, WNOHANG) == 0)
        usleep(1000);
    pid_t part = child_of(child);
    cr_assert_gt(part, 0);
    kill(part, SIGSTOP);
    kill(child, signal_number);
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_expect(WIFEXITED(status) && WEXITSTATUS(status) == 130, "signal %d: %#x", signal_number, (unsigned)status);
    cr_expect(kill(part, 0) == -1, "signal %d: the part lives", signal_number);
    snprintf(pattern, sizeof pattern, "%s/*", temporary);
    cr_expect(!matches(pattern), "signal %d: files are left", signal_number);
}

Test(validate_machine, an_interrupted_run_leaves_no_temporary_file)
{
    interrupt_stuck(SIGINT);
    interrupt_stuck(SIGTERM);
    interrupt_stuck(SIGHUP);
}

// --bands and --save-bands are earlier names of --ranges and --save-ranges.
// Refused before the first part, whose minutes could not make the run VALID.
Test(validate_machine, a_folder_without_room_or_files_is_bad_input)
{
    char command[4 * PATH_MAX], output[4096];
    snprintf(command, sizeof command, ZG_BINARY_DIR "/zerogauge validate --quick --nvme-path /proc --out %s/a 2>&1",
             folder);
    cr_expect_eq(command_run(command, output, sizeof output), 2, "%s", output);
    cr_expect(strstr(output, "--nvme-path /proc: cannot create a file there"), "%s", output);
    snprintf(command, sizeof command,
             "ulimit -f 100000; " ZG_BINARY_DIR "/zerogauge validate --quick --nvme-path %s --out %s/b 2>&1", folder,
             folder);
    cr_expect_eq(command_run(command, output, sizeof output), 2, "%s", output);
    cr_expect(strstr(output, folder) && strstr(output, "files of 384 MiB would exceed a limit"), "%s", output);
}

Test(validate_machine, options_about_accepted_ranges_have_two_spellings)
{
    static const char *const ranges[] = {"--ranges", "--bands"}, *const save[] = {"--save-ranges", "--save-bands"};
    char command[PATH_MAX + 128], said[1024];
    for (int i = 0; i < 2; i++) {
        snprintf(command, sizeof command, "'%s/zerogauge' validate %s none-such 2>&1", ZG_BINARY_DIR, ranges[i]);
        cr_expect_eq(command_run(command, said, sizeof said), 2);
        cr_expect(strstr(said, "--ranges none-such: no such file"), "%s", said);
        snprintf(command, sizeof command, "'%s/zerogauge' validate %s '%s' 2>&1", ZG_BINARY_DIR, save[i], folder);
        cr_expect_eq(command_run(command, said, sizeof said), 2);
        cr_expect(strstr(said, "exists; give a new file"), "%s", said);
    }
}
