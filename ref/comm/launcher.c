// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/launcher.h"

#include "base/err.h"
#include "base/safe_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#ifdef ZG_HAVE_MPI
#include "ref/comm/comm_mpi.h"

#include <signal.h>
#include <sys/time.h>
#endif

// The variables in which launchers pass world and rank. The first pair that is set counts, because Slurm sets its own
// for processes of Open MPI, too.
static const struct {
    const char *world, *rank;
} variables[] = {
    {"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
    {"PMI_SIZE", "PMI_RANK"},
    {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"},
};

static int number_of(const char *name, const char *text, long least, long most, int *out)
{
    char *end;
    long value = strtol(text, &end, 10);
    if (end == text || *end != '\0' || value < least || value > most)
        return err_set(ERR_USAGE, "the launcher's variable %s is \"%.32s\": expected a number from %ld to %ld", name,
                       text, least, most);
    *out = (int)value;
    return ERR_NONE;
}

int launcher_find(struct launcher *out)
{
    *out = (struct launcher){0};
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        const char *world = getenv(variables[i].world), *rank = getenv(variables[i].rank);
        if (!world || !rank)
            continue;
        TRY(number_of(variables[i].world, world, 1, 1 << 20, &out->world));
        TRY(number_of(variables[i].rank, rank, 0, out->world - 1, &out->rank));
        out->name = variables[i].world;
#ifndef ZG_HAVE_MPI
        if (out->world > 1)
            return err_set(ERR_USAGE,
                           "%s reports %d processes, but this binary was built without MPI: install libopenmpi-dev "
                           "and build again, or start one process with --world %d",
                           out->name, out->world, out->world);
#endif
        return ERR_NONE;
    }
    return ERR_NONE;
}

int launcher_world(struct launcher *launcher, int asked, int otherwise, int *world)
{
    if (launcher->world == 1 && asked > 1)
        *launcher = (struct launcher){0};
    if (launcher->world > 0 && asked > 0 && asked != launcher->world)
        return err_set(ERR_USAGE, "--world %d, but the launcher has started %d processes (%s): omit --world", asked,
                       launcher->world, launcher->name);
    *world = launcher->world > 0 ? launcher->world : asked > 0 ? asked : otherwise;
    return ERR_NONE;
}

uint64_t launcher_machine(void)
{
    struct {
        char boot[64];
        uint64_t device, network;
    } facts = {0};
    struct stat found;
    FILE *file = fopen("/proc/sys/kernel/random/boot_id", "re");
    if (file && !fgets(facts.boot, sizeof facts.boot, file))
        facts.boot[0] = '\0';
    if (file)
        fclose(file);
    if (stat("/proc/self/ns/net", &found) == 0) {
        facts.device = (uint64_t)found.st_dev;
        facts.network = (uint64_t)found.st_ino;
    }
    return XXH3_64bits(&facts, sizeof facts);
}

int launcher_position(struct comm *comm, int *local_rank, int *local_count)
{
    struct host {
        char name[256];
        uint64_t machine;
    } own = {.machine = launcher_machine()};
    int world = comm_world(comm);
    struct host *hosts = calloc((size_t)world, sizeof *hosts);
    (void)gethostname(own.name, sizeof own.name - 1);
    int rc = hosts ? comm_all_gather_equal(comm, &own, hosts, sizeof own)
                   : err_set(ERR_MEMORY, "out of memory for the names of %d hosts", world);
    *local_rank = *local_count = 0;
    for (int rank = 0; rank < world && rc == ERR_NONE; rank++) {
        bool here = strcmp(hosts[rank].name, own.name) == 0 && hosts[rank].machine == own.machine;
        *local_count += here;
        *local_rank += here && rank < comm_rank(comm);
    }
    free(hosts);
    return rc;
}

void launcher_hide(void)
{
    for (size_t i = 0; i < sizeof variables / sizeof variables[0]; i++) {
        unsetenv(variables[i].world);
        unsetenv(variables[i].rank);
    }
}

void launcher_tell(const char *command)
{
    text_error("%s", command);
    err_clear();
}

#ifdef ZG_HAVE_MPI
static void end_by_sigterm(int signal_number)
{
    (void)signal_number;
    signal(SIGTERM, SIG_DFL);
    raise(SIGTERM);
}

static void end_soon(int signal_number)
{
    (void)signal_number;
    const struct itimerval soon = {.it_value.tv_usec = 500000};
    setitimer(ITIMER_REAL, &soon, NULL);
}

// When a rank dies, mpirun immediately sends SIGTERM to the others, before they can report why they end. Unless the
// program handles SIGTERM, this delays the end of a rank by half a second; mpirun waits for a second.
static void delay_sigterm(void)
{
    struct sigaction before, delayed = {.sa_handler = end_soon}, alarm = {.sa_handler = end_by_sigterm};
    if (sigaction(SIGTERM, NULL, &before) != 0 || before.sa_handler != SIG_DFL)
        return;
    sigaction(SIGALRM, &alarm, NULL);
    sigaction(SIGTERM, &delayed, NULL);
}

int launcher_open(const struct launcher *launcher, struct comm **out)
{
    int threading, world;
    TRY(comm_mpi_code(MPI_Init_thread(NULL, NULL, MPI_THREAD_MULTIPLE, &threading), "MPI_Init_thread"));
    MPI_Comm_size(MPI_COMM_WORLD, &world);
    if (world != launcher->world)
        return err_set(ERR_USAGE,
                       "%s reports %d processes, MPI reports %d: launcher and MPI library do not match (start with "
                       "that library's mpirun, or with srun --mpi=pmix)",
                       launcher->name, launcher->world, world);
    delay_sigterm();
    signal(SIGPIPE, SIG_IGN);  // MPI may write to a rank that has ended
    return comm_mpi_open(MPI_COMM_WORLD, out);
}

void launcher_close(struct comm *comm, int status)
{
    int begun = 0;
    comm_close(comm);
    MPI_Initialized(&begun);
    if (begun && status == 0)
        MPI_Finalize();
}
#else
int launcher_open(const struct launcher *launcher, struct comm **out)
{
    *out = NULL;
    if (launcher->world == 1)
        return comm_local_open(1, out);
    return err_set(ERR_USAGE, "%s: this binary was built without MPI", launcher->name);
}

void launcher_close(struct comm *comm, int status)
{
    (void)status;
    comm_close(comm);
}
#endif
