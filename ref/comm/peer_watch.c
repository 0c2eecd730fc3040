// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/peer_watch.h"

#include "base/err.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CONNECT_LIMIT_MS = 1000, GOODBYE = 'b', BEAT = 'h' };

// The system ends a connection whose bytes were not acknowledged for VANISHED_MS, as where a host or its link is gone.
enum { VANISHED_MS = 11000, SILENT_S = 30 };

// Protects the links of this process's worlds: threads that wait poll them while another one sends.
static pthread_mutex_t links_lock = PTHREAD_MUTEX_INITIALIZER;

static struct sockaddr_in address_of(uint32_t address, uint16_t port)
{
    return (struct sockaddr_in){.sin_family = AF_INET, .sin_port = port, .sin_addr.s_addr = address};
}

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

// Lists the IPv4 addresses of this host, except loopback.
static void find_addresses(struct peer_watch_card *card)
{
    struct ifaddrs *list;
    if (getifaddrs(&list) != 0)
        return;
    for (const struct ifaddrs *i = list; i && card->address_count < PEER_WATCH_ADDRESSES_MAX; i = i->ifa_next) {
        struct sockaddr_in address;
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET)
            continue;
        memcpy(&address, i->ifa_addr, sizeof address);
        if (ntohl(address.sin_addr.s_addr) >> 24 != 127)
            card->addresses[card->address_count++] = address.sin_addr.s_addr;
    }
    freeifaddrs(list);
}

// Listens at a free port. The card keeps port 0 if this rank is not reachable.
static int start_listening(struct peer_watch_card *card)
{
    struct sockaddr_in own = address_of(htonl(INADDR_ANY), 0);
    socklen_t length = sizeof own;
    *card = (struct peer_watch_card){.process = (int32_t)getpid()};
    gethostname(card->host, sizeof card->host - 1);
    find_addresses(card);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&own, sizeof own) != 0 || listen(fd, 8) != 0 ||
        getsockname(fd, (struct sockaddr *)&own, &length) != 0 ||
        getrandom(&card->token, sizeof card->token, 0) != sizeof card->token)
        close_fd(&fd);
    else
        card->port = own.sin_port;
    return fd;
}

static bool has_address(const struct peer_watch_card *card, uint32_t address)
{
    for (int i = 0; i < card->address_count; i++)
        if (card->addresses[i] == address)
            return true;
    return false;
}

// Addresses that both hosts have, such as those of virtual switches, lead to the own host and are left out. If both
// ranks run on one host, loopback is the only candidate.
static int candidates(const struct peer_watch_card *own, const struct peer_watch_card *other,
                      uint32_t out[PEER_WATCH_ADDRESSES_MAX])
{
    bool same_host = strcmp(own->host, other->host) == 0 && own->address_count == other->address_count;
    int count = 0;
    for (int i = 0; i < other->address_count; i++) {
        same_host &= has_address(own, other->addresses[i]);
        if (!has_address(own, other->addresses[i]))
            out[count++] = other->addresses[i];
    }
    if (same_host)
        out[count++] = htonl(INADDR_LOOPBACK);
    return count;
}

// Tries all addresses together and returns the first connection that succeeds, or -1.
static int connect_any(const uint32_t addresses[], int count, uint16_t port)
{
    struct pollfd tries[PEER_WATCH_ADDRESSES_MAX];
    int found = -1;
    for (int i = 0; i < count; i++) {
        struct sockaddr_in address = address_of(addresses[i], port);
        tries[i] = (struct pollfd){socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), POLLOUT, 0};
        if (connect(tries[i].fd, (const struct sockaddr *)&address, sizeof address) != 0 && errno != EINPROGRESS)
            close_fd(&tries[i].fd);
    }
    for (int open = count; open > 0 && found < 0;) {
        if (poll(tries, (nfds_t)count, CONNECT_LIMIT_MS) <= 0)
            break;
        open = 0;
        for (int i = 0; i < count; i++) {
            int error = 0;
            socklen_t length = sizeof error;
            bool ready = tries[i].fd >= 0 && tries[i].revents != 0;
            if (ready && (getsockopt(tries[i].fd, SOL_SOCKET, SO_ERROR, &error, &length) != 0 || error != 0))
                close_fd(&tries[i].fd);
            else if (ready && found < 0)
                found = i;
            open += tries[i].fd >= 0;
        }
    }
    int fd = found >= 0 ? tries[found].fd : -1;
    for (int i = 0; i < count; i++)
        if (i != found)
            close_fd(&tries[i].fd);
    return fd;
}

