// SPDX-License-Identifier: Apache-2.0
// Ranks on several hosts, which are network namespaces of this machine with TCP between them (ci/hosts): the same bits
// as on one. Skipped, with the reason, where namespaces cannot be made.
#include "ref/comm/mpirun_test.h"

#include "base/folder_test.h"

#include <jansson.h>
#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>

enum { SKIPPED_STATUS = 77 };

static char output[1 << 20];

// Runs a command on the hosts and gets its exit status. If hosts cannot be created, reports the reason and returns
// false.
static bool hosts(const char *arguments, const char *command, int *status)
{
    char whole[6 * PATH_MAX];
    snprintf(whole, sizeof whole, "env ASAN_OPTIONS=detect_leaks=0 timeout 300 '%s/ci/hosts' %s -- %s 2>&1",
             ZG_SOURCE_DIR, arguments, command);
    *status = command_run(whole, output, sizeof output);
    const char *reason = strstr(output, "SKIP: ");
    if (*status == SKIPPED_STATUS && reason) {
        printf("TEST SKIPPED: %.*s\n", (int)strcspn(reason + 6, "\n"), reason + 6);
        return false;
    }
    return true;
}

// Runs `world` ranks on `host_count` hosts, dealt out in turn.
static bool expect_the_bits_of_threads(int host_count, int world, const char *arguments)
{
    char command[PATH_MAX + 1024], count[16], by_threads[33], over_hosts[33];
    int status;
    snprintf(command, sizeof command, "mpirun -n %d '%s/zerogauge' train %s --verify --json", world, ZG_BINARY_DIR,
             arguments);
    snprintf(count, sizeof count, "%d", host_count);
    if (!hosts(count, command, &status))
        return false;
    cr_assert_eq(status, 0, "%s", output);
    digest_in(output, over_hosts);
    snprintf(command, sizeof command, "%s --verify", arguments);
    train_by_threads(world, command, output, sizeof output, by_threads);
    cr_expect_str_eq(over_hosts, by_threads, "%s, %d ranks on %d hosts", arguments, world, host_count);
    return true;
}

Test(hosts, two_hosts_end_in_the_bits_of_threads)
{
    MPI_OR_SKIP();
    if (expect_the_bits_of_threads(2, 2, "--preset zero2 --model linear --steps 3"))
        expect_the_bits_of_threads(2, 4,
                                   "--preset zero3 --model gpt-nano --steps 3 --schedule chaos:5 --set "
                                   "bf16.enabled=false --set zerogauge.reduction_group=2");
}

Test(hosts, three_hosts_end_in_the_bits_of_threads)
{
    MPI_OR_SKIP();
    if (expect_the_bits_of_threads(3, 3, "--preset zero3 --model gpt-nano --steps 3"))
        expect_the_bits_of_threads(3, 4, "--preset zero1 --model linear --steps 3 --set gradient_clipping=0.1");
}

// Every host has its own name, and the command's exit status covers all hosts.
Test(hosts, ranks_are_dealt_out_to_hosts_in_turn)
{
    int status;
    MPI_OR_SKIP();
    if (!hosts("3", "mpirun -n 5 --tag-output hostname", &status))
        return;
    cr_expect_eq(status, 0, "%s", output);
    for (int rank = 0; rank < 5; rank++) {
        char line[64];
        snprintf(line, sizeof line, "[1,%d]<stdout>:host%d\n", rank, rank % 3 + 1);
        cr_expect_not_null(strstr(output, line), "%s: %s", line, output);
    }
    hosts("1", "false", &status);
    cr_expect_eq(status, 1);
    hosts("2 --slow 3", "true", &status);
    cr_expect_eq(status, 2);
}

// Measures the links of that many ranks; false: no hosts can be created.
static bool bench_links(const char *arguments, int world, const char *options)
{
    char command[PATH_MAX + 128];
    int status;
    snprintf(command, sizeof command, "mpirun -n %d '%s/zerogauge' bench links --quick --repeat 3 --sizes %s", world,
             ZG_BINARY_DIR, options);
    if (!hosts(arguments, command, &status))
        return false;
    cr_expect_eq(status, 0, "%s", output);
    return true;
}

