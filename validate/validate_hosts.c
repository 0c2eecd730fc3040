// SPDX-License-Identifier: Apache-2.0
// Describes the machines of the other hosts of a validation for its `run` record.
#include "validate/validate_world.h"

#include "bench/harness/bench_world.h"
#include "base/err.h"
#include "cli/info/info_cuda.h"

#include <stdlib.h>
#include <string.h>

enum { OTHER_HOSTS_MAX = 256 };  // RECORDS.md

// Describes this rank's host if it is the first rank there, and not rank 0; else "". Null: no memory.
static char *own_text(const char *const *paths)
{
    int rank = bench_world_rank();
    if (rank == 0 || bench_world_rank_on_host() > 0)
        return strdup("");
    json_t *host = json_pack("{s:s, s:i, s:i, s:o}", "host", bench_world_host(rank), "rank", rank, "rank_count",
                             bench_world_host_size(), "machine", info_machine(paths));
    char *text = host ? json_dumps(host, JSON_COMPACT) : NULL;
    json_decref(host);
    return text;
}

int validate_world_describe(const char *const *paths, json_t *run)
{
    char **all = NULL, *text = own_text(paths);
    if (!text)
        return err_set(ERR_MEMORY, "no memory to describe this host");
    int rc = bench_world_gather(text, &all);
    json_t *hosts = json_array();
    for (int rank = 0; rank < bench_world_size() && all; rank++) {
        if (*all[rank] && json_array_size(hosts) < OTHER_HOSTS_MAX)
            json_array_append_new(hosts, json_loads(all[rank], 0, NULL));
        free(all[rank]);
    }
    if (run && rc == ERR_NONE)
        json_object_set(run, "other_hosts", hosts);
    json_decref(hosts);
    free(all);
    free(text);
    return rc;
}