static bool receive_token(int fd, uint64_t *out)
{
    struct pollfd wait = {fd, POLLIN, 0};
    return poll(&wait, 1, CONNECT_LIMIT_MS) == 1 && recv(fd, out, sizeof *out, MSG_WAITALL) == sizeof *out;
}

static bool send_token(int fd, uint64_t token)
{
    return send(fd, &token, sizeof token, MSG_NOSIGNAL) == sizeof token;
}

// Accepts the connection of a peer that sends this rank's token, and answers with the token's complement.
static int accept_before(int listener, uint64_t token)
{
    struct pollfd wait = {listener, POLLIN, 0};
    while (poll(&wait, 1, CONNECT_LIMIT_MS) == 1) {
        uint64_t shown = 0;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd >= 0 && receive_token(fd, &shown) && shown == token && send_token(fd, ~token))
            return fd;
        close_fd(&fd);
    }
    return -1;
}

static void limit_unanswered(int fd)
{
    const unsigned limit_ms = VANISHED_MS;
    if (fd >= 0)
        setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &limit_ms, sizeof limit_ms);
}

// Each rank connects to the next one, whose system answers before the rank does, and then accepts the connection of the
// rank before, if that one has connected.
static int join(MPI_Comm world, struct peer_watch *watch, int listener, const struct peer_watch_card *own)
{
    uint32_t addresses[PEER_WATCH_ADDRESSES_MAX];
    struct peer_watch_link *next = &watch->next, *before = &watch->before;
    TRY(comm_mpi_code(MPI_Sendrecv(own, sizeof *own, MPI_BYTE, before->rank, 0, &next->card, sizeof next->card,
                                   MPI_BYTE, next->rank, 0, world, MPI_STATUS_IGNORE),
                      "MPI_Sendrecv"));
    TRY(comm_mpi_code(MPI_Sendrecv(own, sizeof *own, MPI_BYTE, next->rank, 1, &before->card, sizeof before->card,
                                   MPI_BYTE, before->rank, 1, world, MPI_STATUS_IGNORE),
                      "MPI_Sendrecv"));
    int count = next->card.port ? candidates(own, &next->card, addresses) : 0;
    next->fd = connect_any(addresses, count, next->card.port);
    if (next->fd >= 0 && !send_token(next->fd, next->card.token))
        close_fd(&next->fd);
    int made = next->fd >= 0, comes = 0;
    TRY(comm_mpi_code(
        MPI_Sendrecv(&made, 1, MPI_INT, next->rank, 2, &comes, 1, MPI_INT, before->rank, 2, world, MPI_STATUS_IGNORE),
        "MPI_Sendrecv"));
    if (comes && listener >= 0)
        before->fd = accept_before(listener, own->token);
    uint64_t answer = 0;
    if (made && (!receive_token(next->fd, &answer) || answer != ~next->card.token))
        close_fd(&next->fd);
    limit_unanswered(next->fd);
    limit_unanswered(before->fd);
    return ERR_NONE;
}

