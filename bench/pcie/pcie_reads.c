// SPDX-License-Identifier: Apache-2.0
#include "bench/pcie/pcie.h"

#include "base/err.h"

#include <stdio.h>
#include <stdlib.h>

static void *run_reads(void *argument)
{
    struct pcie_reads *reads = argument;
    while (!reads->ends && reads->code == ERR_NONE) {
        struct stream_result result;
        reads->code = stream_run(&reads->stream, &result);
        if (reads->code != ERR_NONE) {
            snprintf(reads->message, sizeof reads->message, "%s", err_message());
            break;
        }
        free(result.latencies_ns);
        reads->bytes += (double)result.bytes;
        reads->seconds += (double)result.ns * 1e-9;
    }
    return NULL;
}

int pcie_reads_begin(struct pcie_reads *reads)
{
    reads->ends = false;
    if (pthread_create(&reads->thread, NULL, run_reads, reads) != 0)
        return err_set(ERR_MEMORY, "cannot start a thread for reads");
    return ERR_NONE;
}

int pcie_reads_end(struct pcie_reads *reads)
{
    reads->ends = true;
    pthread_join(reads->thread, NULL);
    return reads->code == ERR_NONE ? ERR_NONE : err_set(reads->code, "%s", reads->message);
}
