// SPDX-License-Identifier: Apache-2.0
// The writer: its records are read back, files are never overwritten, and only `end` makes a result.
#include "results/record/record_test.h"

#include "results/record/record.h"
#include "results/record/other_load.h"

#include <criterion/criterion.h>

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

TestSuite(record, .init = sample_folder_make, .fini = sample_folder_remove);

static json_t *sample(const char *text)
{
    json_t *record = json_loads(text, 0, NULL);
    cr_assert_not_null(record);
    return record;
}

Test(record, written_records_are_read_back_with_their_digest)
{
    struct record_writer *writer;
    struct result_file file;
    const char *path = sample_path("a");
    cr_assert_eq(record_create(path, &writer), ERR_NONE, "%s", err_message());
    for (size_t i = 0; sample_file[i + 1]; i++) {
        cr_assert_eq(record_append(writer, sample(sample_file[i])), ERR_NONE, "%s", err_message());
        cr_expect_eq(record_line_count(writer), i + 1);
    }
    cr_assert_eq(record_end(writer, sample(SAMPLE_END)), ERR_NONE, "%s", err_message());
    record_close(writer);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_expect_eq(file.line_count, 9);
    cr_expect_str_eq(json_string_value(json_object_get(file.end, "digest")), file.digest);
    cr_expect_eq(json_integer_value(json_object_get(file.end, "lines")), 8);
    for (size_t i = 0; i < 8; i++) {
        json_t *expected = sample(sample_file[i]);
        cr_expect(json_equal(file.lines[i], expected), "line %zu", i + 1);
        json_decref(expected);
    }
    result_close(&file);
}

Test(record, every_line_can_be_read_as_soon_as_it_is_appended)
{
    struct record_writer *writer;
    struct result_file file;
    const char *path = sample_path("a");
    cr_assert_eq(record_create(path, &writer), ERR_NONE);
    cr_assert_eq(record_append(writer, sample(SAMPLE_RUN)), ERR_NONE);
    cr_assert_eq(record_append(writer, sample(SAMPLE_PART)), ERR_NONE);
    cr_assert_eq(result_open(path, &file), ERR_NONE);
    cr_expect_eq(file.line_count, 2);
    cr_expect_null(file.end);
    result_close(&file);
    record_close(writer);
}

Test(record, an_existing_file_is_never_overwritten)
{
    struct record_writer *writer;
    const char *path = sample_put("a", "mine", 4);
    char text[8] = "";
    cr_expect_eq(record_create(path, &writer), ERR_USAGE);
    cr_expect_null(writer);
    cr_expect(strstr(err_message(), "never overwritten"), "%s", err_message());
    FILE *file = fopen(path, "r");
    cr_assert(file && fgets(text, sizeof text, file));
    fclose(file);
    cr_expect_str_eq(text, "mine");
    cr_expect_eq(record_create(sample_path("no/folder"), &writer), ERR_USAGE);
}

Test(record, records_that_readers_refuse_are_not_written)
{
    struct record_writer *writer;
    cr_assert_eq(record_create(sample_path("a"), &writer), ERR_NONE);
    cr_expect_eq(record_append(writer, sample(SAMPLE_PART)), ERR_INTERNAL);
    cr_expect_eq(record_append(writer, sample("{\"record\":\"run\",\"schema\":1}")), ERR_INTERNAL);
    cr_expect(strstr(err_message(), "program: is missing"), "%s", err_message());
    cr_expect_eq(record_append(writer, sample(SAMPLE_RUN)), ERR_NONE);
    cr_expect_eq(record_append(writer, sample(SAMPLE_RUN)), ERR_INTERNAL);
    cr_expect_eq(record_append(writer, sample(SAMPLE_END)), ERR_INTERNAL);
    cr_expect_eq(record_append(writer, NULL), ERR_MEMORY);
    cr_expect_eq(record_line_count(writer), 1);
    cr_expect_eq(record_end(writer, sample(SAMPLE_END)), ERR_NONE);
    cr_expect_eq(record_append(writer, sample(SAMPLE_PART)), ERR_INTERNAL);
    record_close(writer);
}

