// SPDX-License-Identifier: Apache-2.0
// An operation that finds an older or a newer version than it expects fails, with both names.
#include "ref/executor/executor_versions.h"

#include "base/err.h"

#include <criterion/criterion.h>

// Addresses alone: a range of a file has no memory either.
#define AT(offset) ((const void *)((uintptr_t)0x1000 + (offset)))

static struct executor_versions *versions;

static void open_versions(void)
{
    cr_assert_eq(executor_versions_open(2, &versions), ERR_NONE);
}

static void close_versions(void)
{
    executor_versions_close(versions);
}

TestSuite(executor_versions, .init = open_versions, .fini = close_versions);

static struct operation issue(const char *name, int bucket, const struct executor_span *span)
{
    struct operation operation = {.name = name, .bucket = bucket, .spans = span, .span_count = 1};
    cr_assert_eq(executor_versions_expect(versions, &operation), ERR_NONE);
    return operation;
}

static void expect_fault(const struct operation *operation, const char *message)
{
    cr_assert_eq(executor_versions_meet(versions, operation), ERR_INTERNAL);
    cr_expect_str_eq(err_message(), message);
}

static const struct executor_span writes = {AT(0), 100, EXECUTOR_WRITE}, reads = {AT(40), 10, EXECUTOR_READ},
                                  adds = {AT(45), 1, EXECUTOR_READ_WRITE};

Test(executor_versions, the_order_of_issue_meets_its_versions)
{
    const struct operation operations[] = {issue("read", -1, &reads), issue("write", 0, &writes),
                                           issue("add", 0, &adds),    issue("add", 0, &adds),
                                           issue("read", 1, &reads),  issue("write", 1, &writes)};
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++)
        cr_assert_eq(executor_versions_meet(versions, &operations[i]), ERR_NONE, "%zu: %s", i, err_message());
}

Test(executor_versions, an_older_version_is_told)
{
    const struct operation write = issue("read gradient", 3, &writes), add = issue("accumulate", 3, &adds),
                           read = issue("Adam", 3, &reads);
    expect_fault(&read,
                 "rank 2: operation \"Adam\" (2) expects the version of \"read gradient\" of bucket 3 (operation 0) "
                 "at 0x1028, and finds what was there before");
    cr_assert_eq(executor_versions_meet(versions, &write), ERR_NONE);
    expect_fault(&read,
                 "rank 2: operation \"Adam\" (2) expects the version of \"accumulate\" of bucket 3 (operation 1) at "
                 "0x102d, and finds the version of \"read gradient\" of bucket 3 (operation 0)");
    cr_assert_eq(executor_versions_meet(versions, &add), ERR_NONE);
    cr_assert_eq(executor_versions_meet(versions, &read), ERR_NONE);
}

Test(executor_versions, a_newer_version_is_told)
{
    const struct operation first = issue("gather", 1, &writes), read = issue("forward", -1, &reads),
                           second = issue("gather", 2, &writes);
    cr_assert_eq(executor_versions_meet(versions, &first), ERR_NONE);
    cr_assert_eq(executor_versions_meet(versions, &second), ERR_NONE);
    expect_fault(&read,
                 "rank 2: operation \"forward\" (1) expects the version of \"gather\" of bucket 1 (operation 0) at "
                 "0x1028, and finds the version of \"gather\" of bucket 2 (operation 2)");
}
