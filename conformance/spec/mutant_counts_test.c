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

// The requirements of this version's own chapters; what others lack is counted as they are touched.
Test(mutant_counts, mutants_of_requirements_about_groups_partners_and_ends_are_counted)
{
    static const char *const ids[] = {"R-OPT-12", "R-ACC-05",  "R-MP-12",   "R-MP-13",   "R-MP-14",
                                      "R-OFF-06", "R-CKPT-09", "R-PAIR-05", "R-MESH-08", "R-PART-02"};
    int count = read_counts();
    for (size_t k = 0; k < sizeof ids / sizeof *ids; k++) {
        const struct requirement *requirement = requirement_find(ids[k]);
        cr_assert_not_null(requirement, "%s", ids[k]);
        for (int i = 0; i < requirement->mutant_count; i++)
            cr_expect(is_counted(requirement->mutants[i], count), "ci/mutants --count %s", requirement->mutants[i]);
    }
}
