// SPDX-License-Identifier: Apache-2.0
// The files in results/published verify, and the pages made from them agree with this version of the program.
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

// Lists the names of the results, which the caller frees one by one. Returns 0 if there are none; the test is skipped.
static int results(struct dirent ***names)
{
    int count = scandir(FOLDER, names, is_result, alphasort);
    cr_assert_geq(count, 0, FOLDER);
    if (count == 0)
        printf("TEST SKIPPED: nothing is published yet; ci/publish does it\n");
    return count;
}

// Reads a whole file; the caller frees the text. Null: no such file.
static char *text_of(const char *path)
{
    char *text;
    size_t bytes;
    int c;
    FILE *file = fopen(path, "r"), *out = open_memstream(&text, &bytes);
    for (; file && (c = fgetc(file)) != EOF; fputc(c, out))
        continue;
    fclose(out);
    if (file)
        fclose(file);
    else
        free(text);
    return file ? text : NULL;
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
    cr_assert_eq(count == 1 ? result_summary(views, out) : result_summaries(views, count, out), ERR_NONE);
    fclose(out);
    while (count-- > 0) {
        result_view_close(&views[count]);
        result_close(&files[count]);
    }
    return text;
}

Test(published, every_file_verifies_and_is_a_full_run_of_a_clean_commit_with_its_commands_in_a_page)
{
    struct dirent **names;
    int count = results(&names);
    for (int i = 0; i < count; i++) {
        char path[PATH_MAX];
        struct result_file file;
        snprintf(path, sizeof path, "%s/%s", FOLDER, names[i]->d_name);
        open_result(path, &file);
        const json_t *suite = json_object_get(file.run, "suite");
        cr_expect_str_eq(json_string_value(json_object_get(file.run, "program")), "validate", "%s", path);
        cr_expect_str_eq(json_string_value(json_object_get(file.run, "level")), "full", "%s", path);
        cr_expect(json_is_false(json_object_get(suite, "dirty")), "%s", path);
        result_close(&file);
        strcpy(strrchr(path, '.'), ".md");
        char *said = text_of(path);
        cr_assert_not_null(said, "%s says how it was made", path);
        cr_expect(strstr(said, "zerogauge validate"), "%s", path);
        free(said);
        free(names[i]);
    }
    free(names);
}

Test(published, the_leaderboard_agrees_with_the_folder)
{
    struct dirent **names;
    int count = results(&names);
    for (int i = 0; i < count; i++)
        free(names[i]);
    free(names);
    if (count == 0)
        return;
    char *expected, *said = text_of(FOLDER "/LEADERBOARD.md");
    size_t bytes;
    FILE *out = open_memstream(&expected, &bytes);
    cr_assert_eq(leaderboard(FOLDER, out), ERR_NONE, "%s", err_message());
    fclose(out);
    cr_assert_not_null(said, "zerogauge report --leaderboard results/published writes it");
    cr_expect_str_eq(said, expected);
    free(said);
    free(expected);
}

// <!-- speed: results/published/FILE... --> ... <!-- /speed -->
Test(published, the_table_of_performance_md_is_a_summary_of_published_files)
{
    char *page = text_of(ZG_SOURCE_DIR "/docs/performance.md"), *summary;
    cr_assert_not_null(page);
    char *begin = strstr(page, "<!-- speed:"), *end = begin ? strstr(begin, "<!-- /speed -->") : NULL;
    cr_assert(end, "docs/performance.md has a place for the table");
    *end = '\0';
    summary = summary_of(begin + strlen("<!-- speed:"));
    cr_expect(strstr(begin, summary), "%s\nexpected\n%s", begin, summary);
    free(summary);
    free(page);
}
