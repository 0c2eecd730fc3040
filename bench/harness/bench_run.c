// SPDX-License-Identifier: Apache-2.0
// Runs a benchmark: here, or under a launcher on all ranks, or on one of each host.
#include "bench/harness/bench.h"
#include "bench/harness/bench_world.h"

#include "base/err.h"

#include <stdio.h>

int bench_run(const struct benchmark *benchmark, int argc, const char **argv)
{
    int code = bench_world_join();
    if (code != ERR_NONE)
        fprintf(stderr, "zerogauge bench %s: %s\n", benchmark->name, err_message());
    if (code != ERR_NONE || !bench_world_comm())
        return code == ERR_NONE ? benchmark->run(argc, argv) : err_exit_status(code);
    bool leads = bench_world_rank_on_host() == 0;
    bench_world_set_together(benchmark->together);
    bench_world_report_begin();
    if (!benchmark->together && leads)
        bench_world_take_host(true);
    int status = benchmark->together || leads ? benchmark->run(argc, argv) : bench_exit(benchmark->name, ERR_NONE);
    bench_world_take_host(false);
    bench_world_report_end();
    bench_world_set_together(false);
    return status;
}
