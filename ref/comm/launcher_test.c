// SPDX-License-Identifier: Apache-2.0
// Training with ranks that a launcher starts: the bits equal those of ranks that are threads, and an error ends all
// ranks.
#include "ref/comm/launcher.h"
#include "ref/comm/comm_test.h"
#include "ref/comm/mpirun_test.h"

#include "base/err.h"
#include "base/folder_test.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static char output[1 << 20];

static void expect_the_bits_of_threads(int world, const char *arguments)
{
    char command[PATH_MAX + 1024], by_threads[33], by_processes[33];
    snprintf(command, sizeof command, "%s --verify", arguments);
    train_by_threads(world, command, output, sizeof output, by_threads);
    snprintf(command, sizeof command, "train %s --verify --json", arguments);
    cr_assert_eq(mpirun(world, "zerogauge", command, output, sizeof output), 0, "%s", output);
    digest_in(output, by_processes);
    cr_expect_str_eq(by_processes, by_threads, "%s with %d processes", arguments, world);
    cr_expect_not_null(strstr(output, "\"accounting_equal\":true"), "%s", output);
    cr_expect_null(strstr(strstr(output, "\"state_digest\""), "\n{"), "one rank prints: %s", output);
}

Test(launcher, every_stage_ends_in_the_bits_of_threads)
{
    MPI_OR_SKIP();
    expect_the_bits_of_threads(2, "--preset zero0 --model gpt-nano --steps 3");
    expect_the_bits_of_threads(3, "--preset zero1 --model linear --steps 3");
    expect_the_bits_of_threads(3, "--preset zero2 --model linear --steps 3 --set gradient_clipping=0.1");
    expect_the_bits_of_threads(3, "--preset zero3 --model gpt-nano --steps 3 --schedule chaos:5");
}

// Uses fp32 gradients, so that the order of a sum shows.
Test(launcher, hierarchical_sums_end_in_the_bits_of_threads_and_not_in_the_canonical_ones)
{
    MPI_OR_SKIP();
    char canonical[33], hierarchical[33], command[PATH_MAX + 256];
    const char *common = "--preset zero2 --model gpt-nano --steps 3 --set bf16.enabled=false";
    train_by_threads(4, common, output, sizeof output, canonical);
    snprintf(command, sizeof command, "%s --set zerogauge.reduction_group=2", common);
    expect_the_bits_of_threads(4, command);
    digest_in(output, hierarchical);
    cr_expect_str_neq(hierarchical, canonical);
    cr_expect_not_null(strstr(output, "\"reduction_group\":2"), "%s", output);
}

Test(launcher, states_on_every_tier_end_in_the_bits_of_threads)
{
    MPI_OR_SKIP();
    expect_the_bits_of_threads(3, "--preset zero3_offload --model gpt-nano --steps 3");
    char folder[PATH_MAX], arguments[PATH_MAX + 512];
    folder_make(folder);
    snprintf(arguments, sizeof arguments, "--preset zero_infinity --buffered --nvme-path %s --model gpt-nano --steps 3",
             folder);
    expect_the_bits_of_threads(2, arguments);
    folder_remove(folder);
}

Test(launcher, processes_continue_what_threads_began)
{
    MPI_OR_SKIP();
    char folder[PATH_MAX], arguments[PATH_MAX + 512], whole[33], continued[33];
    folder_make(folder);
    train_by_threads(3, "--preset zero2 --model linear --steps 5", output, sizeof output, whole);
    snprintf(arguments, sizeof arguments, "--preset zero1 --model linear --steps 2 --checkpoint %s/c", folder);
    train_by_threads(3, arguments, output, sizeof output, continued);
    snprintf(arguments, sizeof arguments, "train --preset zero3 --model linear --steps 4 --json --checkpoint %s/c",
             folder);
    cr_assert_eq(mpirun(3, "zerogauge", arguments, output, sizeof output), 0, "%s", output);
    snprintf(arguments, sizeof arguments, "--preset zero2 --model linear --steps 5 --checkpoint %s/c", folder);
    train_by_threads(3, arguments, output, sizeof output, continued);
    cr_expect_not_null(strstr(output, "\"resumed_step\":4"), "%s", output);
    cr_expect_str_eq(continued, whole);
    folder_remove(folder);
}

