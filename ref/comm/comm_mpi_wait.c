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

// The death of a rank may become known this long after a failed transfer.
static const uint64_t explain_limit_ns = 500000000u;

// Pauses briefly at first, and longer the longer the wait: the awaited ranks may need this processor, or one of them
// may be measuring alone.
void comm_mpi_pause(unsigned tests)
{
    if (tests < 1000)
        sched_yield();
    else
        nanosleep(&(struct timespec){.tv_nsec = tests < 20000 ? 50000 : 1000000}, NULL);
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
    uint64_t limit_ns = 0;
    for (unsigned tests = 0;; tests++) {
        int done = 0;
        int rc = comm_mpi_code(MPI_Testall(count, requests, &done, MPI_STATUSES_IGNORE), "a transfer");
        if (rc != ERR_NONE)
            return explain_transfer(mpi);
        if (done)
            return ERR_NONE;
        if (tests % 16 == 15) {
            comm_mpi_take_notices(mpi);
            comm_mpi_find_leavers(mpi);
            comm_mpi_find_waiters(mpi);
        }
        if (tests % 256 == 255) {
            uint64_t now_ns = clock_now_ns();
            comm_mpi_find_deaths(mpi);
            if (limit_ns != 0 && now_ns > limit_ns)
                comm_mpi_overdue(mpi);
            limit_ns = limit_ns == 0 || now_ns > limit_ns ? now_ns + patience_ns : limit_ns;
        }
        TRY(comm_mpi_check(mpi));
        comm_mpi_pause(tests);
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
