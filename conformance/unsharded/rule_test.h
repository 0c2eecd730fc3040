// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "conformance/unsharded/rule.h"

#include <criterion/criterion.h>
#include <stdlib.h>

// One of a case's rules.
static inline struct rule rule_at(const struct check_case *c, int index)
{
    struct rule *list;
    int count;
    cr_assert_eq(rule_list(c, &list, &count), 0);
    cr_assert(index >= 0 && index < count);
    struct rule rule = list[index];
    free(list);
    return rule;
}
