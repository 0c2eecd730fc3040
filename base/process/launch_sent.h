// SPDX-License-Identifier: Apache-2.0
// What a running command's processes send over TCP, by the kernel's counter of each socket, which is open without
// privileges (sock_diag(7)). Shared memory and Unix sockets have no counters.
#pragma once

#include "base/process/launch_watch.h"

struct sent_socket {
    uint64_t cookie;  // of the kernel: no two sockets share one
    uint64_t bytes;   // that the other end has acknowledged
};

struct sent_counter {
    int fd;  // -1: the kernel does not tell
    struct sent_socket *list;
    size_t count, room;
    uint32_t *inodes;  // of the processes' sockets, ascending
    size_t inode_count, inode_room;
};

// Opens a counter for the sockets of this network namespace.
void sent_open(struct sent_counter *out);
void sent_close(struct sent_counter *counter);

// Reads the counters of all sockets that the marked processes hold, or have held at an earlier call; they must not
// run in another namespace. ERR_MEMORY. Where the kernel does not tell, counter->fd becomes -1.
int sent_read(struct sent_counter *counter, const struct process_list *list);

// The sum over all sockets: a lower bound, as a closed one keeps what was last read.
uint64_t sent_bytes(const struct sent_counter *counter);
