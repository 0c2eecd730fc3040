// SPDX-License-Identifier: Apache-2.0
#include "conformance/run/check_ranks.h"

#include "base/err.h"
#include "conformance/reference/reference.h"

#include <stdio.h>
#include <unistd.h>

// The message of rank 0 to the others about a launch; empty `cases`: no more launches.
struct launch_words {
    char cases[PATH_MAX], answers[PATH_MAX], state[PATH_MAX];
};

static int answer(const struct check_ranks *ranks, const struct launch_words *words)
{
    const struct reference_options options = {
        .clip_form = CLIP_TORCH, .comm = ranks->comm, .interrupted = ranks->interrupted};
    if (access(words->cases, R_OK) != 0)
        return err_set(ERR_USAGE,
                       "%s: is not seen by the host of rank %d: give --out FOLDER, on a file system that "
                       "all hosts see",
                       words->cases, comm_rank(ranks->comm));
    return reference_answer_all(&options, words->cases, words->answers, comm_world(ranks->comm), words->state, false);
}

int check_ranks_answer(void *context, const struct check_words *words)
{
    const struct check_ranks *ranks = context;
    struct launch_words agreed = {0};
    snprintf(agreed.cases, sizeof agreed.cases, "%s", words->cases);
    snprintf(agreed.answers, sizeof agreed.answers, "%s", words->answers);
    snprintf(agreed.state, sizeof agreed.state, "%s", words->state);
    TRY(comm_broadcast(ranks->comm, &agreed, sizeof agreed, 0));
    TRY(answer(ranks, &agreed));
    // After the barrier the files of all ranks are written.
    return comm_barrier(ranks->comm);
}

int check_ranks_end(const struct check_ranks *ranks)
{
    struct launch_words none = {0};
    return comm_broadcast(ranks->comm, &none, sizeof none, 0);
}

int check_ranks_follow(const struct check_ranks *ranks)
{
    for (;;) {
        struct launch_words words;
        TRY(comm_broadcast(ranks->comm, &words, sizeof words, 0));
        if (!words.cases[0])
            return ERR_NONE;
        TRY(answer(ranks, &words));
        TRY(comm_barrier(ranks->comm));
    }
}
