// SPDX-License-Identifier: Apache-2.0
// Tests of the protocol between `bench peer` and its peers: turns alternate, bytes arrive, and a peer that fails, ends
// or reports impossible times is an error.
#include "base/err.h"
#include "base/folder_test.h"
#include "bench/peers/peer.h"

#include <criterion/criterion.h>

#include <string.h>

// Starts a shell that answers its setting and then runs `answer` for each request.
static struct peer open_shell(const char *answer)
{
    char command[1024];
    struct peer peer;
    snprintf(command, sizeof command, "sh -c 'read s; echo {\\\"name\\\":\\\"shell 1\\\"}; while read l; do %s; done'",
             answer);
    cr_assert_eq(peer_open(command, &peer), ERR_NONE, "%s", err_message());
    cr_assert_eq(peer_send_line(&peer, json_pack("{s:i}", "threads", 2)), ERR_NONE, "%s", err_message());
    return peer;
}

static void expect_run_fails(const char *answer, int code, const char *part)
{
    struct peer peer = open_shell(answer);
    double ns;
    cr_assert_eq(peer_ready(&peer), ERR_NONE, "%s", err_message());
    cr_expect_eq(peer_run(&peer, 1, &ns), code, "%s", answer);
    cr_expect_not_null(strstr(err_message(), part), "%s: %s", answer, err_message());
    peer_close(&peer);
}

Test(peer, a_peer_reports_its_name_and_time)
{
    struct peer peer = open_shell("sleep 0.001; echo {\\\"ns\\\":5}");
    double ns;
    cr_assert_eq(peer_ready(&peer), ERR_NONE, "%s", err_message());
    cr_expect_str_eq(peer.name, "shell 1");
    for (int i = 0; i < 3; i++) {
        cr_assert_eq(peer_run(&peer, 2, &ns), ERR_NONE, "%s", err_message());
        cr_expect_eq(ns, 5);
    }
    peer_close(&peer);
    cr_expect_eq(peer.process, 0);
}

Test(peer, answers_that_are_errors_or_impossible_are_refused)
{
    expect_run_fails("echo {\\\"error\\\":\\\"no room\\\"}", ERR_CHECK, "shell 1: no room");
    expect_run_fails("echo hello", ERR_IO, "'hello\n', expected an object");
    expect_run_fails("echo {\\\"s\\\":5}", ERR_IO, "\"ns\" is not a number");
    expect_run_fails("echo {\\\"ns\\\":0}", ERR_IO, "\"ns\" is not a number");
    expect_run_fails("echo {\\\"ns\\\":1e15}", ERR_CHECK, "1000000000000000 ns by its own clock");
    expect_run_fails("exit 3", ERR_IO, "has ended");
}

Test(peer, a_missing_program_is_an_error)
{
    struct peer peer;
    cr_assert_eq(peer_open("zerogauge-no-such-program --now", &peer), ERR_NONE);
    cr_expect_eq(peer_ready(&peer), ERR_IO);
    peer_close(&peer);
    cr_expect_eq(peer_open("", &peer), ERR_USAGE);
    peer_close(&peer);
}

Test(peer, the_last_answer_explains_a_closed_input)
{
    struct peer peer;
    char *bytes = calloc(1, 8 << 20);
    cr_assert_eq(peer_open("sh -c 'echo {\\\"error\\\":\\\"no such module\\\"}'", &peer), ERR_NONE);
    cr_expect_eq(peer_send(&peer, bytes, 8 << 20), ERR_CHECK);
    cr_expect_not_null(strstr(err_message(), "no such module"), "%s", err_message());
    peer_close(&peer);
    free(bytes);
}

Test(peer, bytes_come_back_as_they_were_sent)
{
    enum { BYTES = 1000003 };
    struct peer peer;
    char *sent = malloc(BYTES), *got = calloc(1, BYTES);
    for (int i = 0; i < BYTES; i++)
        sent[i] = (char)(i * 7 + i / 251);
    cr_assert_eq(peer_open("sh -c 'f=$(mktemp) && head -c 1000003 >$f && cat $f && rm $f'", &peer), ERR_NONE);
    cr_assert_eq(peer_send(&peer, sent, BYTES), ERR_NONE, "%s", err_message());
    cr_assert_eq(peer_receive(&peer, got, BYTES), ERR_NONE, "%s", err_message());
    cr_expect_eq(memcmp(sent, got, BYTES), 0);
    cr_expect_eq(peer_receive(&peer, got, 1), ERR_IO, "the peer sends no more bytes");
    peer_close(&peer);
    free(sent);
    free(got);
}

static int write_a(void *context)
{
    FILE *file = fopen(context, "a");
    fputc('a', file);
    return fclose(file);
}

Test(peer, turns_alternate_and_warmup_is_not_counted)
{
    char folder[PATH_MAX], path[PATH_MAX + 8], answer[PATH_MAX + 128];
    snprintf(path, sizeof path, "%s/turns", folder_make(folder));
    snprintf(answer, sizeof answer, "printf b >>%s; echo {\\\"ns\\\":4000}", path);
    struct peer peer = open_shell(answer);
    cr_assert_eq(peer_ready(&peer), ERR_NONE, "%s", err_message());
    const struct bench_work work = {.name = "a", .run = write_a, .context = path};
    const struct bench_options options = {.warmup = 2, .repeat = 3};
    struct bench_samples ours, theirs;
    cr_assert_eq(peer_alternate(&work, &peer, &options, 1, 1000, &ours, &theirs), ERR_NONE, "%s", err_message());
    peer_close(&peer);
    size_t bytes;
    char *turns = folder_read(path, &bytes);
    cr_assert_eq(bytes, 10);
    cr_expect_eq(memcmp(turns, "ababababab", 10), 0, "%.10s", turns);
    cr_assert_eq(ours.count, 3);
    cr_assert_eq(theirs.count, 3);
    for (int i = 0; i < 3; i++) {
        cr_expect_eq(theirs.values[i], 4);
        cr_expect_gt(ours.values[i], 0);
    }
    free(turns);
    folder_remove(folder);
}
