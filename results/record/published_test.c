// SPDX-License-Identifier: Apache-2.0
// The files in results/published verify, and the pages made from them agree with this version of the program.
#include "base/file.h"
#include "results/record/record_test.h"
#include "results/record/record_verify.h"
#include "results/page/result_report.h"

#include <dirent.h>
#include <limits.h>

#define FOLDER ZG_SOURCE_DIR "/results/published"

static int is_result(const struct dirent *entry)
{
    const char *end = strrchr(entry->d_name, '.');
    return end && strcmp(end, ".jsonl") == 0;
}

// Reads a whole file; the caller frees the text.
static char *text_of(const char *path)
{
    char *text;
    size_t bytes;
    cr_assert_eq(file_read_text(path, 1 << 20, &text, &bytes), ERR_NONE, "%s", err_message());
    return text;
}

static void open_result(const char *path, struct result_file *file)
{
    size_t refusal_count;
    cr_assert_eq(result_open(path, file), ERR_NONE, "%s", err_message());
    cr_assert_eq(record_verify(file, stderr, &refusal_count), ERR_NONE);
    cr_expect_eq(refusal_count, 0, "%s", path);
}

// Of the files that `names` lists, up to "-->".
static char *summary_of(const char *names)
{
    enum { MOST = 8 };
    char *text, name[256], path[PATH_MAX];
    size_t bytes, count = 0;
    struct result_file files[MOST];
    struct result_view views[MOST];
    FILE *out = open_memstream(&text, &bytes);
    for (int length; sscanf(names, " %255s%n", name, &length) == 1 && strcmp(name, "-->") != 0; names += length) {
        cr_assert_lt(count, MOST);
        snprintf(path, sizeof path, "%s/%s", ZG_SOURCE_DIR, name);
        open_result(path, &files[count]);
        cr_assert_eq(result_view_open(&files[count], &views[count]), ERR_NONE);
        count++;
    }
    cr_assert_gt(count, 0);
    cr_assert_eq(result_summaries(views, count, out), ERR_NONE);
    fclose(out);
    while (count-- > 0) {
        result_view_close(&views[count]);
        result_close(&files[count]);
    }
    return text;
}

static void expect_full_run(struct result_file *file, char *path)
{
    cr_expect_str_eq(json_string_value(json_object_get(file->run, "program")), "validate", "%s", path);
    cr_expect_str_eq(json_string_value(json_object_get(file->run, "level")), "full", "%s", path);
    strcpy(strrchr(path, '.'), ".md");
    char *said = text_of(path);
    cr_expect(strstr(said, "zerogauge validate"), "%s", path);
    free(said);
}

static void verify_all(const char *folder, void (*expect)(struct result_file *file, char *path))
{
    struct dirent **names;
    int count = scandir(folder, &names, is_result, alphasort);
    cr_assert_gt(count, 0, "%s", folder);
    for (int i = 0; i < count; free(names[i++])) {
        char path[PATH_MAX];
        struct result_file file;
        snprintf(path, sizeof path, "%s/%s", folder, names[i]->d_name);
        open_result(path, &file);
        cr_expect(json_is_false(json_object_get(json_object_get(file.run, "suite"), "dirty")), "%s", path);
        if (expect)
            expect(&file, path);
        result_close(&file);
    }
    free(names);
}

Test(published, every_file_verifies_and_is_a_full_run_of_a_clean_commit_with_its_commands_in_a_page)
{
    verify_all(FOLDER, expect_full_run);
}

Test(published, every_file_of_a_gpu_verifies_and_is_of_a_clean_commit)
{
    verify_all(FOLDER "/gpu", NULL);
}

Test(published, the_leaderboard_agrees_with_the_folder)
{
    char *expected, *said = text_of(FOLDER "/LEADERBOARD.md");
    size_t bytes;
    FILE *out = open_memstream(&expected, &bytes);
    cr_assert_eq(leaderboard(FOLDER, out), ERR_NONE, "%s", err_message());
    fclose(out);
    cr_expect_str_eq(said, expected);
    free(said);
    free(expected);
}

// <!-- speed: results/published/FILE... --> ... <!-- /speed -->
Test(published, the_table_of_performance_md_is_a_summary_of_published_files)
{
    char *page = text_of(ZG_SOURCE_DIR "/docs/performance.md"), *summary;
    char *begin = strstr(page, "<!-- speed:"), *end = begin ? strstr(begin, "<!-- /speed -->") : NULL;
    cr_assert(end, "docs/performance.md has a place for the table");
    *end = '\0';
    summary = summary_of(begin + strlen("<!-- speed:"));
    cr_expect(strstr(begin, summary), "%s\nexpected\n%s", begin, summary);
    free(summary);
    free(page);
}
