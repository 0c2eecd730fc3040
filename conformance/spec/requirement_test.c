// SPDX-License-Identifier: Apache-2.0
// Tests of the list of requirements: SPEC.md says everything once, and what is not in its format is an error.
#include "conformance/spec/requirement.h"
#include "conformance/spec/requirement_parse.h"
#include "conformance/spec/verdict.h"

#include "base/err.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>
#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MUTANTS ZG_SOURCE_DIR "/conformance/mutants"
#define MUTANT_BEGINS "Mutant: "

// A text of two requirements, out of which each test makes its own.
#define HEAD "# Title\n\n## First chapter\n\nWords.\n\n"
#define FIRST                                                                                                          \
    "### R-ONE-01 MUST: The first thing\n\nA paragraph\nof two lines.\n\n- Source: a paper,\n  on two lines\n"         \
    "- Check: state, norm of `one-*`\n  `two`\n- Mutants: `a-1`\n  `a-2`\n"
#define ONE(check, mutants) "### R-A-01 MUST: t\n- Source: s\n- Check: " check "\n- Mutants: " mutants "\n"
#define SECOND "### R-TWO-02 SHOULD: The second\n\n- Source: x\n- Check: rule of `*`\n- Mutants: `b`\n"

static struct requirements parsed(const char *text)
{
    struct requirements requirements;
    cr_assert_eq(requirements_parse("T", text, strlen(text), &requirements), ERR_NONE, "%s", err_message());
    return requirements;
}

Test(requirement, a_block_is_read_whole)
{
    const char *text = HEAD FIRST "\n## Second chapter\n\n" SECOND;
    struct requirements all = parsed(text);
    cr_assert_eq(all.count, 2);
    const struct requirement *one = &all.list[0], *two = &all.list[1];
    cr_assert_str_eq(one->id, "R-ONE-01");
    cr_assert_str_eq(one->title, "The first thing");
    cr_assert_str_eq(one->group, "First chapter");
    cr_assert(one->must);
    cr_assert_eq(one->aspects, 1u << ASPECT_STATE | 1u << ASPECT_NORM);
    cr_assert_eq(one->pattern_count, 2);
    cr_assert_str_eq(one->patterns[0], "one-*");
    cr_assert_str_eq(one->patterns[1], "two");
    cr_assert_eq(one->mutant_count, 2);
    cr_assert_str_eq(one->mutants[0], "a-1");
    cr_assert_str_eq(one->mutants[1], "a-2");
    cr_assert_eq(one->text_bytes, strlen(FIRST) - 1);
    cr_assert_eq(memcmp(one->text, FIRST, one->text_bytes), 0);
    cr_assert_str_eq(two->id, "R-TWO-02");
    cr_assert_str_eq(two->group, "Second chapter");
    cr_assert_not(two->must);
    cr_assert_eq(two->aspects, 1u << ASPECT_RULE);
    cr_assert_eq(memcmp(two->text, SECOND, two->text_bytes), 0);
    requirements_close(&all);
}

Test(requirement, the_last_line_needs_no_end)
{
    struct requirements all = parsed("## C\n### R-A-01 MUST: t\n- Source: s\n- Check: same of `x`\n- Mutants: `m`");
    cr_assert_eq(all.count, 1);
    cr_assert_str_eq(all.list[0].mutants[0], "m");
    requirements_close(&all);
}