// Of three links, the slow one is the one that is slow with every partner. A rate of 10 Mbit/s is 0.00125 GB/s,
// a tenth of a second for 128 KiB, far above what a busy processor takes of the others.
Test(hosts, the_host_with_a_slow_link_is_named)
{
    MPI_OR_SKIP();
    if (!bench_links("3 --rate 10 --slow 2", 6, "128K"))
        return;
    const char *named = strstr(output, "OUTLIER  the link of host host2 (rank 1) takes ");
    cr_assert_not_null(named, "%s", output);
    const char *measured = strstr(output, "lane=bandwidth  rank=1  world=6  host=host2  hosts=3  bytes=131072");
    cr_assert_not_null(measured, "%s", output);
    double rate = strtod(measured + strcspn(measured, "\n") + 1, NULL);
    cr_expect(rate > 0 && rate < 0.002, "%g GB/s: %s", rate, output);
}

// The times of a rank's links by partner, in microseconds, in a line of JSON of the lane; null: there is none.
static json_t *times_of(const char *lane, int rank)
{
    char *rest = output, *line;
    while ((line = strsep(&rest, "\n")) != NULL) {
        json_t *record = json_loads(line, 0, NULL), *of_case = json_object_get(record, "case");
        const char *found = json_string_value(json_object_get(of_case, "lane"));
        json_t *times = json_object_get(json_object_get(record, "detail"), "us_with");
        if (rest)
            rest[-1] = '\n';
        if (found && strcmp(found, lane) == 0 && json_integer_value(json_object_get(of_case, "rank")) == rank &&
            times) {
            json_incref(times);
            json_decref(record);
            return times;
        }
        json_decref(record);
    }
    return NULL;
}

// Of four hosts, two have a slow link between them, of 0.35 s for 128 KiB, and fast ones to the others, which other
// programs on the processors slow as well. ranks_test judges such times.
Test(hosts, a_slow_link_between_two_hosts_is_slow_for_both_and_for_no_other)
{
    MPI_OR_SKIP();
    if (!bench_links("4 --rate 3 --slow 2:4", 4, "128K --json"))
        return;
    for (int rank = 0; rank < 4; rank++) {
        json_t *times = times_of("bandwidth", rank), *time;
        const char *partner;
        cr_assert_not_null(times, "rank %d: %s", rank, output);
        cr_expect_eq(json_object_size(times), 3);
        json_object_foreach (times, partner, time) {
            bool slow = rank + atoi(partner) == 4;  // ranks 1 and 3
            cr_expect_eq(json_number_value(time) > 175000, slow, "rank %d with %s: %g us", rank, partner,
                         json_number_value(time));
        }
        json_decref(times);
    }
}

// Three pairs on one uplink of 20 Mbit/s, where 64 KiB take 26 ms each way: other programs hardly count.
Test(hosts, pairs_across_an_uplink_share_it)
{
    MPI_OR_SKIP();
    if (!bench_links("6 --uplink 20", 6, "64K --json"))
        return;
    char *of_all = strstr(output, "\"pairs\":3");
    cr_assert_not_null(of_all, "%s", output);
    while (of_all > output && of_all[-1] != '\n')
        of_all--;
    json_t *record = json_loads(of_all, JSON_DISABLE_EOF_CHECK, NULL), *share;
    json_t *shares = json_object_get(json_object_get(record, "detail"), "share_of_alone");
    const char *pair;
    double sum = 0;
    json_object_foreach (shares, pair, share)
        sum += json_number_value(share);
    cr_expect(json_object_size(shares) == 3 && sum > 0.5 && sum < 2, "%g of 3 pairs: %s", sum, of_all);
    for (int rank = 0; rank < 3; rank++) {
        char name[16];
        snprintf(name, sizeof name, "%d %d", rank, rank + 3);
        cr_expect(json_object_get(shares, name), "%s: %s", name, of_all);
    }
    json_decref(record);
}

Test(hosts, the_host_with_a_delayed_link_is_named)
{
    MPI_OR_SKIP();
    if (!bench_links("3 --delay 5 --slow 3", 3, "4K"))
        return;
    cr_expect_not_null(strstr(output, "OUTLIER  the link of host host3 (rank 2) takes "), "%s", output);
}

