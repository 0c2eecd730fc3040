// SPDX-License-Identifier: Apache-2.0
// Waits for MPI requests while watching for the failure of a rank.
#include "ref/comm/comm_mpi.h"

#include "base/clock.h"
#include "base/err.h"

#include <sched.h>
#include <stdio.h>
#include <time.h>

// A rank that waits this long looks for ranks that wait for it, and so does it again.
static const uint64_t patience_ns = 1000000000u;

// Between two looks for notices and deaths where a wait sleeps: each asks MPI to go through all its connections.
static const uint64_t look_ns = 10000000u;

// A wait yields for so long, and then sleeps for this part of its time so far, within limits. Where many ranks share a
// processor, the first yields take all of that time, and waits of seconds leave the processor to those that work.
enum { YIELD_NS = 1000000, SLEEP_PART = 64, SLEEP_LEAST_NS = 50000, SLEEP_MOST_NS = 10000000 };

// The death of a rank may become known this long after a failed transfer.
static const uint64_t explain_limit_ns = 500000000u;

bool comm_mpi_pause(uint64_t begin_ns)
{
    uint64_t waited_ns = clock_now_ns() - begin_ns, sleep_ns = waited_ns / SLEEP_PART;
    if (waited_ns < YIELD_NS) {
        sched_yield();
        return false;
    }
    sleep_ns = sleep_ns < SLEEP_LEAST_NS ? SLEEP_LEAST_NS : sleep_ns > SLEEP_MOST_NS ? SLEEP_MOST_NS : sleep_ns;
    nanosleep(&(struct timespec){.tv_nsec = (long)sleep_ns}, NULL);
    return true;
}

void comm_mpi_cancel(MPI_Request requests[], int count)
{
    for (int i = 0; i < count; i++)
        if (requests[i] != MPI_REQUEST_NULL) {
            MPI_Cancel(&requests[i]);
            MPI_Request_free(&requests[i]);
        }
}

// Waits for the reason of a failed transfer. Most often a rank has died, and MPI notices that before this rank does.
static int explain_transfer(struct comm_mpi *mpi)
{
    char message[512];
    snprintf(message, sizeof message, "%s", err_message());
    uint64_t limit = clock_now_ns() + explain_limit_ns;
    while (atomic_load(&mpi->failed) == ERR_NONE && clock_now_ns() < limit) {
        comm_mpi_take_notices(mpi);
        comm_mpi_find_deaths(mpi);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    comm_mpi_fail_everywhere(mpi, ERR_PEER, message);
    return comm_mpi_check(mpi);
}

// Waits for the requests while watching for failures. After a failure they may still be in flight.
static int wait_for(struct comm_mpi *mpi, MPI_Request requests[], int count)
{
    uint64_t begin_ns = clock_now_ns(), limit_ns = begin_ns + patience_ns, next_look_ns = begin_ns + look_ns;
    bool slept = false;
    for (unsigned tests = 0;; tests++) {
        int done = 0;
        int rc = comm_mpi_code(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "a transfer");
        if (rc != ERR_NONE)
            return explain_transfer(mpi);
        if (done)
            return ERR_NONE;
        uint64_t now_ns = slept ? clock_now_ns() : begin_ns;
        bool looks = now_ns > next_look_ns;
        if (looks || (!slept && tests % 16 == 15)) {
            comm_mpi_take_notices(mpi);
            comm_mpi_find_leavers(mpi);
            comm_mpi_find_waiters(mpi);
        }
        if (looks) {
            comm_mpi_find_deaths(mpi);
            next_look_ns = now_ns + look_ns;
        }
        if (now_ns > limit_ns) {
            comm_mpi_overdue(mpi);
            limit_ns = now_ns + patience_ns;
        }
        TRY(comm_mpi_check(mpi));
        slept = comm_mpi_pause(begin_ns);
    }
}

int comm_mpi_wait(struct comm_mpi *mpi, MPI_Request requests[], int count)
{
    int rc = wait_for(mpi, requests, count);
    if (rc != ERR_NONE)
        comm_mpi_cancel(requests, count);
    return rc;
}

int comm_mpi_wait_collective(struct comm_mpi *mpi, MPI_Request *request)
{
    return wait_for(mpi, request, 1);
}
