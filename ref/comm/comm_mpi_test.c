// SPDX-License-Identifier: Apache-2.0
// Ranks as MPI processes, started by mpirun: their collectives against plain loops, and the error of each rank when one
// of them fails.
#include "ref/comm/comm_failure_test.h"
#include "ref/comm/mpirun_test.h"

#include <signal.h>
#include <string.h>

static char output[16384];  // of the last mpirun

static void expect_good(int world, const char *words)
{
    char line[64];
    cr_expect_eq(mpirun(world, "comm_mpi_program", words, output, sizeof output), 0, "world %d: %s", world, output);
    for (int rank = 0; rank < world; rank++) {
        snprintf(line, sizeof line, "rank %d: good\n", rank);
        cr_expect_not_null(strstr(output, line), "world %d, rank %d: %s", world, rank, output);
    }
}

Test(comm_mpi, every_collective_is_that_of_plain_loops_with_1_and_2_and_3_processes)
{
    MPI_OR_SKIP();
    for (int world = 1; world <= 3; world++)
        expect_good(world, "collectives");
}

Test(comm_mpi, every_collective_is_that_of_plain_loops_with_4_and_8_processes)
{
    MPI_OR_SKIP();
    expect_good(4, "collectives");
    expect_good(8, "collectives");
}

Test(comm_mpi, collectives_are_the_same_in_many_messages)
{
    MPI_OR_SKIP();
    expect_good(2, "pieces");
    expect_good(5, "pieces");
}

Test(comm_mpi, hierarchical_sums_are_those_of_plain_loops)
{
    MPI_OR_SKIP();
    expect_good(6, "groups");
    expect_good(8, "groups");
}

Test(comm_mpi, collectives_of_parts_are_those_of_plain_loops)
{
    MPI_OR_SKIP();
    expect_good(4, "parts");
    expect_good(8, "parts");
}

// 6.5 GiB of memory.
Test(comm_mpi, buffers_beyond_two_to_the_31_bytes_arrive_whole_long)
{
    MPI_OR_SKIP();
    expect_good(2, "large");
}

static void provoke(int world, const char *word)
{
    mpirun_each(world, "comm_mpi_failure_program", word, output, sizeof output);
}

// Every rank reports the failure, except the one that ended by itself, and as many fail.
static void expect_reported(const char *word, int failed, const char *zero, const char *one, const char *two)
{
    const char *const lines[] = {zero, one, two};
    provoke(3, word);
    cr_expect_eq(times_said(output, "ended with status 1\n"), failed, "%s: %s", word, output);
    for (int rank = 0; rank < 3; rank++)
        cr_expect(!lines[rank] || strstr(output, lines[rank]), "%s, rank %d: %s", word, rank, output);
}

// Each rank says the same, on one line.
static void expect_all_said(int world, const char *word, const char *said)
{
    provoke(world, word);
    cr_expect_eq(times_said(output, "ended with status 1\n"), world, "%s: %s", word, output);
    cr_expect_eq(times_said(output, said), world, "%s: %s", word, output);
}

// Rank 1 gives up; the others name it and its host.
static void expect_given_up(const char *word)
{
    char host[64] = "", zero[128], two[128];
    gethostname(host, sizeof host - 1);
    snprintf(zero, sizeof zero, "rank 0: rank 1 (host %s) failed: the disk is full\n", host);
    snprintf(two, sizeof two, "rank 2: rank 1 (host %s) failed: the disk is full\n", host);
    expect_reported(word, 3, zero, "rank 1: the disk is full\n", two);
}

Test(comm_mpi, a_rank_that_gives_up_is_named_to_all)
{
    MPI_OR_SKIP();
    expect_given_up("abort");
}

Test(comm_mpi, a_rank_that_leaves_early_is_named)
{
    MPI_OR_SKIP();
    expect_reported("leave", 2, "rank 0: rank 1 left while rank ", "rank 1: good\n", "rank 2: rank 1 left while rank ");
}

Test(comm_mpi, a_rank_that_is_killed_is_named)
{
    MPI_OR_SKIP();
    provoke(3, "die");
    cr_expect_eq(times_said(output, "ended with status 1\n"), 2, "%s", output);
    cr_expect_not_null(strstr(output, "rank 0: rank 1 (host "), "%s", output);
    cr_expect_not_null(strstr(output, "rank 2: rank 1 (host "), "%s", output);
    cr_expect_eq(times_said(output, ") has died: it was killed, or crashed\n"), 2, "%s", output);
}

// The system of a stopped process still answers for it.
Test(comm_mpi, a_rank_that_hangs_is_named)
{
    MPI_OR_SKIP();
    provoke(3, "stop");
    cr_expect_eq(times_said(output, "ended with status 1\n"), 2, "%s", output);
    cr_expect_eq(times_said(output, "ended with status 137\n"), 1, "%s", output);
    for (int rank = 0; rank < 3; rank += 2) {
        char line[64];
        snprintf(line, sizeof line, "rank %d: rank 1 (host ", rank);
        cr_expect_not_null(strstr(output, line), "%s", output);
    }
    cr_expect_eq(times_said(output, ") gives no sign of life: its host hangs, or the process is stopped\n"), 2, "%s",
                 output);
}

