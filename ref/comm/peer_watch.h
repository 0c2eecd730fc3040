// SPDX-License-Identifier: Apache-2.0
// How a rank that is a process learns at once that another one has died, whichever launcher started them: the ranks are
// a ring of TCP connections that carry nothing. The system closes a process's connections however it ends; one that
// ends in order says goodbye first. A host that vanishes is noticed by TCP's own probes.
#ifndef ZG_WIRE_H
#define ZG_WIRE_H

#include <mpi.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { PEER_WATCH_HOST_BYTES = 65, PEER_WATCH_ADDRESSES_MAX = 16 };

// What a rank tells the one before it, so that it is found.
struct peer_watch_card {
    uint64_t token;  // whoever connects shows it
    int32_t process, address_count;
    uint32_t addresses[PEER_WATCH_ADDRESSES_MAX];  // IPv4, in network order
    uint16_t port;                                 // the same
    char host[PEER_WATCH_HOST_BYTES];
};

struct peer_watch_link {
    int rank;  // at the other end
    int fd;    // -1: no connection, or it has ended
    struct peer_watch_card card;
};

struct peer_watch {
    struct peer_watch_link next, before;
};

// All ranks of `world` call it together. A neighbour that cannot be reached by IPv4 is not watched: that is no error,
// and the launcher still is. ERR_IO: MPI fails.
int peer_watch_open(MPI_Comm world, struct peer_watch *out);

// The rank of a neighbour that has died since the last call, and a text that names it; -1: none.
int peer_watch_poll(struct peer_watch *watch, char *text, size_t text_bytes);

// Says goodbye. May be called again, and after an error of peer_watch_open.
void peer_watch_close(struct peer_watch *watch);

#endif