Test(requirement, what_is_not_in_the_format_is_an_error_with_its_line)
{
    static const struct {
        const char *text, *message;  // how the message begins
    } bad[] = {
        {"", "T:0: there is no requirement"},
        {HEAD, "T:6: there is no requirement"},
        {"# T\n" FIRST, "T:2: '### R-ONE-01 MUST: The first thing': the requirement precedes"},
        {HEAD "### R-ONE-01: The first\n", "T:7: '### R-ONE-01: The first': expected"},
        {HEAD "### R-ONE-1 MUST: The first\n", "T:7: "},
        {HEAD "### R-one-01 MUST: The first\n", "T:7: "},
        {HEAD "### R-01 MUST: The first\n", "T:7: "},
        {HEAD "### R-ABCDEFGHIJKLMN-01 MUST: The first\n", "T:7: "},
        {HEAD "### R-ONE-01 MUST: \n", "T:7: "},
        {HEAD "### R-ONE-01 MAY: The first\n", "T:7: "},
        {HEAD "#### Deeper\n", "T:7: '#### Deeper': expected a heading"},
        {HEAD "##Close\n", "T:7: '##Close': expected a heading"},
        {HEAD SECOND SECOND, "T:12: 'R-TWO-02': the identifier is already used"},
        {HEAD "### R-A-01 MUST: t\n\n- Source: s\n- Check: same of `x`\n",
         "T:7: R-A-01 ends without a line '- Mutants: '"},
        {HEAD "### R-A-01 MUST: t\n\nWords.\n\n" SECOND, "T:7: R-A-01 ends without a line '- Source: '"},
        {HEAD "### R-A-01 MUST: t\n- Check: same of `x`\n", "T:8: '- Check: same of `x`': expected the items"},
        {HEAD "### R-A-01 MUST: t\n- Source: s\n- Source: s\n", "T:9: '- Source: s': expected the items"},
        {HEAD SECOND "- Note: n\n", "T:12: '- Note: n': expected the items"},
        {HEAD SECOND "more\n", "T:12: 'more': expected only list items"},
        {HEAD SECOND "\n  more\n", "T:13: '  more': expected only list items"},
        {HEAD "### R-A-01 MUST: t\n- Source: \n", "T:8: '- Source: ': the item is empty"},
        {HEAD ONE("same", "`m`"), "T:9: 'same': expected: ASPECT, ... of"},
        {HEAD ONE("sane of `x`", "`m`"), "T:9: 'sane of `x`': there is no such aspect"},
        {HEAD ONE("same,rule of `x`", "`m`"), "T:9: 'same,rule of `x`': there is no such aspect"},
        {HEAD ONE("same, same of `x`", "`m`"), "T:9: 'same of `x`': the aspect is listed twice"},
        {HEAD ONE("same of x", "`m`"), "T:9: 'x': expected names in backquotes"},
        {HEAD ONE("same of `x", "`m`"), "T:9: '`x': expected names in backquotes"},
        {HEAD ONE("same of `x`, `y`", "`m`"), "T:9: '`x`, `y`': expected names in backquotes"},
        {HEAD ONE("same of ``", "`m`"), "T:9: '``': the name is empty"},
        {HEAD ONE("same of `x`", "`m*`"), "T:10: 'm*': a name has lower-case"},
        {HEAD ONE("same of `X`", "`m`"), "T:9: 'X': a name has lower-case"},
        {HEAD ONE("same of `x`", "`m` `m`"), "T:10: 'm': the mutant is named twice"},
        {HEAD ONE("same of `x`", "`b`") SECOND, "T:15: 'b': the mutant is named twice"},
        {HEAD ONE("same of `1` `2` `3` `4` `5` `6` `7` `8` `9`", "`m`"), "T:9: '`9`': there are more names"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        struct requirements requirements;
        cr_assert_eq(requirements_parse("T", bad[i].text, strlen(bad[i].text), &requirements), ERR_USAGE, "%s",
                     bad[i].text);
        cr_assert_eq(strncmp(err_message(), bad[i].message, strlen(bad[i].message)), 0, "%s\nexpected %s",
                     err_message(), bad[i].message);
        cr_assert_null(requirements.list);
    }
}

Test(requirement, more_than_the_suite_can_hold_is_an_error)
{
    static char text[REQUIREMENT_MAX * 128];
    size_t used = (size_t)sprintf(text, "## C\n");
    for (int i = 0; i <= REQUIREMENT_MAX; i++)
        used += (size_t)sprintf(text + used,
                                "### R-%c-%02d MUST: t\n- Source: s\n- Check: same of `x`\n"
                                "- Mutants: `m%d`\n",
                                'A' + i / 100, i % 100, i);
    struct requirements requirements;
    cr_assert_eq(requirements_parse("T", text, used, &requirements), ERR_USAGE);
    cr_assert_not_null(strstr(err_message(), "more requirements than the suite can hold"), "%s", err_message());
}

// A second, cruder count over SPEC.md: lines that begin with a word.
static int lines_beginning(const char *start)
{
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s/conformance/SPEC.md", ZG_SOURCE_DIR);
    FILE *file = fopen(path, "r");
    cr_assert_not_null(file);
    char line[1024];
    int count = 0;
    while (fgets(line, sizeof line, file))
        count += strncmp(line, start, strlen(start)) == 0;
    fclose(file);
    return count;
}

Test(requirement, the_specification_is_read_whole)
{
    cr_assert_eq(requirement_check(), ERR_NONE, "%s", err_message());
    int count = 0;
    while (requirement_at(count))
        count++;
    cr_assert_geq(count, 70);
    cr_assert_eq(count, lines_beginning("### "));
    cr_assert_eq(count, lines_beginning("- Mutants: "));
    cr_assert_null(requirement_at(count));
    cr_assert_null(requirement_at(-1));
}

Test(requirement, every_requirement_has_a_check_and_a_mutant)
{
    const struct requirement *requirement;
    int mutants = 0;
    for (int i = 0; (requirement = requirement_at(i)); i++) {
        cr_assert_neq(requirement->aspects, 0, "%s", requirement->id);
        cr_assert_lt(requirement->aspects, 1u << ASPECT_COUNT, "%s", requirement->id);
        cr_assert_geq(requirement->pattern_count, 1, "%s", requirement->id);
        cr_assert_geq(requirement->mutant_count, 1, "%s", requirement->id);
        cr_assert_gt(strlen(requirement->title), 0);
        cr_assert_gt(strlen(requirement->group), 0);
        mutants += requirement->mutant_count;
    }
    cr_assert_geq(mutants, 100);
}

Test(requirement, what_a_case_needs_is_read_and_a_word_for_it_known)
{
    struct requirements all = parsed("## C\n### R-A-01 MUST: t\n- Source: s\n- Check: same of `x`\n- Needs: nvme\n"
                                     "- Mutants: `m`\n### R-A-02 MUST: t\n- Source: s\n- Check: same of `x`\n"
                                     "- Mutants: `n`\n");
    cr_assert_eq(all.list[0].need, NEED_NVME);
    cr_assert_eq(all.list[1].need, NEED_NOTHING);
    requirements_close(&all);
    static const char wrong[] = "## C\n### R-A-01 MUST: t\n- Source: s\n- Check: same of `x`\n- Needs: tape\n"
                                "- Mutants: `m`\n";
    cr_assert_eq(requirements_parse("T", wrong, sizeof wrong - 1, &all), ERR_USAGE);
    cr_assert_str_eq(err_message(), "T:5: 'tape': there is no such need");
}

Test(requirement, what_versions_have_is_read)
{
    struct requirements all = parsed("## C\n### R-A-01 MUST: t\n- Source: s\n- Check: same of `x`\n- Needs: nvme\n"
                                     "- Versions: from 2\n- Mutants: `m`\n### R-A-02 SHOULD: t\n- Source: s\n"
                                     "- Check: same of `x`\n- Versions: MUST until 1\n- Mutants: `n`\n"
                                     "### R-A-03 MUST: t\n- Source: s\n- Check: same of `x`\n- Mutants: `o`\n");
    static const struct {
        bool is_of[2], is_must_of[2];
    } expected[] = {{{false, true}, {true, true}}, {{true, true}, {true, false}}, {{true, true}, {true, true}}};
    for (int i = 0; i < 3; i++)
        for (int version = 1; version <= 2; version++) {
            cr_expect_eq(requirement_is_of(&all.list[i], version), expected[i].is_of[version - 1], "%d", i);
            cr_expect_eq(requirement_is_must_of(&all.list[i], version), expected[i].is_must_of[version - 1], "%d", i);
        }
    requirements_close(&all);
    static const char *const wrong[] = {"from", "from 2x", "MUST until 1", "2"};
    for (int i = 0; i < 4; i++) {
        char text[256];
        int bytes = snprintf(text, sizeof text,
                             "## C\n### R-A-01 MUST: t\n- Source: s\n- Check: same of `x`\n- Versions: %s\n"
                             "- Mutants: `m`\n",
                             wrong[i]);
        cr_assert_eq(requirements_parse("T", text, (size_t)bytes, &all), ERR_USAGE, "%s", wrong[i]);
        cr_assert(strncmp(err_message(), "T:5: ", 5) == 0, "%s", err_message());
    }
}

Test(requirement, every_aspect_has_a_name_of_its_own)
{
    for (int i = 0; i < ASPECT_COUNT; i++) {
        cr_assert_not_null(aspect_name((enum aspect)i), "%d", i);
        for (int k = 0; k < i; k++)
            cr_assert_str_neq(aspect_name((enum aspect)i), aspect_name((enum aspect)k));
    }
}

Test(requirement, identifiers_and_mutants_are_unique)
{
    const struct requirement *a, *b;
    for (int i = 0; (a = requirement_at(i)); i++) {
        cr_assert_eq(requirement_find(a->id), a);
        for (int k = i + 1; (b = requirement_at(k)); k++) {
            cr_assert_str_neq(a->id, b->id);
            for (int m = 0; m < a->mutant_count; m++) {
                for (int n = 0; n < b->mutant_count; n++)
                    cr_assert_str_neq(a->mutants[m], b->mutants[n], "%s and %s", a->id, b->id);
            }
        }
    }
    cr_assert_null(requirement_find("R-NONE-99"));
    cr_assert_null(requirement_find(""));
}

Test(requirement, chapters_are_not_torn_apart)
{
    const struct requirement *a, *b;
    for (int i = 1; (a = requirement_at(i)); i++) {
        if (strcmp(requirement_at(i - 1)->group, a->group) == 0)
            continue;
        for (int k = 0; k < i && (b = requirement_at(k)); k++)
            cr_assert_str_neq(a->group, b->group, "%s and %s", a->id, b->id);
    }
}

Test(requirement, a_case_serves_the_requirements_whose_patterns_match_its_name)
{
    const struct requirement *reshard = requirement_find("R-CKPT-02");
    cr_assert_not_null(reshard);
    cr_assert(requirement_covers(reshard, "ckpt-reshard-2-3.save"));
    cr_assert(requirement_covers(reshard, "ckpt-reshard-2-3.resume"));
    cr_assert(requirement_covers(reshard, "ckpt-reshard-2-3.resume~2"));
    cr_assert_not(requirement_covers(reshard, "ckpt-same.save"));
    cr_assert_not(requirement_covers(reshard, "ckpt-reshar"));
    cr_assert(requirement_covers(requirement_find("R-CKPT-03"), "ckpt-same.save"));
    cr_assert(requirement_covers(requirement_find("R-CKPT-03"), "ckpt-same.resume~2"));
    cr_assert_not(requirement_covers(requirement_find("R-CKPT-03"), "ckpt-same-2.save"));
    const struct requirement *basic = requirement_find("R-OPT-01");
    cr_assert(requirement_covers(basic, "adam-basic"));
    cr_assert(requirement_covers(basic, "adam-basic~2"));
    cr_assert_not(requirement_covers(basic, "adam-basic-2"));
    cr_assert_not(requirement_covers(basic, "adam"));
    cr_assert_not(requirement_covers(basic, ""));
}

Test(requirement, a_case_lists_its_requirements_in_the_order_of_the_specification)
{
    struct check_case *c = calloc(1, sizeof *c);
    snprintf(c->name, sizeof c->name, "acc-trap~2");
    c->requirement_count = 7;
    requirement_list(c);
    static const char *const expected[] = {"R-ANS-01", "R-PART-08", "R-ACC-04", "R-DET-01", "R-DET-03"};
    cr_assert_eq(c->requirement_count, 5);
    for (int i = 0; i < 5; i++)
        cr_assert_str_eq(c->requirements[i], expected[i]);
    free(c);
}

Test(requirement, no_case_serves_more_requirements_than_it_can_list)
{
    const struct requirement *a, *b;
    for (int i = 0; (a = requirement_at(i)); i++) {
        for (int p = 0; p < a->pattern_count; p++) {
            int serves = 0;
            for (int k = 0; (b = requirement_at(k)); k++)
                serves += requirement_covers(b, a->patterns[p]);
            cr_assert_leq(serves, CASE_REQUIREMENT_MAX, "%s", a->patterns[p]);
        }
    }
}

static void *first_use(void *out)
{
    *(const struct requirement **)out = requirement_at(1);
    return NULL;
}

Test(requirement, concurrent_first_uses_see_one_list)
{
    enum { THREADS = 5 };
    pthread_t threads[THREADS];
    const struct requirement *seen[THREADS];
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(pthread_create(&threads[i], NULL, first_use, &seen[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        cr_assert_eq(seen[i], requirement_at(1));
    cr_assert_not_null(seen[0]);
}

// The value of a line "KEY: value" of a mutant's text before its diff; "" if there is none.
static void mutant_field(const char *text, const char *key, char value[128])
{
    size_t length = strlen(key);
    value[0] = '\0';
    for (; text && !value[0] && strncmp(text, "diff ", 5) != 0; text = strchr(text, '\n'), text += text != NULL) {
        if (strncmp(text, key, length) == 0 && text[length] == ':')
            snprintf(value, 128, "%.*s", (int)strcspn(text + length + 2, "\n"), text + length + 2);
    }
}

static bool is_hint(const char *name)
{
    for (int i = HINT_NONE; i < HINT_COUNT; i++) {
        if (strcmp(hint_name((enum hint)i), name) == 0)
            return true;
    }
    return false;
}

// Where a file's text has a mutant; null: nowhere.
static const char *find_mutant(const char *text, const char *name)
{
    char line[CASE_NAME_BYTES + 16];
    snprintf(line, sizeof line, MUTANT_BEGINS "%s\n", name);
    const char *found = strstr(text, line);
    return found && (found == text || found[-1] == '\n') ? found + strlen(MUTANT_BEGINS) : NULL;
}

// How many of a text's lines begin so.
static int count_lines(const char *text, const char *begins)
{
    int count = strncmp(text, begins, strlen(begins)) == 0;
    for (; (text = strchr(text, '\n')); text++)
        count += strncmp(text + 1, begins, strlen(begins)) == 0;
    return count;
}

// The mutant's own lines say the same as the specification, and name a hint that the judge can give.
static void check_mutant(const char *text, const struct requirement *requirement, const char *mutant)
{
    char id[128], source[128], hint[128];
    mutant_field(text, "Requirement", id);
    mutant_field(text, "Source", source);
    mutant_field(text, "Hint", hint);
    cr_expect_str_eq(requirement->id, id, "%s of %s says '%s'", mutant, requirement->id, id);
    cr_expect(source[0], "%s says no source", mutant);
    cr_expect(is_hint(hint), "%s: there is no hint '%s'", mutant, hint);
}

// The file of a requirement's chapter has its mutants, and no others that name it. R-ACC-01 is of R-ACC.mutants.
static void check_file(const struct requirement *requirement)
{
    char path[PATH_MAX], line[64];
    size_t bytes;
    snprintf(path, sizeof path, MUTANTS "/%.*s.mutants", (int)(strrchr(requirement->id, '-') - requirement->id),
             requirement->id);
    char *text = folder_read(path, &bytes);
    for (int m = 0; m < requirement->mutant_count; m++) {
        const char *mutant = find_mutant(text, requirement->mutants[m]);
        cr_expect(mutant, "%s names %s, which is not in %s", requirement->id, requirement->mutants[m], path);
        if (mutant)
            check_mutant(mutant, requirement, requirement->mutants[m]);
    }
    snprintf(line, sizeof line, "Requirement: %s\n", requirement->id);
    cr_expect_eq(count_lines(text, line), requirement->mutant_count, "%s has other mutants than %s", path,
                 requirement->id);
    free(text);
}

// The mutants of a file of conformance/mutants/; 0 for other files.
static int mutants_in(const char *name)
{
    char path[PATH_MAX];
    size_t bytes;
    if (!strstr(name, ".mutants"))
        return 0;
    snprintf(path, sizeof path, MUTANTS "/%s", name);
    char *text = folder_read(path, &bytes);
    int count = count_lines(text, MUTANT_BEGINS);
    free(text);
    return count;
}

Test(requirement, every_mutant_is_in_the_file_of_its_chapter_and_of_a_requirement)
{
    DIR *entries = opendir(MUTANTS);
    if (!entries) {
        printf("TEST SKIPPED: conformance/mutants/ is not there\n");
        return;
    }
    const struct requirement *requirement;
    int others = 0;
    for (struct dirent *entry; (entry = readdir(entries));)
        others += mutants_in(entry->d_name);
    closedir(entries);
    for (int i = 0; (requirement = requirement_at(i)); i++) {
        check_file(requirement);
        others -= requirement->mutant_count;
    }
    cr_expect_eq(others, 0, "%d mutants of conformance/mutants/ are of no requirement", others);
}

// ci/mutants says so, too, but after minutes: whoever changes the lines that a mutant changes learns it here.
Test(requirement, every_mutant_applies)
{
    if (access(MUTANTS, R_OK) != 0 || system("command -v python3 >/dev/null") != 0) {
        printf("TEST SKIPPED: conformance/mutants/ or python3 is not there\n");
        return;
    }
    cr_expect_eq(system("'" ZG_SOURCE_DIR "/ci/mutant' --check >&2"), 0);
}
