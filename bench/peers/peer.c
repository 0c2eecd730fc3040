// SPDX-License-Identifier: Apache-2.0
#include "bench/peers/peer.h"

#include "base/err.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <popt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

// Limits of the wait for an answer, and of the wait for the peer's end.
enum { SILENCE_S = 600, END_MS = 5000 };

// Where the peer's first turn takes less than this, both sides work twice in each later one.
static const double brief_ns = 2e8;

static void sleep_ms(long ms)
{
    nanosleep(&(struct timespec){ms / 1000, ms % 1000 * 1000000}, NULL);
}

void peer_pause(void)
{
    sleep_ms(20);
}

// Replaces the child process by the peer, which ends with this process.
static void become(const char **arguments, int socket, pid_t parent)
{
    dup2(socket, STDIN_FILENO);
    dup2(socket, STDOUT_FILENO);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() == parent)
        execvp(arguments[0], (char *const *)(uintptr_t)arguments);
    fprintf(stderr, "zerogauge bench peer: cannot start %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

int peer_open(const char *command, struct peer *out)
{
    int argc, ends[2];
    const char **argv = NULL;
    *out = (struct peer){.socket = -1};
    if (poptParseArgvString(command, &argc, &argv) != 0)
        return err_set(ERR_USAGE, "--beside '%s' is not a command", command);
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) {
        free(argv);
        return err_set(ERR_IO, "cannot create a socket for the peer: %s", strerror(errno));
    }
    const struct timeval silence = {.tv_sec = SILENCE_S};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &silence, sizeof silence);
    pid_t parent = getpid();
    fflush(NULL);
    out->process = fork();
    if (out->process == 0)
        become(argv, ends[1], parent);
    free(argv);
    close(ends[1]);
    out->socket = ends[0];
    out->answers = fdopen(fcntl(ends[0], F_DUPFD_CLOEXEC, 0), "r");
    if (out->process > 0 && out->answers)
        return ERR_NONE;
    peer_close(out);
    return err_set(ERR_IO, "cannot start the peer: %s", strerror(errno));
}

void peer_close(struct peer *peer)
{
    int status;
    if (peer->answers)
        fclose(peer->answers);
    if (peer->process > 0) {
        close(peer->socket);
        pid_t ended = 0;
        for (int ms = 0; ms < END_MS && ended == 0; ms += 10) {
            ended = waitpid(peer->process, &status, WNOHANG);
            if (ended == 0)
                sleep_ms(10);
        }
        if (ended == 0) {
            kill(peer->process, SIGTERM);
            sleep_ms(500);
            kill(peer->process, SIGKILL);
            waitpid(peer->process, &status, 0);
        }
    }
    *peer = (struct peer){.socket = -1};
}

int peer_receive(struct peer *peer, void *bytes, size_t count)
{
    if (fread(bytes, 1, count, peer->answers) == count)
        return ERR_NONE;
    return err_set(ERR_IO, "the peer ended before it had sent %zu bytes", count);
}

static int receive_line(struct peer *peer, json_t **answer)
{
    char *text = NULL;
    size_t room = 0;
    *answer = NULL;
    errno = 0;
    ssize_t length = getline(&text, &room, peer->answers);
    json_t *line = length > 0 ? json_loads(text, 0, NULL) : NULL;
    const char *error = json_string_value(json_object_get(line, "error"));
    int code = ERR_NONE;
    if (length <= 0)
        code = err_set(
            ERR_IO, errno == EAGAIN ? "the peer has not answered for %d s" : "the peer has ended; see its output above",
            SILENCE_S);
    else if (!json_is_object(line))
        code = err_set(ERR_IO, "the peer answered '%.200s', expected an object in JSON", text);
    else if (error)
        code = err_set(ERR_CHECK, "%s: %.800s", peer->name[0] ? peer->name : "the peer", error);
    free(text);
    if (code == ERR_NONE)
        *answer = line;
    else
        json_decref(line);
    return code;
}