// Over several hosts an mpirun that leaves the others alone does not end. It is over when each rank has ended.
// Writes scripts for that, of which `all` takes the folder and a rank's command.
static void write_scripts(const char *folder)
{
    static const char each[] = "\"$@\"; echo \"ended with status $?\"\n";
    static const char all[] =
        "folder=$1; shift; n=0\n"
        "mpirun " MPIRUN_LEAVES_OTHERS "-n 5 sh \"$folder/each\" \"$@\" >\"$folder/said\" 2>&1 &\n"
        "until [ \"$(grep -c '^ended' \"$folder/said\")\" -ge 5 ] || [ $((n += 1)) -gt 5000 ]\n"
        "do sleep 0.05; done; cat \"$folder/said\"\n";
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%.1000s/each", folder);
    folder_write(path, each, sizeof each - 1);
    snprintf(path, sizeof path, "%.1000s/all", folder);
    folder_write(path, all, sizeof all - 1);
}

// A killed rank leaves the last checkpoint, and none of the states on NVMe.
Test(hosts, a_rank_killed_on_another_host_is_named_by_all_others)
{
    char folder[PATH_MAX], scripts[PATH_MAX], command[5 * PATH_MAX], *line, *rest = output;
    int status, entries = 0;
    MPI_OR_SKIP();
    folder_make(folder);
    write_scripts(folder_make(scripts));
    snprintf(command, sizeof command,
             "sh %s/all %s '%s/zerogauge' train --preset zero_infinity --buffered --nvme-path %s --checkpoint %s/c "
             "--every 1 --model gpt-nano --steps 9 --inject rank:1:kill@4",
             scripts, scripts, ZG_BINARY_DIR, folder, folder);
    if (hosts("3", command, &status)) {
        cr_expect_eq(times_said(output, "ended with status 2\n"), 4, "%s", output);
        cr_expect_eq(times_said(output, "ended with status 137\n"), 1, "%s", output);
        cr_expect_eq(times_said(output, "zerogauge train: rank 1 (host host2, process "), 4, "%s", output);
        snprintf(command, sizeof command, "ls -A %s %s/c", folder, folder);
        cr_assert_eq(command_run(command, output, sizeof output), 0);
        while ((line = strsep(&rest, "\n")) != NULL) {
            bool known = strncmp(line, "step-0000000", 12) == 0 || strcmp(line, ".lock") == 0 ||
                         strcmp(line, "c") == 0 || line[0] == '/' || line[0] == '\0';
            cr_expect(known, "left behind: %s", line);
            entries += strcmp(line, "step-00000003") == 0;
        }
        cr_expect_eq(entries, 1);
    }
    folder_remove(scripts);
    folder_remove(folder);
}

// However the command ends, all processes that it started on hosts have ended, too.
Test(hosts, nothing_is_left_of_hosts_that_are_killed)
{
    int status;
    if (!hosts("1", "true", &status))
        return;
    static const char *const signals[] = {"INT", "TERM", "KILL"};
    for (int i = 0; i < 3; i++) {
        char command[PATH_MAX + 512], name[64];
        snprintf(name, sizeof name, "zg-hosts-%d-%s", (int)getpid(), signals[i]);
        snprintf(command, sizeof command,
                 "bash -c 'set -m; \"%s/ci/hosts\" 2 -- bash -c \"exec -a %s sleep 60\" & n=0; "
                 "until pgrep -f \"^%s\" >/dev/null || [ $((n += 1)) -gt 200 ]; do sleep 0.05; done; "
                 "[ $n -le 200 ] || echo never started; kill -%s $!; wait $!; n=0; "
                 "while pgrep -f \"^%s\" && [ $((n += 1)) -le 200 ]; do sleep 0.05; done; "
                 "[ $n -le 200 ] || echo still there; ip netns list | grep -w host2' 2>/dev/null",
                 ZG_SOURCE_DIR, name, name, signals[i], name);
        command_run(command, output, sizeof output);
        cr_expect_null(strstr(output, "never started"), "%s: %s", signals[i], output);
        cr_expect_null(strstr(output, "still there"), "%s: %s", signals[i], output);
        cr_expect_null(strstr(output, "host2"), "%s: %s", signals[i], output);
    }
}