Test(launcher, an_error_of_one_rank_ends_all_and_is_reported_by_all)
{
    MPI_OR_SKIP();
    mpirun_each(3, "zerogauge", "train --preset zero3 --model linear --steps 5 --inject rank:1:die@3", output,
                sizeof output);
    cr_expect_eq(times_said(output, "ended with status 2\n"), 3, "%s", output);
    cr_expect_eq(times_said(output, "zerogauge train: rank 1: ended in step 3"), 1, "%s", output);
    cr_expect_eq(times_said(output, "zerogauge train: rank 1 (host "), 2, "%s", output);
    cr_expect_eq(times_said(output, ") failed: ended in step 3"), 2, "%s", output);
    mpirun_each(2, "zerogauge", "train --preset zero2 --model linear --steps 2 --save /nonexistent/x", output,
                sizeof output);
    cr_expect_eq(times_said(output, "ended with status 2\n"), 2, "%s", output);
    cr_expect_not_null(strstr(output, "rank 0 (host "), "%s", output);
    cr_expect_not_null(strstr(output, ") failed: /nonexistent/x: cannot be created"), "%s", output);
}

// With five ranks, two of them are no neighbours of the one that dies.
Test(launcher, a_killed_rank_is_named_by_all_others)
{
    MPI_OR_SKIP();
    for (int rank = 0; rank < 3; rank++) {
        char arguments[128], reported[64];
        snprintf(arguments, sizeof arguments, "train --preset zero3 --model linear --steps 9 --inject rank:%d:kill@3",
                 2 * rank);
        snprintf(reported, sizeof reported, "zerogauge train: rank %d (host ", 2 * rank);
        mpirun_each(5, "zerogauge", arguments, output, sizeof output);
        cr_expect_eq(times_said(output, "ended with status 2\n"), 4, "%s", output);
        cr_expect_eq(times_said(output, "ended with status 137\n"), 1, "%s", output);
        cr_expect_eq(times_said(output, reported), 4, "%s", output);
        cr_expect_eq(times_said(output, ") has died: it was killed, or crashed\n"), 4, "%s", output);
    }
}

Test(launcher, another_world_than_the_launchers_is_refused)
{
    MPI_OR_SKIP();
    cr_expect_eq(mpirun(2, "zerogauge", "train --preset zero1 --world 3 --model linear", output, sizeof output), 2);
    cr_expect_not_null(strstr(output, "--world 3, but the launcher has started 2 processes"), "%s", output);
}

