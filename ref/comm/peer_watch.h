// SPDX-License-Identifier: Apache-2.0
// Detects the death of a neighbouring rank immediately, by any launcher. The ranks form a ring of idle TCP connections;
// the system closes a process's connections however it ends, and a process that ends in order says goodbye first. TCP's
// keepalive probes detect a host that vanishes.
#pragma once

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Converts the result of an MPI call to an error of this program; `call` names the call in the message.
int comm_mpi_code(int mpi_result, const char *call);

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
    int rank;  // at the other end
    int fd;    // -1: no connection, or it was closed
    struct peer_watch_card card;
};

struct peer_watch {
    struct peer_watch_link next, before;
};

// Collective over `world`. A neighbour that is not reachable by IPv4 is not watched, which is no error: the launcher
// still notices its death. ERR_IO: MPI failed.
int peer_watch_open(MPI_Comm world, struct peer_watch *out);

// Returns the rank of a neighbour that has died since the last call and a text that names it; -1: none.
int peer_watch_poll(struct peer_watch *watch, char *text, size_t text_bytes);

// Says goodbye and closes the connections. Repeated calls are allowed, also after an error of peer_watch_open.
void peer_watch_close(struct peer_watch *watch);