// Returns the error of a peer that has closed its input: its last answer.
static int last_error(struct peer *peer)
{
    json_t *answer;
    int code = receive_line(peer, &answer);
    json_decref(answer);
    return code != ERR_NONE ? code : err_set(ERR_IO, "the peer has ended; see its output above");
}

int peer_send(struct peer *peer, const void *bytes, size_t count)
{
    for (size_t sent = 0; sent < count;) {
        ssize_t got = send(peer->socket, (const char *)bytes + sent, count - sent, MSG_NOSIGNAL);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return last_error(peer);
        sent += (size_t)got;
    }
    return ERR_NONE;
}

int peer_send_line(struct peer *peer, json_t *line)
{
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(17)) : NULL;
    json_decref(line);
    if (!text)
        return err_set(ERR_MEMORY, "no memory for a line to the peer");
    size_t length = strlen(text);
    text[length] = '\n';  // replaces the terminator
    int code = peer_send(peer, text, length + 1);
    free(text);
    return code;
}

int peer_ask(struct peer *peer, json_t *line, json_t **answer)
{
    TRY(peer_send_line(peer, line));
    return receive_line(peer, answer);
}

int peer_ready(struct peer *peer)
{
    json_t *answer;
    TRY(receive_line(peer, &answer));
    const char *name = json_string_value(json_object_get(answer, "name"));
    snprintf(peer->name, sizeof peer->name, "%s", name ? name : "");
    json_decref(answer);
    return peer->name[0] ? ERR_NONE : err_set(ERR_IO, "the peer does not report its name");
}

int peer_number(const struct peer *peer, const json_t *answer, const char *key, double *out)
{
    *out = json_number_value(json_object_get(answer, key));
    return *out > 0 ? ERR_NONE : err_set(ERR_IO, "%s: \"%s\" is not a number above 0", peer->name, key);
}

int peer_run(struct peer *peer, size_t calls, double *ns)
{
    json_t *answer;
    uint64_t begin_ns = clock_now_ns();
    TRY(peer_ask(peer, json_pack("{s:s, s:I}", "do", "run", "calls", (json_int_t)calls), &answer));
    double elapsed_ns = (double)(clock_now_ns() - begin_ns);
    int code = peer_number(peer, answer, "ns", ns);
    json_decref(answer);
    if (code == ERR_NONE && *ns > elapsed_ns)
        code = err_set(ERR_CHECK, "%s: took %.0f ns by its own clock but %.0f by ours", peer->name, *ns, elapsed_ns);
    return code;
}

// Each side works `times` times, of which the last counts.
static int take_turns(const struct bench_work *work, struct peer *peer, size_t calls, int times, uint64_t *our_ns,
                      double *their_ns)
{
    for (int i = 0; i < times; i++)
        TRY(bench_time(work, our_ns));
    peer_pause();
    for (int i = 0; i < times; i++)
        TRY(peer_run(peer, calls, their_ns));
    peer_pause();
    return ERR_NONE;
}

int peer_alternate(const struct bench_work *work, struct peer *peer, const struct bench_options *options, size_t calls,
                   double items, struct bench_samples *ours, struct bench_samples *theirs)
{
    assert(items > 0 && calls > 0 && options->repeat <= BENCH_REPEAT_MAX);
    int times = 1;
    ours->count = theirs->count = 0;
    for (size_t i = 0; i < options->warmup + options->repeat; i++) {
        uint64_t our_ns;
        double their_ns;
        bench_progress("%s, compared with %s: turn %zu of %zu", work->name, peer->name, i + 1,
                       options->warmup + options->repeat);
        TRY(take_turns(work, peer, calls, times, &our_ns, &their_ns));
        if (i == 0 && their_ns < brief_ns)
            times = 2;
        if (i < options->warmup)
            continue;
        ours->values[ours->count++] = (double)our_ns / items;
        theirs->values[theirs->count++] = their_ns / items;
    }
    return ERR_NONE;
}
