// SPDX-License-Identifier: Apache-2.0
// Tests of `bench ranks`: its turns within a time, and its records.
#include "bench/ranks/ranks.h"
#include "bench/table/benchmarks.h"

#include "base/pretended_test.h"
#include "bench/harness/printed_test.h"

#include <criterion/criterion.h>

Test(ranks, few_ranks_keep_all_their_samples)
{
    struct ranks_turns all = ranks_turns_within(0, 256, 2, 25), two = ranks_turns_within(4, 2, 2, 9);
    cr_expect(all.warmup == 2 && all.repeat == 25 && all.sample_ns == 20e6, "no limit");
    cr_expect(two.warmup == 2 && two.repeat == 9 && two.sample_ns == 20e6);
}

Test(ranks, many_ranks_make_shorter_samples_then_fewer)
{
    struct ranks_turns turns = ranks_turns_within(2, 20, 2, 9);
    cr_expect(turns.warmup == 2 && turns.repeat == 9);
    cr_expect_float_eq(turns.sample_ns, 2e9 / 21 / 11, 1);
    turns = ranks_turns_within(4, 256, 2, 9);
    cr_expect(turns.warmup == 1 && turns.repeat == 6 && turns.sample_ns == 2e6, "%zu", turns.repeat);
    cr_expect_leq((double)(turns.warmup + turns.repeat) * 257 * turns.sample_ns, 4e9);
    turns = ranks_turns_within(0.01, 1024, 0, 9);
    cr_expect(turns.warmup == 0 && turns.repeat == BENCH_REPEAT_LEAST, "the fewest");
    cr_expect_eq(ranks_turns_within(0.01, 1024, 2, 2).repeat, 2, "no more than were asked for");
}

// 4 processors, of which a control group has the time of one and a half, and memory for less than the lane wants.
Test(ranks, there_are_as_many_as_the_processor_time_permits_with_what_memory_they_have)
{
    const char *argv[] = {"ranks", "--quick", "--json", "--repeat=1", "--budget=1"};
    char root[PATH_MAX];
    pretended_machine(folder_make(root), "l3:1(size=1MiB) core:4 pu:1", 120);
    pretended_file(root, "proc/self/cgroup", "0::/\n");
    pretended_file(root, "sys/fs/cgroup/cpu.max", "150000 100000\n");
    struct printed output = printed_begin();
    cr_expect_eq(bench_ranks.run(5, argv), 0);
    char *text = printed_end(output);
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
    // Three quarters of 120 MiB are 2359296 parameters of 20 bytes for each of two ranks, or of one if the process may
    // run on one processor only.
    cr_expect(strstr(text, "\"world\":2") || strstr(text, "\"world\":1"), "%s", text);
    cr_expect_null(strstr(text, "\"world\":3"), "%s", text);
    cr_expect(strstr(text, "\"params\":2359296") || strstr(text, "\"params\":4194304"), "%s", text);
    free(text);
}
