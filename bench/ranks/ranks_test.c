// SPDX-License-Identifier: Apache-2.0
// `bench ranks`: its turns within a time, and its records. `bench links`: who meets whom, who is to blame, and what
// pairs share, in tables of pretended times.
#include "bench/ranks/ranks.h"

#include "bench/table/benchmarks.h"
#include "base/pretended_test.h"
#include "bench/harness/printed_test.h"
#include "bench/ranks/links.h"
#include "base/err.h"
#include "ref/arithmetic/random.h"
#include "results/limits/link_cut.h"

#include <criterion/criterion.h>

#include <math.h>
#include <string.h>

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
    static const char *const first[] = {"ranks", NULL};
    char root[PATH_MAX], *text;
    pretended_machine(folder_make(root), "l3:1(size=1MiB) core:4 pu:1", 120);
    pretended_file(root, "proc/self/cgroup", "0::/\n");
    pretended_file(root, "sys/fs/cgroup/cpu.max", "150000 100000\n");
    cr_expect_eq(printed_run(bench_ranks.run, first, "--quick --json --repeat=1 --budget=1", &text), 0);
    unsetenv("ZG_MACHINE_ROOT");
    folder_remove(root);
    // Three quarters of 120 MiB are 2359296 parameters of 20 bytes for each of two ranks, or of one if the process may
    // run on one processor only.
    cr_expect(strstr(text, "\"world\":2") || strstr(text, "\"world\":1"), "%s", text);
    cr_expect_null(strstr(text, "\"world\":3"), "%s", text);
    cr_expect(strstr(text, "\"params\":2359296") || strstr(text, "\"params\":4194304"), "%s", text);
    free(text);
}

static struct link_map map;

// Every pair that meets takes 10, and up to 2 more.
static void measure(int count)
{
    cr_assert_eq(link_map_open((size_t)count, &map), ERR_NONE, "%s", err_message());
    for (int round = 0; round < links_rounds(count); round++)
        for (int i = 0; i < count; i++) {
            int partner = links_partner_position(count, round, i);
            if (partner < 0)
                continue;
            cr_assert_neq(partner, i);
            cr_assert_eq(links_partner_position(count, round, partner), i, "%d of %d in round %d", i, count, round);
            cr_expect(isnan(link_map_time(&map, (size_t)i, (size_t)partner)) || i > partner, "%d meets %d twice", i,
                      partner);
            link_map_add(&map, (size_t)i, (size_t)partner,
                         10 + (double)(random_at(7, (size_t)(i * partner)) % 21) / 10);
        }
}

static void slow_host(size_t host, double times)
{
    for (size_t other = 0; other < map.count; other++)
        if (!isnan(link_map_time(&map, host, other)))
            link_map_add(&map, host, other, times * link_map_time(&map, host, other));
}

static size_t links_of(size_t host)
{
    size_t links = 0;
    for (size_t other = 0; other < map.count; other++)
        links += !isnan(link_map_time(&map, host, other));
    return links;
}

static size_t texts_of(char (*texts)[LINK_TEXT_BYTES])
{
    static struct link_host hosts[1000];
    static char names[1000][16];
    for (size_t i = 0; i < map.count; i++) {
        snprintf(names[i], sizeof names[i], "node%zu", i);
        hosts[i] = (struct link_host){names[i], (int)(8 * i)};
    }
    cr_assert_eq(link_map_group(&map), ERR_NONE);
    link_map_judge(&map);
    return link_map_texts(&map, hosts, "ping", texts, 3);
}

Test(link_pairs, up_to_256_members_meet_each_other_once)
{
    for (int count = 2; count <= 256; count += count < 65 ? 1 : 61) {
        measure(count);
        for (size_t i = 0; i < (size_t)count; i++)
            cr_expect_eq(links_of(i), count - 1, "%zu of %d", i, count);
        link_map_close(&map);
    }
    cr_expect_eq(links_rounds(64), 63);
    cr_expect_eq(links_rounds(63), 63);
    cr_expect_eq(links_rounds(256), 255);
}

