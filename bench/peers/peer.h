// SPDX-License-Identifier: Apache-2.0
// Another implementation beside ours: a program that is started once, does the same work when it is told to, and says
// how long it took, so that both take turns. It is spoken to on its standard input and output, in lines of JSON:
//
//   its setting (an object)         it answers {"name": what it is, with its version}
//   {"do":"run","calls":N}          the work, N times; {"ns": the time of all N by its own clock}
//   what else the part asks for     peer_adam.c, peer_step.c
//
// A line that has "bytes" is followed by so many. An answer {"error": "..."} ends the benchmark. It has ended when its
// standard input has.
#ifndef ZG_PEER_H
#define ZG_PEER_H

#include "bench/harness/bench.h"

#include <stdio.h>
#include <sys/types.h>

enum { PEER_NAME_BYTES = 128 };

struct peer {
    pid_t process;
    int socket;
    FILE *answers;
    char name[PEER_NAME_BYTES];  // as it says itself
};

// Starts a command, in a shell's words but without a shell. ERR_USAGE where there is no such program.
int peer_open(const char *command, struct peer *out);
void peer_close(struct peer *peer);  // of zeros too

// Sends a line, which it takes over, or bytes.
int peer_send_line(struct peer *peer, json_t *line);
int peer_send(struct peer *peer, const void *bytes, size_t count);

// The next answer, an object to be released; or the bytes that follow one.
int peer_receive_line(struct peer *peer, json_t **answer);
int peer_receive(struct peer *peer, void *bytes, size_t count);

// Waits for the answer to the setting, and keeps the name.
int peer_ready(struct peer *peer);

// Sends a line, which it takes over, and waits for the answer.
int peer_ask(struct peer *peer, json_t *line, json_t **answer);

// The number that an answer has, above 0.
int peer_number(const struct peer *peer, const json_t *answer, const char *key, double *out);

// The work, `calls` times. It cannot have taken longer than the answer took to come.
int peer_run(struct peer *peer, size_t calls, double *ns);

// Our work and the peer's in turn, with a pause between them in which threads that wait for more work fall asleep;
// samples are nanoseconds divided by `items`.
int peer_alternate(const struct bench_work *work, struct peer *peer, const struct bench_options *options, size_t calls,
                   double items, struct bench_samples *ours, struct bench_samples *theirs);
void peer_pause(void);

#endif
