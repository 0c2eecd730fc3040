// SPDX-License-Identifier: Apache-2.0
// A process whose parent ends becomes a child of this process, the subreaper, in the same moment. So the descendants of
// a command are gone when, and only when, this process has no child left, however quickly they fork, end, and change
// their sessions.
#include "base/process/launch_internal.h"

#include "base/clock.h"
#include "base/err.h"

#include <errno.h>
#include <signal.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { GRACE_MS = 2000, GIVE_UP_MS = 10000, PAUSE_NS = 2000000 };

struct ending {
    pid_t leader;
    const struct process_list *before;
    struct process_list now;
};

// Asks every living process of the command, children or not, to end.
static int ask(struct ending *ending)
{
    TRY(process_scan(&ending->now));
    process_mark(&ending->now, ending->leader, ending->before);
    kill(-ending->leader, SIGTERM);
    for (size_t i = 0; i < ending->now.count; i++)
        if (ending->now.list[i].ours)
            kill(ending->now.list[i].pid, SIGTERM);
    return ERR_NONE;
}

// The leader is not reaped, so that its process id stays reserved.
static bool leader_has_ended(pid_t leader)
{
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)leader, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == leader;
}

// A system may lack that list; the leader, which is not reaped yet, would be in it.
static int list_children(struct ending *ending)
{
    TRY(process_children(&ending->now));
    return process_find(&ending->now, ending->leader) ? ERR_NONE : process_scan(&ending->now);
}

// Reaps the children that have ended and signals the others (signal_number 0: does not). *left counts both, because one
// that ended may have left a child after the list was made; *reaped is their first part. For the same reason the leader
// counts unless it had ended before the list was made.
static int sweep(struct ending *ending, int signal_number, size_t *left, size_t *reaped)
{
    pid_t self = getpid();
    *left = *reaped = 0;
    bool without_leader = leader_has_ended(ending->leader);
    TRY(list_children(ending));
    for (size_t i = 0; i < ending->now.count; i++) {
        pid_t pid = ending->now.list[i].pid;
        if (ending->now.list[i].parent != self || process_find(ending->before, pid))
            continue;
        bool leads = pid == ending->leader;
        if (leads && without_leader)
            continue;
        bool ended = !leads && waitpid(pid, NULL, WNOHANG) != 0;
        ++*left;
        *reaped += ended;
        if (!ended && signal_number)
            kill(pid, signal_number);
    }
    return ERR_NONE;
}

static int wait_for_none(struct ending *ending, int signal_number, unsigned limit_ms, size_t *left)
{
    uint64_t begin_ns = clock_now_ns();
    size_t reaped;
    do {
        TRY(sweep(ending, signal_number, left, &reaped));
        // While processes that fork and exit in turn end, the next one must be ended before it has forked again.
        if (*left > 0 && reaped == 0)
            nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
    } while (*left > 0 && clock_now_ns() - begin_ns < (uint64_t)limit_ms * 1000000u);
    return ERR_NONE;
}

static int end_all(struct ending *ending)
{
    size_t left, reaped;
    TRY(sweep(ending, 0, &left, &reaped));  // most commands have left nothing
    if (left > 0) {
        TRY(ask(ending));
        TRY(wait_for_none(ending, 0, GRACE_MS, &left));
    }
    if (left > 0) {
        kill(-ending->leader, SIGKILL);
        TRY(wait_for_none(ending, SIGKILL, GIVE_UP_MS, &left));
    }
    kill(-ending->leader, SIGKILL);  // others' children in its group
    return left == 0 ? ERR_NONE : err_set(ERR_IO, "%zu processes of a command cannot be killed", left);
}

int launch_end(pid_t leader, const struct process_list *before, int *status)
{
    struct ending ending = {.leader = leader, .before = before};
    int rc = end_all(&ending);
    process_list_free(&ending.now);
    if (rc == ERR_NONE)
        while (waitpid(leader, status, 0) < 0 && errno == EINTR)
            continue;
    return rc;
}