Test(launcher, variables_say_world_and_rank)
{
    struct launcher launcher;
    int world;
    unsetenv("OMPI_COMM_WORLD_SIZE");
    unsetenv("PMI_SIZE");
    unsetenv("SLURM_STEP_NUM_TASKS");
    cr_assert_eq(launcher_find(&launcher), ERR_NONE);
    cr_expect_eq(launcher.world, 0);
    cr_assert_eq(launcher_world(&launcher, 0, 2, &world), ERR_NONE);
    cr_expect_eq(world, 2);
    cr_assert_eq(launcher_world(&launcher, 5, 2, &world), ERR_NONE);
    cr_expect_eq(world, 5);

    MPI_OR_SKIP();
    // A batch script of Slurm has its job's number of tasks; a process of a step has the step's.
    setenv("SLURM_NTASKS", "6", 1);
    setenv("SLURM_PROCID", "0", 1);
    cr_assert_eq(launcher_find(&launcher), ERR_NONE);
    cr_expect_eq(launcher.world, 0);
    setenv("SLURM_STEP_NUM_TASKS", "4", 1);
    setenv("SLURM_PROCID", "3", 1);
    cr_assert_eq(launcher_find(&launcher), ERR_NONE);
    cr_expect_eq(launcher.world, 4);
    cr_expect_eq(launcher.rank, 3);
    cr_expect_str_eq(launcher.name, "SLURM_STEP_NUM_TASKS");
    setenv("SLURM_PROCID", "4", 1);
    cr_expect_eq(launcher_find(&launcher), ERR_USAGE);
    cr_expect_not_null(strstr(err_message(), "SLURM_PROCID"), "%s", err_message());

    // The variables of an MPI's launcher take precedence.
    setenv("PMI_SIZE", "7", 1);
    setenv("PMI_RANK", "6", 1);
    cr_assert_eq(launcher_find(&launcher), ERR_NONE);
    cr_expect_eq(launcher.world, 7);
    cr_expect_eq(launcher.rank, 6);
    cr_assert_eq(launcher_world(&launcher, 0, 2, &world), ERR_NONE);
    cr_expect_eq(world, 7);
    cr_assert_eq(launcher_world(&launcher, 7, 2, &world), ERR_NONE);
    cr_expect_eq(launcher_world(&launcher, 6, 2, &world), ERR_USAGE);

    const char *const bad[] = {"7", "-1", "", "x", "1x", "99999999999999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        setenv("PMI_RANK", bad[i], 1);
        cr_expect_eq(launcher_find(&launcher), ERR_USAGE, "%s", bad[i]);
        cr_expect_not_null(strstr(err_message(), "PMI_RANK"), "%s", err_message());
    }
}

Test(launcher, a_process_started_alone_has_ranks_that_are_threads)
{
    MPI_OR_SKIP();
    cr_expect_eq(mpirun(1, "zerogauge", "train --preset zero2 --world 3 --model linear --steps 2 --verify", output,
                        sizeof output),
                 0, "%s", output);
    cr_expect_not_null(strstr(output, ", 3 ranks,"), "%s", output);
    cr_expect_eq(mpirun(1, "zerogauge", "train --preset zero2 --model linear --steps 2", output, sizeof output), 0);
    cr_expect_not_null(strstr(output, ", 1 rank"), "unless asked for more, it is one: %s", output);
    cr_expect_eq(mpirun(1, "zerogauge", "check --case adam-basic.w2.s1.fp32", output, sizeof output), 0, "%s", output);
}

Test(launcher, a_case_of_any_world_is_answered_by_a_process_started_alone)
{
    MPI_OR_SKIP();
    char folder[PATH_MAX], command[2 * PATH_MAX];
    folder_make(folder);
    snprintf(command, sizeof command, "'%s/zerogauge' check --case adam-basic.w2.s1.fp32 --out %s/report 2>&1",
             ZG_BINARY_DIR, folder);
    cr_assert_eq(command_run(command, output, sizeof output), 0, "%s", output);
    for (int world = 1; world <= 3; world++) {
        snprintf(command, sizeof command,
                 "answer --case %.1000s/report/cases/w2/adam-basic.w2.s1.fp32 %.1000s/answer-%d", folder, folder,
                 world);
        int status = mpirun(world, "zerogauge", command, output, sizeof output);
        cr_expect_eq(status != 0, world == 3, "%d processes: %s", world, output);
    }
    cr_expect_not_null(strstr(output, "is a case of world 2, in a run of world 3"), "%s", output);
    snprintf(command, sizeof command, "cd %s && diff -r answer-1 answer-2 2>&1", folder);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    folder_remove(folder);
}

static void find_position(struct rank *rank)
{
    int local_rank, local_count;
    if (launcher_position(rank->comm, &local_rank, &local_count) != ERR_NONE)
        rank_wrong(rank, "%s", err_message());
    else if (local_rank != rank->index || local_count != rank->world)
        rank_wrong(rank, "%d of %d", local_rank, local_count);
}

Test(launcher, ranks_of_one_host_are_counted_in_their_order)
{
    ranks_run_well(1, find_position, NULL);
    ranks_run_well(5, find_position, NULL);
}

