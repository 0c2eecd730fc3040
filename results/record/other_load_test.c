// SPDX-License-Identifier: Apache-2.0
#include "results/record/other_load.h"

#include <criterion/criterion.h>

#include <math.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

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