// The first level is between the halves of all, the last between neighbours.
Test(link_pairs, more_members_are_bisected_level_by_level)
{
    for (int count = 257; count <= 1000; count += 55) {
        measure(count);
        int rounds = links_rounds(count);
        cr_expect_eq(rounds, (int)ceil(log2(count)));
        for (size_t i = 0; i < (size_t)count; i++)
            cr_expect_geq(links_of(i), (size_t)rounds - 2, "%zu of %d", i, count);
        link_map_close(&map);
    }
    cr_expect_eq(links_rounds(512), 9);
    cr_expect_eq(links_partner_position(512, 0, 5), 261);
    cr_expect_eq(links_partner_position(512, 1, 261), 389);
    cr_expect_eq(links_partner_position(512, 8, 70), 71);
    cr_expect_eq(links_partner_position(257, 0, 128), -1, "the one in the middle rests");
    cr_expect_eq(links_partner_position(257, 1, 128), 193);
}

Test(link_pairs, a_slow_host_is_blamed_for_all_of_its_links_and_its_partners_are_not)
{
    static const int counts[] = {3, 4, 5, 64, 200, 257, 300};
    char texts[3][LINK_TEXT_BYTES], expected[64];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        measure(counts[i]);
        slow_host(1, 3);
        cr_assert_eq(texts_of(texts), 1, "%d hosts: %s", counts[i], texts[1]);
        cr_expect(strstr(texts[0], "OUTLIER  the link of host node1 (rank 8) takes "), "%s", texts[0]);
        snprintf(expected, sizeof expected, ": %zu of its %zu links are slow", links_of(1), links_of(1));
        cr_expect(strstr(texts[0], expected), "%s", texts[0]);
        link_map_close(&map);
    }
}

Test(link_pairs, a_slow_link_between_fast_hosts_blames_neither)
{
    static const int counts[] = {3, 64, 257};
    char texts[3][LINK_TEXT_BYTES], expected[64];
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        measure(counts[i]);
        size_t partner = (size_t)links_partner_position(counts[i], 0, 1);
        link_map_add(&map, 1, partner, 50);
        cr_assert_eq(texts_of(texts), 1, "%d hosts: %s", counts[i], texts[1]);
        snprintf(expected, sizeof expected, "SLOW     the link between hosts node%d ", partner > 1 ? 1 : (int)partner);
        cr_expect(strstr(texts[0], expected), "%s", texts[0]);
        link_map_close(&map);
    }
}

Test(link_pairs, two_slow_hosts_and_a_slow_link_of_a_third_are_told_apart)
{
    char texts[3][LINK_TEXT_BYTES];
    measure(64);
    slow_host(5, 2);
    slow_host(40, 20);
    link_map_add(&map, 7, 8, 100);
    cr_assert_eq(texts_of(texts), 3);
    cr_expect(strstr(texts[0], "host node5 (rank 40)"), "%s", texts[0]);
    cr_expect(strstr(texts[1], "host node40 (rank 320)"), "%s", texts[1]);
    cr_expect(strstr(texts[2], "hosts node7 (rank 56) and node8 (rank 64)"), "%s", texts[2]);
    link_map_close(&map);
}

Test(link_pairs, of_two_hosts_and_of_equal_ones_nobody_is_blamed)
{
    char texts[3][LINK_TEXT_BYTES];
    measure(2);
    slow_host(1, 1000);
    cr_expect_eq(texts_of(texts), 0);
    link_map_close(&map);
    measure(64);
    cr_expect_eq(texts_of(texts), 0);
    link_map_close(&map);
}

