// SPDX-License-Identifier: Apache-2.0
// The comparison of nodes: which are named for bits that others do not have.
#include "validate/health/preflight.h"

#include <criterion/criterion.h>
#include <string.h>

enum { NODE_MAX = 8 };

// Each letter is a node's digest of the operation "rows"; '-': it did not run it, ' ': its machine has no such
// operation. Returns, in the same places, 'F' for a node that fails.
static const char *compared(const char *digests)
{
    static char verdicts[NODE_MAX + 1];
    json_t *nodes[NODE_MAX];
    int count = (int)strlen(digests);
    for (int i = 0; i < count; i++) {
        const char digest[] = {digests[i] == '-' ? '\0' : digests[i], '\0'};
        nodes[i] = json_pack("{s:s, s:[], s:{s:s}}", "verdict", "ok", "checks", "digests", "copy", "same");
        if (digests[i] != ' ')
            json_object_set_new(json_object_get(nodes[i], "digests"), "rows", json_string(digest));
    }
    preflight_compare(nodes, count);
    for (int i = 0; i < count; i++) {
        const char *verdict = json_string_value(json_object_get(nodes[i], "verdict"));
        verdicts[i] = strcmp(verdict, "ok") == 0 ? '.' : 'F';
        cr_expect_eq(json_array_size(json_object_get(nodes[i], "checks")), verdicts[i] == 'F');
        json_decref(nodes[i]);
    }
    verdicts[count] = '\0';
    return verdicts;
}

Test(preflight, nodes_are_compared_with_those_that_ran_the_operation)
{
    static const char *const rows[][2] = {
        {"a", "."},       {"aaaa", "...."}, {"aaba", "..F."}, {"ab", "FF"},     {"aabb", "FFFF"}, {"a-", ".."},
        {"a---", "...."}, {"a   ", "...."}, {"ab  ", "FF.."}, {"aab-", "..F."}, {"----", "...."}, {"abc", "FFF"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (size_t k = 0; rows[i][0][k]; k++)
            cr_expect_eq(compared(rows[i][0])[k], rows[i][1][k], "%s: node %zu of %s", rows[i][0], k,
                         compared(rows[i][0]));
}