// Sends a byte a second to both neighbours. A full buffer, of a neighbour that does not read, takes none.
static void *beat(void *context)
{
    struct peer_watch *watch = context;
    struct peer_watch_link *both[] = {&watch->next, &watch->before};
    for (unsigned tenths = 0; !atomic_load(&watch->ends); tenths++) {
        const char word = BEAT;
        pthread_mutex_lock(&links_lock);
        for (int i = 0; i < 2 && tenths % 10 == 0; i++)
            if (both[i]->fd >= 0) {
                send(both[i]->fd, &word, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
                both[i]->silent_s++;
            }
        pthread_mutex_unlock(&links_lock);
        nanosleep(&(struct timespec){.tv_nsec = 100000000}, NULL);
    }
    return NULL;
}

// Without the thread only deaths are noticed, and this process would seem to hang: a neighbour judges silence only
// after it has received a byte.
static int start_beating(struct peer_watch *watch)
{
    sigset_t all, kept;
    char rest;
    const char *limit_s = getenv("ZG_HANG_S");
    watch->silent_max_s = SILENT_S;
    if (limit_s && (sscanf(limit_s, "%d%c", &watch->silent_max_s, &rest) != 1 || watch->silent_max_s < 0))
        return err_set(ERR_USAGE, "ZG_HANG_S=%.20s: expected whole seconds, or 0 for no limit", limit_s);
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &kept);
    watch->beats = pthread_create(&watch->beat, NULL, beat, watch) == 0;
    pthread_sigmask(SIG_SETMASK, &kept, NULL);
    return ERR_NONE;
}

int peer_watch_open(MPI_Comm world, struct peer_watch *out)
{
    int rank, size;
    MPI_Comm_rank(world, &rank);
    MPI_Comm_size(world, &size);
    *out = (struct peer_watch){.next = {.rank = (rank + 1) % size, .fd = -1},
                               .before = {.rank = (rank + size - 1) % size, .fd = -1}};
    if (size == 1)
        return ERR_NONE;
    struct peer_watch_card own;
    int listener = start_listening(&own), rc = join(world, out, listener, &own);
    close_fd(&listener);
    return rc == ERR_NONE ? start_beating(out) : rc;
}

// Says what is wrong at the other end; null: nothing.
static const char *fate_of(struct peer_watch_link *link, int silent_max_s)
{
    char words[64];
    ssize_t got = -1;
    while (link->fd >= 0 && ((got = recv(link->fd, words, sizeof words, MSG_DONTWAIT)) > 0 || (got && errno == EINTR)))
        if (got > 0) {
            link->heard = true;
            link->silent_s = 0;
            if (words[got - 1] == GOODBYE)
                close_fd(&link->fd);
        }
    if (link->fd < 0)
        return NULL;
    bool lives = got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK);
    bool hangs = lives && link->heard && silent_max_s > 0 && link->silent_s > silent_max_s;
    if (lives && !hangs)
        return NULL;
    close_fd(&link->fd);
    return hangs ? "gives no sign of life: its host hangs, or the process is stopped"
                 : "has died: it was killed, or crashed";
}

int peer_watch_poll(struct peer_watch *watch, char *text, size_t text_bytes)
{
    struct peer_watch_link *both[] = {&watch->next, &watch->before};
    int rank = -1;
    pthread_mutex_lock(&links_lock);
    for (int i = 0; i < 2 && rank < 0; i++) {
        const char *fate = fate_of(both[i], watch->silent_max_s);
        rank = fate ? both[i]->rank : -1;
        if (fate)
            snprintf(text, text_bytes, "rank %d (host %s, process %d) %s", rank, both[i]->card.host,
                     (int)both[i]->card.process, fate);
    }
    pthread_mutex_unlock(&links_lock);
    return rank;
}

void peer_watch_close(struct peer_watch *watch)
{
    struct peer_watch_link *both[] = {&watch->next, &watch->before};
    atomic_store(&watch->ends, true);
    if (watch->beats)
        pthread_join(watch->beat, NULL);
    watch->beats = false;
    for (int i = 0; i < 2; i++) {
        const char word = GOODBYE;
        if (both[i]->fd >= 0)
            send(both[i]->fd, &word, 1, MSG_NOSIGNAL);
        close_fd(&both[i]->fd);
    }
}
