// SPDX-License-Identifier: Apache-2.0
// What processes send over TCP is counted to the byte, and what others send is not.
#include "base/process/launch_sent.h"

#include "base/err.h"
#include "base/folder_test.h"
#include "base/process/launch.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdio.h>
#include <sys/socket.h>

// A connection within this process.
struct pair {
    int near, far;
};

static struct pair connect_to(int family, struct sockaddr *address, socklen_t bytes)
{
    int listener = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pair pair = {.near = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    cr_assert_eq(bind(listener, address, bytes), 0);
    cr_assert_eq(listen(listener, 1), 0);
    cr_assert_eq(getsockname(listener, address, &bytes), 0);
    cr_assert_eq(connect(pair.near, address, bytes), 0);
    pair.far = accept(listener, NULL, NULL);
    cr_assert_geq(pair.far, 0);
    close(listener);
    return pair;
}

static struct pair make_pair(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    return connect_to(AF_INET, (struct sockaddr *)&address, sizeof address);
}

static void close_pair(const struct pair *pair)
{
    close(pair->near);
    close(pair->far);
}

// Sends a mebibyte `count` times from one end to the other.
static void send_mebibytes(const struct pair *pair, int count)
{
    static char piece[1 << 16], received[1 << 16];
    for (int i = 0; i < 16 * count; i++) {
        cr_assert_eq(send(pair->near, piece, sizeof piece, 0), (ssize_t)sizeof piece);
        cr_assert_eq(recv(pair->far, received, sizeof received, MSG_WAITALL), (ssize_t)sizeof received);
    }
}

// Reads the counters of this process, or of no process.
static uint64_t read_counters(struct sent_counter *counter, bool ours)
{
    struct process process = {.pid = getpid(), .ours = ours};
    const struct process_list list = {.list = &process, .count = 1};
    cr_assert_eq(sent_read(counter, &list), ERR_NONE, "%s", err_message());
    return sent_bytes(counter);
}

static bool open_counter(struct sent_counter *counter)
{
    sent_open(counter);
    read_counters(counter, false);
    if (counter->fd >= 0)
        return true;
    printf("TEST SKIPPED: the kernel does not tell the counters of sockets\n");
    sent_close(counter);
    return false;
}

// The first byte of a connection's count is its opening.
static void expect_mebibytes(uint64_t bytes, uint64_t count, uint64_t sockets)
{
    cr_expect(bytes >= count << 20 && bytes <= (count << 20) + sockets, "%llu", (unsigned long long)bytes);
}

Test(launch_sent, both_directions_and_families_are_counted_to_the_byte)
{
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    struct sent_counter counter;
    if (!open_counter(&counter))
        return;
    struct pair pair = make_pair(), turned = {.near = pair.far, .far = pair.near};
    send_mebibytes(&pair, 8);
    expect_mebibytes(read_counters(&counter, true), 8, 2);
    send_mebibytes(&turned, 3);
    expect_mebibytes(read_counters(&counter, true), 11, 2);
    int probe = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (probe >= 0 && bind(probe, (const struct sockaddr *)&address, sizeof address) == 0) {
        struct pair other = connect_to(AF_INET6, (struct sockaddr *)&address, sizeof address);
        send_mebibytes(&other, 2);
        expect_mebibytes(read_counters(&counter, true), 13, 4);
        close_pair(&other);
    }
    close(probe);
    close_pair(&pair);
    sent_close(&counter);
}

Test(launch_sent, a_closed_socket_keeps_its_count)
{
    struct sent_counter counter;
    if (!open_counter(&counter))
        return;
    struct pair first = make_pair();
    send_mebibytes(&first, 2);
    read_counters(&counter, true);
    close_pair(&first);
    struct pair second = make_pair();
    send_mebibytes(&second, 1);
    expect_mebibytes(read_counters(&counter, true), 3, 4);
    close_pair(&second);
    sent_close(&counter);
}

Test(launch_sent, what_others_send_is_not_counted)
{
    struct sent_counter counter;
    if (!open_counter(&counter))
        return;
    struct pair pair = make_pair();
    send_mebibytes(&pair, 1);
    cr_expect_eq(read_counters(&counter, false), 0);
    close_pair(&pair);
    sent_close(&counter);
}

// Ends the command once what it sent has been seen, or immediately where nothing is counted.
struct watch {
    struct launch_result result;
    char stop[PATH_MAX + 16];
    bool counts;
};

static void stop_when_seen(void *context, double seconds)
{
    struct watch *watch = context;
    if (!watch->counts || watch->result.sent_bytes >= 1 << 20 || seconds > 100)
        folder_write(watch->stop, "", 0);
}

// A command's child sends a mebibyte to its parent, and both keep their sockets until they shall end.
Test(launch_sent, a_command_is_counted_where_it_is_asked_for)
{
    char folder[PATH_MAX], output[PATH_MAX + 16], text[512];
    struct sent_counter counter;
    if (!open_counter(&counter))
        return;
    sent_close(&counter);
    folder_make(folder);
    snprintf(output, sizeof output, "%s/output", folder);
    for (int counts = 0; counts < 2; counts++) {
        struct watch watch = {.counts = counts};
        snprintf(watch.stop, sizeof watch.stop, "%s/stop-%d", folder, counts);
        const char *const argv[] = {"python3", "-c",
                                    "import os, socket, sys, time\n"
                                    "a, b = socket.socket(), socket.socket()\n"
                                    "a.bind(('127.0.0.1', 0)); a.listen(1)\n"
                                    "if os.fork() == 0:\n"
                                    "    b.connect(a.getsockname()); b.sendall(bytes(1 << 20))\n"
                                    "    while not os.path.exists(sys.argv[1]): time.sleep(0.01)\n"
                                    "    os._exit(0)\n"
                                    "c, _ = a.accept(); c.recv(1 << 20, socket.MSG_WAITALL); os.wait()\n",
                                    watch.stop, NULL};
        const struct launch_setting setting = {.argv = argv,
                                               .output_path = output,
                                               .time_limit_s = 120,
                                               .counts_sent = counts,
                                               .tick = stop_when_seen,
                                               .tick_context = &watch};
        unlink(output);
        cr_assert_eq(launch(&setting, &watch.result), ERR_NONE, "%s", err_message());
        cr_assert(watch.result.end == LAUNCH_EXITED && watch.result.status == 0, "%s: %s", watch.result.text,
                  launch_tail(output, text, sizeof text));
        cr_assert_eq(watch.result.sent_is_known, counts);
        expect_mebibytes(watch.result.sent_bytes, (uint64_t)counts, counts ? 3 : 0);
    }
    folder_remove(folder);
}
