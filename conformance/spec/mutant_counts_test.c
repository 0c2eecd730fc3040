// SPDX-License-Identifier: Apache-2.0
// conformance/mutants/counts.txt, which ci/mutants --count writes: in how many cases of the full level each mutant
// differs. One that fewer than three show is found by luck.
#include "conformance/spec/requirement.h"
#include "base/folder_test.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CASES_LEAST = 3, COUNT_MAX = 1024 };

static struct {
    char mutant[CASE_NAME_BYTES], id[CASE_REQUIREMENT_BYTES];
    int cases;
} counts[COUNT_MAX];

static int read_counts(void)
{
    size_t bytes;
    int count = 0;
    char *text = folder_read(ZG_SOURCE_DIR "/conformance/mutants/counts.txt", &bytes), *rest = text, *line;
    text[bytes] = '\0';
    while ((line = strsep(&rest, "\n")) && *line) {
        cr_assert_lt(count, COUNT_MAX);
        cr_assert_eq(sscanf(line, "%95s %15s %d", counts[count].mutant, counts[count].id, &counts[count].cases), 3,
                     "%s", line);
        count++;
    }
    free(text);
    return count;
}

static bool names(const struct requirement *requirement, const char *mutant)
{
    for (int i = 0; i < requirement->mutant_count; i++)
        if (strcmp(requirement->mutants[i], mutant) == 0)
            return true;
    return false;
}

static bool is_counted(const char *mutant, int count)
{
    for (int i = 0; i < count; i++)
        if (strcmp(counts[i].mutant, mutant) == 0)
            return true;
    return false;
}

Test(mutant_counts, three_cases_show_each_mutant_that_is_counted)
{
    int count = read_counts();
    cr_assert_gt(count, 0);
    for (int i = 0; i < count; i++) {
        const struct requirement *requirement = requirement_find(counts[i].id);
        cr_assert_not_null(requirement, "%s", counts[i].id);
        cr_expect(names(requirement, counts[i].mutant), "%s does not name %s", counts[i].id, counts[i].mutant);
        cr_expect_geq(counts[i].cases, CASES_LEAST, "%s: %d cases show %s", counts[i].id, counts[i].cases,
                      counts[i].mutant);
    }
}

Test(mutant_counts, all_mutants_of_requirements_are_counted)
{
    const struct requirement *requirement;
    int count = read_counts();
    for (int k = 0; (requirement = requirement_at(k)); k++)
        for (int i = 0; i < requirement->mutant_count; i++)
            cr_expect(is_counted(requirement->mutants[i], count), "ci/mutants --count %s", requirement->mutants[i]);
}