// A limit on the size of files simulates a full disk.
Test(record, a_line_that_does_not_fit_on_the_disk_leaves_the_others_intact)
{
    struct record_writer *writer;
    struct result_file file;
    const char *path = sample_path("a");
    signal(SIGXFSZ, SIG_IGN);
    cr_assert_eq(setrlimit(RLIMIT_FSIZE, &(struct rlimit){strlen(SAMPLE_RUN) + 100, RLIM_INFINITY}), 0);
    cr_assert_eq(record_create(path, &writer), ERR_NONE);
    cr_assert_eq(record_append(writer, sample(SAMPLE_RUN)), ERR_NONE);
    cr_expect_eq(record_append(writer, sample(SAMPLE_PART)), ERR_IO);
    cr_expect(strstr(err_message(), path), "%s", err_message());
    cr_expect_neq(record_append(writer, sample(SAMPLE_PART)), ERR_NONE);
    cr_expect_neq(record_end(writer, sample(SAMPLE_END)), ERR_NONE);
    record_close(writer);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    cr_expect_eq(file.line_count, 1);
    cr_expect_null(file.end);
    result_close(&file);
}

TestSuite(record_run, .init = sample_folder_make, .fini = sample_folder_remove);

static const char *const argv[] = {"zerogauge", "validate", "--nvme-path", "\xff<b>\n", NULL};

Test(record_run, readers_accept_the_record_of_this_machine)
{
    const char *const folders[] = {sample_folder, "/proc", NULL};
    struct record_writer *writer;
    struct result_file file;
    const char *path = sample_path("a");
    cr_assert_eq(record_create(path, &writer), ERR_NONE);
    cr_assert_eq(record_append(writer, record_run("validate", "quick", 4, argv, folders)), ERR_NONE, "%s",
                 err_message());
    record_close(writer);
    cr_assert_eq(result_open(path, &file), ERR_NONE, "%s", err_message());
    const json_t *command = json_object_get(file.run, "command");
    const json_t *machine = json_object_get(file.run, "machine");
    cr_expect_eq(json_array_size(command), 4);
    cr_expect_str_eq(json_string_value(json_array_get(command, 3)), "\\xff<b>\n");
    cr_expect_str_eq(json_string_value(json_object_get(file.run, "level")), "quick");
    cr_expect_eq(json_array_size(json_object_get(machine, "disks")), 2);
    result_close(&file);
}

Test(record_run, it_contains_nothing_of_the_environment)
{
    char host[256] = "";
    setenv("ZG_SECRET", "a-secret-of-mine", 1);
    gethostname(host, sizeof host - 1);
    json_t *run = record_run("bench", NULL, 1, argv, NULL);
    char *text = json_dumps(run, 0);
    cr_expect(json_is_null(json_object_get(run, "level")));
    cr_expect_null(strstr(text, "a-secret-of-mine"));
    cr_expect(strlen(host) < 4 || !strstr(text, host), "%s", host);
    free(text);
    json_decref(run);
}

Test(other_load, busy_time_is_all_but_idle_and_waiting)
{
    struct other_load load;
    other_load_parse("cpu  1000 200 300 4000 500 60 70 80 900 100\n", 100, &load);
    cr_expect_float_eq(load.total_s, 62.1, 1e-9);
    cr_expect_float_eq(load.busy_s, 17.1, 1e-9);
    other_load_parse("cpu  1 2 3 4\n", 1, &load);
    cr_expect_float_eq(load.busy_s, 6, 1e-9);
    other_load_parse("cpu0 1 2 3 4\n", 1, &load);
    cr_expect(isnan(load.busy_s));
    other_load_parse("", 1, &load);
    cr_expect(isnan(load.total_s));
}

Test(other_load, the_runs_own_time_does_not_count_as_other)
{
    const struct other_load begin = {.busy_s = 100, .total_s = 1000, .own_s = 5};
    const struct other_load end = {.busy_s = 108, .total_s = 1020, .own_s = 11};
    const struct other_load alone = {.busy_s = 105.99, .total_s = 1020, .own_s = 11};
    const struct other_load unknown = {.busy_s = NAN, .total_s = 1020, .own_s = 11};
    cr_expect_float_eq(other_load_share(&begin, &end), 0.1, 1e-9);
    cr_expect_eq(other_load_share(&begin, &alone), 0);
    cr_expect(isnan(other_load_share(&begin, &begin)));
    cr_expect(isnan(other_load_share(&begin, &unknown)));
}

Test(other_load, children_that_were_waited_for_are_own)
{
    struct other_load begin, end;
    struct timespec used;
    other_load_now(&begin);
    pid_t child = fork();
    cr_assert_geq(child, 0);
    if (child == 0) {
        do
            clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
        while (used.tv_sec == 0 && used.tv_nsec < 100000000);
        _exit(0);
    }
    cr_assert_eq(waitpid(child, NULL, 0), child);
    other_load_now(&end);
    cr_expect_geq(end.own_s - begin.own_s, 0.09);
    cr_expect_geq(end.total_s, begin.total_s);
}
