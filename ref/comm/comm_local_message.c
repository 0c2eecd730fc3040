// SPDX-License-Identifier: Apache-2.0
// Messages between ranks that are threads. A channel holds one message from one rank to another: the sender copies it
// there, and the receiver copies it out.
#include "ref/comm/comm_local.h"

#include "base/err.h"

#include <inttypes.h>
#include <linux/futex.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// A waiting rank looks this often for the failure or the departure of others, which do not wake it.
static const struct timespec look_again = {.tv_nsec = 10000000};
enum { OVERDUE_LOOKS = 100 };

void comm_local_free_channels(struct group *group)
{
    for (int i = 0; group->channels && i < group->world * group->world; i++)
        if (group->channels[i]) {
            free(group->channels[i]->memory);
            free(group->channels[i]);
        }
    free(group->channels);
}

// Sender and receiver may both be the first.
static int find_channel(struct group *group, int from, int to, struct channel **out)
{
    struct channel **place = &group->channels[from * group->world + to];
    pthread_mutex_lock(&group->meet.lock);
    if (!*place && (*place = aligned_alloc(MEET_LINE_BYTES, sizeof **place)))
        memset(*place, 0, sizeof **place);
    *out = *place;
    pthread_mutex_unlock(&group->meet.lock);
    return *out ? ERR_NONE : err_set(ERR_MEMORY, "no memory for messages from rank %d to rank %d", from, to);
}

// Waits until the channel is full, or empty. A peer that has left does not change that any more, and neither does one
// in a collective that this rank has not begun, which waits for this rank.
static int wait_for_channel(struct comm_local *local, struct channel *channel, uint32_t full, int peer,
                            const char *what)
{
    struct group *group = local->group;
    for (unsigned looks = 1;; looks++) {
        bool left = atomic_load(&group->positions[peer].left);
        uint64_t entered = atomic_load(&group->positions[peer].entered);
        TRY(meet_check(&group->meet));
        if (atomic_load(&channel->full) == full && !(left && !full))
            return ERR_NONE;
        if (left)
            meet_fail(&group->meet, ERR_PEER, "rank %d left while rank %d was in %s", peer, local->comm.rank, what);
        else if (entered > atomic_load(&group->positions[local->comm.rank].entered))
            meet_fail(&group->meet, ERR_INTERNAL,
                      "the ranks disagree about collective %" PRIu64 ": rank %d calls %s, while rank %d is in %s and "
                      "waits for it",
                      entered, peer, comm_operation_name(atomic_load(&group->positions[peer].operation)),
                      local->comm.rank, what);
        else
            syscall(SYS_futex, &channel->full, FUTEX_WAIT_PRIVATE, !full, &look_again, NULL, 0);
        if (looks % OVERDUE_LOOKS == 0)
            comm_local_overdue(local, &(struct awaited){.channel = channel, .full = full, .peer = peer});
    }
}

static int wait_until(struct comm_local *local, struct channel *channel, uint32_t full, int peer, const char *what)
{
    comm_local_used(local);
    int rc = wait_for_channel(local, channel, full, peer, what);
    comm_local_came(local);
    return rc;
}

static void change(struct channel *channel, uint32_t full)
{
    atomic_store(&channel->full, full);
    syscall(SYS_futex, &channel->full, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

int comm_local_send(struct comm *comm, const struct comm_message *message)
{
    struct comm_local *local = (struct comm_local *)comm;
    size_t bytes = message->kind.bytes;
    struct channel *channel;
    TRY(find_channel(local->group, comm->rank, message->peer, &channel));
    TRY(wait_until(local, channel, 0, message->peer, "send"));
    if (bytes > channel->room_bytes) {
        free(channel->memory);
        channel->memory = malloc(bytes);
        channel->room_bytes = channel->memory ? bytes : 0;
        if (!channel->memory)
            return err_set(ERR_MEMORY, "no memory for a message of %zu bytes", bytes);
    }
    channel->kind = message->kind;
    if (bytes > 0)
        memcpy(channel->memory, message->buffer, bytes);
    change(channel, 1);
    return ERR_NONE;
}

int comm_local_receive(struct comm *comm, const struct comm_message *message)
{
    struct comm_local *local = (struct comm_local *)comm;
    struct channel *channel;
    char text[256];
    TRY(find_channel(local->group, message->peer, comm->rank, &channel));
    TRY(wait_until(local, channel, 1, message->peer, "receive"));
    if (memcmp(&channel->kind, &message->kind, sizeof channel->kind) != 0) {
        comm_message_text(comm, message, &channel->kind, text, sizeof text);
        meet_fail(&local->group->meet, ERR_INTERNAL, "%s", text);
        return meet_check(&local->group->meet);
    }
    if (message->kind.bytes > 0)
        memcpy(message->buffer, channel->memory, message->kind.bytes);
    change(channel, 0);
    return ERR_NONE;
}