// A host that is slow with most others, but fast with some, is still the one to blame.
Test(link_pairs, a_host_with_most_links_slow_is_blamed)
{
    char texts[3][LINK_TEXT_BYTES];
    measure(5);
    link_map_add(&map, 2, 0, 60);
    link_map_add(&map, 2, 1, 60);
    link_map_add(&map, 2, 4, 60);
    cr_assert_eq(texts_of(texts), 1);
    cr_expect(strstr(texts[0], "host node2 (rank 16)"), "%s", texts[0]);
    cr_expect(strstr(texts[0], "3 of its 4 links are slow"), "%s", texts[0]);
    link_map_close(&map);
}

// Links between groups take `times` as long.
static void part(size_t group, double times)
{
    for (size_t a = 0; a < map.count; a++)
        for (size_t b = 0; b < a; b++)
            if (a / group != b / group)
                link_map_add(&map, a, b, times * link_map_time(&map, a, b));
}

Test(link_pairs, groups_behind_switches_are_found_and_a_slow_host_and_path_within_them)
{
    char texts[3][LINK_TEXT_BYTES];
    measure(64);
    part(32, 3);
    cr_assert_eq(texts_of(texts), 1, "%s", texts[1]);
    cr_expect(strstr(texts[0], "GROUPS   2 groups of hosts in the lane ping, between which a link takes 3."), "%s",
              texts[0]);
    cr_expect(strstr(texts[0], "long: 32 from node0 on, 32 from node32 on"), "%s", texts[0]);
    link_map_close(&map);
    measure(48);
    part(16, 2);
    link_map_add(&map, 3, 40, 44);  // twice as long as others between groups
    cr_assert_eq(texts_of(texts), 2, "%s", texts[2]);
    cr_expect(strstr(texts[0], "3 groups"), "%s", texts[0]);
    cr_expect(strstr(texts[1], "SLOW     the link between hosts node3 (rank 24) and node40 (rank 320)"), "%s",
              texts[1]);
    link_map_close(&map);
}

// One host apart is a slow host, not a group.
Test(link_pairs, a_single_host_is_no_group)
{
    char texts[3][LINK_TEXT_BYTES];
    measure(16);
    slow_host(15, 3);
    cr_assert_eq(texts_of(texts), 1);
    cr_expect(strstr(texts[0], "OUTLIER  the link of host node15"), "%s", texts[0]);
    link_map_close(&map);
}

Test(link_pairs, more_slow_links_than_hosts_without_one_in_common_are_one_finding)
{
    char texts[3][LINK_TEXT_BYTES];
    measure(32);
    for (size_t a = 0; a < 32; a++)
        for (size_t b = 0; b < a; b++)
            if (random_at(3, a * 32 + b) % 4 == 0)
                link_map_add(&map, a, b, 15 + (double)(random_at(4, a * 32 + b) % 100));
    cr_assert_eq(texts_of(texts), 1, "%s", texts[1]);
    cr_expect(strstr(texts[0], "NOISE    "), "%s", texts[0]);
    cr_expect(strstr(texts[0], " of 496 links take more than 1.35 times as long as the median in the lane ping"), "%s",
              texts[0]);
    link_map_close(&map);
}

static struct link_cut cut;

// Sides of groups: each host has the first one of its group.
static void choose(size_t count, const size_t *groups)
{
    bool met[STATISTICS_COUNT_MAX] = {false};
    link_cut_choose(groups, count, &cut);
    for (size_t i = 0; i < cut.count; i++) {
        cr_assert(cut.a[i] < count && cut.b[i] < count);
        cr_expect(!met[cut.a[i]] && !met[cut.b[i]] && cut.a[i] != cut.b[i], "%zu with %zu", cut.a[i], cut.b[i]);
        met[cut.a[i]] = met[cut.b[i]] = true;
    }
}