Test(comm_mpi, ranks_that_wait_at_the_end_end_well)
{
    MPI_OR_SKIP();
    cr_expect_eq(mpirun(3, "comm_mpi_failure_program", "late", output, sizeof output), 0, "%s", output);
    cr_expect_eq(times_said(output, ": good\n"), 3, "%s", output);
}

Test(comm_mpi, a_limit_of_silence_that_is_no_number_is_refused)
{
    MPI_OR_SKIP();
    provoke(2, "limit");
    cr_expect_eq(times_said(output, "ZG_HANG_S=5s: expected whole seconds, or 0 for no limit\n"), 2, "%s", output);
    cr_expect_eq(times_said(output, "ended with status 2\n"), 2, "%s", output);
}

// mpirun sends SIGTERM to the others of a rank that dies: they have time to report, and then it ends them.
Test(comm_mpi, a_rank_goes_on_after_a_peer_has_ended_and_for_a_moment_when_told_to_end)
{
    MPI_OR_SKIP();
    provoke(2, "sigterm");
    cr_expect_eq(times_said(output, ": goes on\n"), 2, "%s", output);
    cr_expect_eq(times_said(output, "ended with status 143\n"), 2, "%s", output);
}

// With the status of the rank of whose end it hears first: the killed one's, or that of one that reported it.
Test(comm_mpi, mpirun_fails_when_a_rank_is_killed)
{
    MPI_OR_SKIP();
    int status = mpirun(3, "comm_mpi_failure_program", "die", output, sizeof output);
    cr_expect(status == 128 + SIGKILL || status == 1, "%d: %s", status, output);
}

// The others wait in a part of the world that the failing rank is no member of.
Test(comm_mpi, a_failure_reaches_the_ranks_that_wait_in_a_part)
{
    MPI_OR_SKIP();
    expect_given_up("abort-beside");
    expect_reported("die-beside", 2, "rank 0: rank 1 (host ", NULL, "rank 2: rank 1 (host ");
}

// A rank that leaves a part because of a failure elsewhere is not named as its cause.
Test(comm_mpi, a_failure_reaches_a_part_before_the_departure_of_its_ranks)
{
    MPI_OR_SKIP();
    for (int i = 0; i < 6; i++) {
        provoke(4, "abort-inside");
        cr_expect_eq(times_said(output, "ended with status 1\n"), 4, "%s", output);
        cr_expect_eq(times_said(output, ": rank 2 (host "), 3, "%s", output);
        cr_expect_eq(times_said(output, ") failed: the disk is full\n"), 3, "%s", output);
    }
}

Test(comm_mpi, calls_that_do_not_match_are_both_named_on_every_rank)
{
    MPI_OR_SKIP();
    for (int mistake = 0; mistake < MISTAKE_COUNT; mistake++) {
        char word[32];
        snprintf(word, sizeof word, "mistake-%d", mistake);
        expect_all_said(WORLD, word, mistake_messages[mistake]);
    }
}

Test(comm_mpi, messages_arrive_whole_and_in_order)
{
    MPI_OR_SKIP();
    expect_good(2, "messages");
    expect_good(5, "messages");
}

Test(comm_mpi, a_message_that_is_not_the_expected_one_or_never_comes_is_an_error)
{
    MPI_OR_SKIP();
    for (int i = 0; i < MESSAGE_FAILURES; i++)
        expect_all_said(2, message_failures[i].word, message_failures[i].said);
    provoke(2, "message-leave");
    cr_expect_not_null(strstr(output, "rank 0: rank 1 left while rank 0 was in receive\n"), "%s", output);
    provoke(2, "message-die");
    cr_expect_not_null(strstr(output, "rank 0: rank 1 (host "), "%s", output);
}

// Three ranks around a ring of pairs; and others that only wait long, for one that sleeps.
Test(comm_mpi, ranks_that_wait_for_each_other_in_different_communicators_are_named)
{
    MPI_OR_SKIP();
    static const struct waiting circle[] = {{0, "barrier among ranks 0 1 (shard)"},
                                            {1, "barrier among ranks 1 2 (tensor)"},
                                            {2, "barrier among ranks 0 2 (expert)"}};
    provoke(3, "ring");
    int said = 0;
    for (int i = 0; i < 3; i++)
        said += times_said(output, circle_text(circle, 3, i));
    cr_expect_eq(said, 3, "%s", output);
    cr_expect_eq(mpirun(3, "comm_mpi_failure_program", "slow", output, sizeof output), 0, "%s", output);
    cr_expect_eq(times_said(output, ": good\n"), 3, "%s", output);
}
