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

enum { WIRE_HOST_BYTES = 65, WIRE_ADDRESSES_MAX = 16 };

// What a rank tells the one before it, so that it is found.
struct wire_card {
    uint64_t token;  // whoever connects shows it
    int32_t process, address_count;
    uint32_t addresses[WIRE_ADDRESSES_MAX];  // IPv4, in network order
    uint16_t port;                           // the same
    char host[WIRE_HOST_BYTES];
};

struct wire {
    int rank;  // at the other end
    int fd;    // -1: no connection, or it has ended
    struct wire_card card;
};

struct wires {
    struct wire next, before;
};

// All ranks of `world` call it together. A neighbour that cannot be reached by IPv4 is not watched: that is no error,
// and the launcher still is. ERR_IO: MPI fails.
int wires_open(MPI_Comm world, struct wires *out);

// The rank of a neighbour that has died since the last call, and a text that names it; -1: none.
int wires_look(struct wires *wires, char *text, size_t text_bytes);

// Says goodbye. May be called again, and after an error of wires_open.
void wires_close(struct wires *wires);

#endif
