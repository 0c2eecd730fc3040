// SPDX-License-Identifier: Apache-2.0
// For tests that start ranks with mpirun: on however few processors, and also as root, as in containers.
#pragma once

#include "base/command_test.h"

#include <string.h>

#ifdef ZG_HAVE_MPI
#define MPI_OR_SKIP() (void)0
#else
#define MPI_OR_SKIP()                                                                                                  \
    do {                                                                                                               \
        puts("TEST SKIPPED: built without MPI (libopenmpi-dev brings one)");                                           \
        return;                                                                                                        \
    } while (0)
#endif

// Each has a folder of its own: mpirun removes the common one of its user while another begins to use it.
#define MPIRUN_ENVIRONMENT                                                                                             \
    "mkdir /tmp/zg-mpirun-$$ && trap 'rm -rf /tmp/zg-mpirun-$$' EXIT && "                                              \
    "env OMPI_MCA_orte_tmpdir_base=/tmp/zg-mpirun-$$ OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "       \
    "OMPI_MCA_rmaps_base_oversubscribe=1 OMPI_MCA_hwloc_base_binding_policy=none ASAN_OPTIONS=detect_leaks=0 "

// mpirun leaves the other ranks alone when one ends, however it does.
#define MPIRUN_LEAVES_OTHERS "--mca orte_enable_recovery 1 --mca orte_abort_on_non_zero_status 0 "

// The exit status of mpirun; output is what the ranks and mpirun print.
static inline int mpirun(int world, const char *program, const char *arguments, char *output, size_t output_bytes)
{
    char command[16384];
    snprintf(command, sizeof command, MPIRUN_ENVIRONMENT "timeout 300 mpirun -n %d '%s/%s' %s 2>&1", world,
             ZG_BINARY_DIR, program, arguments);
    return command_run(command, output, output_bytes);
}

// Counts the occurrences of a word in a text.
static inline int times_said(const char *text, const char *what)
{
    int times = 0;
    while ((text = strstr(text, what)) != NULL) {
        times++;
        text++;
    }
    return times;
}

// For ranks that fail: each ends by itself, however long that takes on a busy machine, and its status is in the output,
// as "ended with status 1"; 137 is SIGKILL's. Without it mpirun sends SIGTERM to all ranks when the first one fails,
// and SIGKILL a second later.
static inline void mpirun_each(int world, const char *program, const char *arguments, char *output, size_t output_bytes)
{
    char command[16384];
    snprintf(command, sizeof command,
             MPIRUN_ENVIRONMENT "timeout 300 mpirun " MPIRUN_LEAVES_OTHERS
                                "-n %d sh -c '\"$@\"; echo \"ended with status $?\"' ranks '%s/%s' %s 2>&1",
             world, ZG_BINARY_DIR, program, arguments);
    cr_assert_eq(command_run(command, output, output_bytes), 0, "%s", output);
    cr_assert_eq(times_said(output, "ended with status "), world, "%s", output);
}

// The digest in a line of JSON; "" if there is none.
static inline void digest_in(const char *text, char out[33])
{
    const char *at = strstr(text, "\"state_digest\":\"");
    snprintf(out, 33, "%.32s", at ? at + strlen("\"state_digest\":\"") : "");
}

// The digest of a run whose ranks are threads.
static inline void train_by_threads(int world, const char *arguments, char *output, size_t output_bytes,
                                    char digest[33])
{
    char command[16384];
    snprintf(command, sizeof command, "'%s/zerogauge' train %s --world %d --json 2>&1", ZG_BINARY_DIR, arguments,
             world);
    cr_assert_eq(command_run(command, output, output_bytes), 0, "%s", output);
    digest_in(output, digest);
    cr_expect_eq(strlen(digest), 32);
}
