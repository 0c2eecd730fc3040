// SPDX-License-Identifier: Apache-2.0
#include "base/process/launch_sent.h"

#include "base/array.h"
#include "base/err.h"

#include <dirent.h>
#include <linux/inet_diag.h>
#include <linux/netlink.h>
#include <linux/sock_diag.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

// A dump arrives in pieces of at most this size.
enum { PIECE_BYTES = 1 << 15 };

struct request {
    struct nlmsghdr header;
    struct inet_diag_req_v2 body;
};

void sent_open(struct sent_counter *out)
{
    *out = (struct sent_counter){.fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_SOCK_DIAG)};
    // A kernel that does not answer must not stop the watch.
    const struct timeval limit = {.tv_sec = 1};
    if (out->fd >= 0)
        setsockopt(out->fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
}

static void stop(struct sent_counter *counter)
{
    if (counter->fd >= 0)
        close(counter->fd);
    counter->fd = -1;
}

void sent_close(struct sent_counter *counter)
{
    stop(counter);
    free(counter->list);
    free(counter->inodes);
    *counter = (struct sent_counter){.fd = -1};
}

// The sockets among the open files of a process: links to "socket:[INODE]".
static int add_inodes(struct sent_counter *counter, pid_t pid)
{
    char path[64], target[64];
    int rc = ERR_NONE;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)pid);
    DIR *files = opendir(path);
    if (!files)
        return ERR_NONE;  // it has ended, or is another user's
    for (struct dirent *entry; rc == ERR_NONE && (entry = readdir(files));) {
        unsigned inode;
        ssize_t length = readlinkat(dirfd(files), entry->d_name, target, sizeof target - 1);
        target[length > 0 ? length : 0] = '\0';
        if (sscanf(target, "socket:[%u]", &inode) != 1)
            continue;
        rc = array_grow(&counter->inodes, &counter->inode_room, counter->inode_count, sizeof *counter->inodes,
                        "sockets");
        if (rc == ERR_NONE)
            counter->inodes[counter->inode_count++] = inode;
    }
    closedir(files);
    return rc;
}

static int compare_inodes(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return (x > y) - (x < y);
}

static int find_inodes(struct sent_counter *counter, const struct process_list *list)
{
    counter->inode_count = 0;
    for (size_t i = 0; i < list->count; i++)
        if (list->list[i].ours)
            TRY(add_inodes(counter, list->list[i].pid));
    if (counter->inode_count > 0)
        qsort(counter->inodes, counter->inode_count, sizeof *counter->inodes, compare_inodes);
    return ERR_NONE;
}

static bool is_held(const struct sent_counter *counter, uint32_t inode)
{
    return counter->inode_count > 0 &&
           bsearch(&inode, counter->inodes, counter->inode_count, sizeof inode, compare_inodes);
}

// Notes a socket that the processes hold, or held: a closed one goes on until all is acknowledged.
static int note(struct sent_counter *counter, const struct inet_diag_msg *message, uint64_t bytes)
{
    uint64_t cookie = (uint64_t)message->id.idiag_cookie[1] << 32 | message->id.idiag_cookie[0];
    size_t i = 0;
    while (i < counter->count && counter->list[i].cookie != cookie)
        i++;
    if (i == counter->count && !is_held(counter, message->idiag_inode))
        return ERR_NONE;
    if (i == counter->count) {
        TRY(array_grow(&counter->list, &counter->room, counter->count, sizeof *counter->list, "sockets"));
        counter->list[counter->count++] = (struct sent_socket){.cookie = cookie};
    }
    if (bytes > counter->list[i].bytes)
        counter->list[i].bytes = bytes;
    return ERR_NONE;
}

// The bytes that were acknowledged; 0: a kernel of before 4.1 does not count them.
static uint64_t acknowledged_bytes(const struct nlmsghdr *header)
{
    const size_t begin = NLMSG_ALIGN(sizeof(struct inet_diag_msg));
    const char *at = (const char *)NLMSG_DATA(header) + begin, *end = (const char *)header + header->nlmsg_len;
    struct nlattr attribute;
    struct tcp_info info = {0};
    for (; end - at >= (ptrdiff_t)sizeof attribute; at += NLA_ALIGN(attribute.nla_len)) {
        memcpy(&attribute, at, sizeof attribute);
        if (attribute.nla_len < sizeof attribute || attribute.nla_len > end - at)
            return 0;
        size_t bytes = attribute.nla_len - sizeof attribute;
        if (attribute.nla_type == INET_DIAG_INFO) {
            memcpy(&info, at + sizeof attribute, bytes < sizeof info ? bytes : sizeof info);
            return info.tcpi_bytes_acked;
        }
    }
    return 0;
}

// Reads one dump to its end. *refused: the kernel has no such sockets.
static int read_dump(struct sent_counter *counter, bool *refused)
{
    _Alignas(struct nlmsghdr) char piece[PIECE_BYTES];
    for (;;) {
        ssize_t got = recv(counter->fd, piece, sizeof piece, 0);
        if (got <= 0) {
            stop(counter);
            return ERR_NONE;
        }
        const struct nlmsghdr *header = (const struct nlmsghdr *)piece;
        for (size_t left = (size_t)got; NLMSG_OK(header, left); header = NLMSG_NEXT(header, left)) {
            *refused = header->nlmsg_type == NLMSG_ERROR;
            if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR)
                return ERR_NONE;
            if (header->nlmsg_type == SOCK_DIAG_BY_FAMILY && NLMSG_PAYLOAD(header, 0) >= sizeof(struct inet_diag_msg))
                TRY(note(counter, NLMSG_DATA(header), acknowledged_bytes(header)));
        }
    }
}

static int dump(struct sent_counter *counter, unsigned char family)
{
    const struct request request = {
        .header = {.nlmsg_len = sizeof request,
                   .nlmsg_type = SOCK_DIAG_BY_FAMILY,
                   .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP},
        .body = {.sdiag_family = family,
                 .sdiag_protocol = IPPROTO_TCP,
                 .idiag_ext = 1 << (INET_DIAG_INFO - 1),
                 .idiag_states = ~0u},
    };
    bool refused = send(counter->fd, &request, sizeof request, 0) != sizeof request;
    if (!refused)
        TRY(read_dump(counter, &refused));
    // Without IPv6 the other family is all there is.
    if (refused && family == AF_INET)
        stop(counter);
    return ERR_NONE;
}

int sent_read(struct sent_counter *counter, const struct process_list *list)
{
    static const unsigned char families[] = {AF_INET, AF_INET6};
    if (counter->fd >= 0)
        TRY(find_inodes(counter, list));
    for (size_t i = 0; i < sizeof families && counter->fd >= 0; i++)
        TRY(dump(counter, families[i]));
    return ERR_NONE;
}

uint64_t sent_bytes(const struct sent_counter *counter)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < counter->count; i++)
        sum += counter->list[i].bytes;
    return sum;
}
