// SPDX-License-Identifier: Apache-2.0
// A peer: a program with another implementation, started once, that does the same work on request and reports its time,
// so that both sides take turns. Requests reach its standard input, and answers its standard output, each a line of
// JSON:
//
//   its setting (an object)         answer: {"name": implementation and version}
//   {"do":"run","calls":N}          does the work N times; answer: {"ns": total time by its own clock}
//   further requests of a part      see peer_adam.c, peer_nvme.c and peer_step.c
//
// A line with the key "bytes" is followed by that number of bytes. An answer {"error": "..."} ends the benchmark. The
// peer exits at the end of its standard input.
#pragma once

#include "bench/harness/bench.h"

#include <stdio.h>
#include <sys/types.h>

enum { PEER_NAME_BYTES = 128 };

struct peer {
    pid_t process;
    int socket;
    FILE *answers;
    char name[PEER_NAME_BYTES];  // as the peer reports it; "" before peer_ready
};

// Starts a command, split into words as a shell does but run without a shell. ERR_USAGE: it has no words or unbalanced
// quotes. A program that cannot be started fails at the next answer. The caller closes the peer; closing a zeroed
// struct is safe.
int peer_open(const char *command, struct peer *out);
void peer_close(struct peer *peer);

// Send a line, taking ownership of it, or bytes. If the peer has ended, return the error of its last answer.
int peer_send_line(struct peer *peer, json_t *line);
int peer_send(struct peer *peer, const void *bytes, size_t count);

// Receives the bytes that follow an answer. ERR_IO: the peer ended before.
int peer_receive(struct peer *peer, void *bytes, size_t count);

// Waits for the answer to the setting and keeps the peer's name.
int peer_ready(struct peer *peer);

// Sends a line, taking ownership of it, and waits for the answer, an object that the caller releases.
int peer_ask(struct peer *peer, json_t *line, json_t **answer);

// Reads a number above 0 from an answer. ERR_IO: it has none.
int peer_number(const struct peer *peer, const json_t *answer, const char *key, double *out);

// Has the peer do its work `calls` times. ERR_CHECK: it reports more time than passed here.
int peer_run(struct peer *peer, size_t calls, double *ns);

// Runs our work and the peer's in turn, with pauses in which idle worker threads fall asleep; short work runs twice in
// a turn, and only the second time counts, with its own caches, pages and threads warm. Samples are nanoseconds divided
// by `items`, above 0.
int peer_alternate(const struct bench_work *work, struct peer *peer, const struct bench_options *options, size_t calls,
                   double items, struct bench_samples *ours, struct bench_samples *theirs);
void peer_pause(void);
