// SPDX-License-Identifier: Apache-2.0
// The writer: its records are read back, files are never overwritten, and only `end` makes a result.
#include "results/record/record.h"

#include "results/record/record_test.h"

#include <sys/resource.h>
#include <signal.h>

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