// Cases of the launcher's world are answered by its processes, and rank 0 alone judges and reports.
static void expect_the_suite_accepts(int world, const char *pattern)
{
    char arguments[256], part[64];
    snprintf(arguments, sizeof arguments, "check --json %s", pattern);
    snprintf(part, sizeof part, "\"world\":%d", world);
    cr_expect_eq(mpirun(world, "zerogauge", arguments, output, sizeof output), 0, "%d: %s", world, output);
    cr_expect_not_null(strstr(output, "\"verdict\":\"CONFORMS"), "%d: %s", world, output);
    cr_expect_null(strstr(output, "\"verdict\":\"FAIL"), "%d: %s", world, output);
    cr_expect_null(strstr(output, "\"verdict\":\"BROKEN"), "%d: %s", world, output);
    const char *end = strstr(output, "\"record\":\"end\"");
    cr_assert_not_null(end, "%s", output);
    cr_expect_null(strstr(end + 1, "\"record\":\"end\""), "one rank reports: %s", output);
    snprintf(part, sizeof part, ".w%d.", world == 2 ? 3 : 2);
    cr_expect_null(strstr(output, part), "cases of this world alone: %s", output);
}

Test(launcher, the_suite_judges_2_3_and_4_processes)
{
    MPI_OR_SKIP();
    expect_the_suite_accepts(2, "--case '*-exact.*'");
    expect_the_suite_accepts(3, "--case 'part-*'");
    expect_the_suite_accepts(4, "--case 'adam-basic.*'");
}

Test(launcher, the_suite_says_what_it_cannot_judge_under_a_launcher)
{
    MPI_OR_SKIP();
    cr_expect_eq(mpirun(3, "zerogauge", "check --case adam-basic.w2.s1.fp32", output, sizeof output), 2, "%s", output);
    const char *reported = strstr(output, "zerogauge check: none of the selected cases has 3 ranks\n");
    cr_assert_not_null(reported, "%s", output);
    cr_expect_null(strstr(reported + 40, "no case that is asked for"), "rank 0 alone says so: %s", output);
    cr_expect_eq(mpirun(2, "zerogauge", "check -- true {cases} {answers}", output, sizeof output), 2, "%s", output);
    cr_expect_not_null(strstr(output, "start zerogauge check once, and put the launcher into the command: "
                                      "zerogauge check -- mpirun -n {world} "),
                       "%s", output);
    cr_expect_eq(mpirun(2, "zerogauge", "check --memory-limit 1GiB", output, sizeof output), 2, "%s", output);
    cr_expect_not_null(strstr(output, "the launcher sets limits"), "%s", output);
    cr_expect_eq(mpirun(2, "zerogauge", "bench adam --help", output, sizeof output), 0, "%s", output);
}

// Through mpirun the suite sees what it sees through threads: arithmetic, tied and empty tensors, resharding, usage.
Test(launcher, the_suite_accepts_ranks_that_are_processes)
{
    MPI_OR_SKIP();
    char command[4 * PATH_MAX];
    snprintf(command, sizeof command,
             "env OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1 "
             "OMPI_MCA_hwloc_base_binding_policy=none ASAN_OPTIONS=detect_leaks=0 '%s/zerogauge' check --json "
             "--case '*-exact.w3.*' --case 'part-*.w3.*' --case 'ckpt-reshard-down.w3*' --case 'usage-*.w3.*' -- "
             "mpirun -n {world} '%s/zerogauge' answer {cases} {answers} {world} {state} 2>&1",
             ZG_BINARY_DIR, ZG_BINARY_DIR);
    cr_expect_eq(command_run(command, output, sizeof output), 0, "%s", output);
    cr_expect_not_null(strstr(output, "\"verdict\":\"CONFORMS"), "%s", output);
    cr_expect_null(strstr(output, "\"verdict\":\"BROKEN\""), "%s", output);
}