Test(link_cut, hosts_of_one_group_are_halved)
{
    static const size_t groups[STATISTICS_COUNT_MAX] = {0}, counts[] = {1, 2, 4, 7, 256, 257, 1000};
    static const size_t pairs[] = {0, 1, 2, 3, 128, 128, 128};
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
        choose(counts[i], groups);
        cr_expect_eq(cut.count, pairs[i], "%zu of %zu hosts", cut.count, counts[i]);
        for (size_t pair = 0; pair < cut.count; pair++)
            cr_expect(cut.a[pair] < counts[i] / 2 && cut.b[pair] >= counts[i] / 2);
    }
    cr_expect(cut.a[127] == 496 && cut.b[127] == 996, "of all parts: %zu, %zu", cut.a[127], cut.b[127]);
}

Test(link_cut, groups_stay_whole_and_sides_are_as_equal_as_they_can_be)
{
    static const size_t interleaved[] = {0, 1, 0, 1, 0, 1}, unequal[] = {0, 0, 2, 2, 4, 4, 4, 4, 4},
                        one_large[] = {0, 1, 1, 1, 1, 1};
    choose(6, interleaved);
    cr_assert_eq(cut.count, 3);
    cr_expect(cut.a[0] == 0 && cut.b[0] == 1 && cut.a[2] == 4 && cut.b[2] == 5);
    choose(9, unequal);
    cr_assert_eq(cut.count, 4);
    cr_expect(cut.a[0] == 4 && cut.b[0] == 0 && cut.b[3] == 3, "the largest group against both others");
    choose(6, one_large);
    cr_expect(cut.count == 1 && cut.b[0] == 0);
}

// Pairs that take 10 alone, up to 2 more, and `times` as long together.
static size_t cut_texts(size_t pairs, double times, size_t slow, double of_slow, char (*texts)[LINK_TEXT_BYTES])
{
    static const size_t groups[STATISTICS_COUNT_MAX] = {0};
    static struct link_host hosts[16];
    static char names[16][16];
    choose(2 * pairs, groups);
    for (size_t i = 0; i < pairs; i++) {
        cut.alone[i] = 10 + (double)(random_at(5, i) % 21) / 10;
        cut.together[i] = cut.alone[i] * (i == slow ? of_slow : times);
    }
    for (size_t i = 0; i < 2 * pairs; i++) {
        snprintf(names[i], sizeof names[i], "node%zu", i);
        hosts[i] = (struct link_host){names[i], (int)(8 * i)};
    }
    return link_cut_texts(&cut, hosts, texts, 3);
}

Test(link_cut, pairs_that_share_one_link_are_named_and_those_that_share_none_are_not)
{
    char texts[3][LINK_TEXT_BYTES];
    cr_expect_eq(cut_texts(8, 1.2, 0, 1.3, texts), 0);
    cr_assert_eq(cut_texts(8, 8, 0, 8, texts), 1, "%s", texts[1]);
    cr_expect(strstr(texts[0], "SHARED   8 pairs of hosts together, node0 with node8 and so on, have "), "%s",
              texts[0]);
    cr_expect_float_eq(link_cut_rate(&cut), 1, 1e-9);
    cr_expect(strstr(texts[0], " times the rate of one alone, and each 12 % of its own"), "%s", texts[0]);
    cr_assert_eq(cut_texts(2, 2, 0, 2, texts), 1);
}

Test(link_cut, a_pair_that_another_one_slows_is_named)
{
    char texts[3][LINK_TEXT_BYTES];
    cr_assert_eq(cut_texts(8, 1.02, 5, 2, texts), 1, "%s", texts[1]);
    cr_expect(strstr(texts[0], "COLLIDES the link between hosts node5 (rank 40) and node13 (rank 104) has 50 % of its "
                               "own rate while 8 pairs exchange together, most have 98 %"),
              "%s", texts[0]);
    cr_assert_eq(cut_texts(8, 2, 5, 6, texts), 2, "on a link that all share, too");
    cr_expect(strstr(texts[1], "COLLIDES the link between hosts node5 "), "%s", texts[1]);
}
