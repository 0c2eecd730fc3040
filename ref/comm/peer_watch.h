// SPDX-License-Identifier: Apache-2.0
// Detects the death of a neighbouring rank immediately, by any launcher. The ranks form a ring of idle TCP connections;
// the system closes a process's connections however it ends, and a process that ends in order says goodbye first. TCP's
// timeouts detect a host that vanishes. A thread of each process sends a byte a second: of a process that is stopped,
// or whose host hangs, the connection stays and the bytes cease.
#pragma once

#include "base/err.h"

#include <mpi.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Converts the result of an MPI call to an error of this program; `call` names the call in the message.
static inline int comm_mpi_code(int mpi_result, const char *call)
{
    if (mpi_result == MPI_SUCCESS)
        return ERR_NONE;
    char text[MPI_MAX_ERROR_STRING] = "";
    int length;
    MPI_Error_string(mpi_result, text, &length);
    return err_set(ERR_IO, "MPI: %s: %s", call, text);
}

enum { PEER_WATCH_HOST_BYTES = 65, PEER_WATCH_ADDRESSES_MAX = 16 };

// The contact details that a rank sends to the rank before it.
struct peer_watch_card {
    uint64_t token;  // the connecting rank sends it
    int32_t process, address_count;
    uint32_t addresses[PEER_WATCH_ADDRESSES_MAX];  // IPv4, in network order
    uint16_t port;                                 // in network order; 0: not reachable
    char host[PEER_WATCH_HOST_BYTES];
};

struct peer_watch_link {
    int rank;      // at the other end
    int fd;        // -1: no connection, or it was closed
    bool heard;    // a byte was received
    int silent_s;  // of this process's own seconds, in which it was not stopped itself, since a byte was received
    struct peer_watch_card card;
};

struct peer_watch {
    struct peer_watch_link next, before;
    bool beats;  // the thread runs
    pthread_t beat;
    atomic_bool ends;  // it is to end
    int silent_max_s;  // 0: silence means nothing
};

// Collective over `world`. A neighbour that is not reachable by IPv4 is not watched, which is no error: the launcher
// still notices its death. A neighbour may be silent for 30 s, or for the seconds in the environment's ZG_HANG_S; 0, as
// for debuggers, which stop a process: for ever. ERR_USAGE: ZG_HANG_S is no such number. ERR_IO: MPI failed.
int peer_watch_open(MPI_Comm world, struct peer_watch *out);

// Returns the rank of a neighbour that has died or hangs, once, and a text that names it; -1: none.
int peer_watch_poll(struct peer_watch *watch, char *text, size_t text_bytes);

// Says goodbye and closes the connections. Repeated calls are allowed, also after an error of peer_watch_open.
void peer_watch_close(struct peer_watch *watch);
