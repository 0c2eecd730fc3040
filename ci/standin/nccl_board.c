// SPDX-License-Identifier: Apache-2.0
// Memory that the ranks of a communicator share, and who of them is still there.
#include "ci/standin/nccl.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// The contents of an identifier: where the board's file is open.
struct address {
    pid_t process;
    int file;
    ino_t inode;
};

ncclResult_t ncclGetUniqueId(ncclUniqueId *out)
{
    struct stat stat;
    struct address address = {.process = getpid(), .file = memfd_create("nccl-stand-in", MFD_CLOEXEC)};
    if (address.file < 0 || ftruncate(address.file, sizeof(struct board)) != 0 || fstat(address.file, &stat) != 0)
        return ncclSystemError;
    address.inode = stat.st_ino;
    memset(out, 0, sizeof *out);
    memcpy(out, &address, sizeof address);
    return ncclSuccess;
}

static struct flock lock_of(int rank)
{
    return (struct flock){.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = rank, .l_len = 1};
}

bool nccl_board_join(struct ncclComm *comm, ncclUniqueId id)
{
    struct address address;
    struct stat stat;
    char path[64];
    memcpy(&address, &id, sizeof address);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)address.process, address.file);
    comm->file = open(path, O_RDWR | O_CLOEXEC);
    if (comm->file < 0 || fstat(comm->file, &stat) != 0 || stat.st_ino != address.inode)
        return false;
    struct flock lock = lock_of(comm->rank);
    if (fcntl(comm->file, F_OFD_SETLK, &lock) != 0)
        standin_die("NCCL: there is a rank %d already", comm->rank);
    comm->board = mmap(NULL, sizeof *comm->board, PROT_READ | PROT_WRITE, MAP_SHARED, comm->file, 0);
    if (comm->board == MAP_FAILED)
        standin_die("NCCL: no memory for %d ranks", comm->world);
    comm->id_file = address.process == getpid() && comm->rank == 0 ? address.file : -1;
    struct seat *seat = &comm->board->seats[comm->rank];
    seat->device = comm->device;
    atomic_store(&seat->has_joined, true);
    nccl_board_change(comm->board);
    return true;
}

void nccl_board_leave(struct ncclComm *comm)
{
    struct flock lock = lock_of(comm->rank);
    lock.l_type = F_UNLCK;  // which closing would not do, for the board stays mapped
    (void)fcntl(comm->file, F_OFD_SETLK, &lock);
    close(comm->file);
    nccl_board_change(comm->board);
}

bool nccl_board_all(const struct ncclComm *comm, bool (*done)(const struct seat *seat))
{
    for (int rank = 0; rank < comm->world; rank++)
        if (!done(&comm->board->seats[rank]))
            return false;
    return true;
}

int nccl_board_gone(const struct ncclComm *comm)
{
    for (int rank = 0; rank < comm->world; rank++) {
        const struct seat *seat = &comm->board->seats[rank];
        struct flock lock = lock_of(rank);
        if (rank != comm->rank && atomic_load(&seat->has_joined) && fcntl(comm->file, F_OFD_GETLK, &lock) == 0 &&
            lock.l_type == F_UNLCK && !atomic_load(&seat->has_finalized))
            return rank;
    }
    return -1;
}

void nccl_board_change(struct board *board)
{
    atomic_fetch_add(&board->changes, 1);
    syscall(SYS_futex, &board->changes, FUTEX_WAKE, RANKS_MAX, NULL, NULL, 0);
}

void nccl_board_wait(struct board *board, unsigned seen)
{
    const struct timespec limit = {.tv_nsec = 20000000};
    syscall(SYS_futex, &board->changes, FUTEX_WAIT, seen, &limit, NULL, 0);
}
