// SPDX-License-Identifier: Apache-2.0
// `zerogauge bench pcie`: copies between host and devices, pinned and pageable, each way and both ways at once, of one
// device and of all, and beside NVMe. Without CUDA there is nothing to measure; the copies to the device tier, which is
// host memory then, are in `bench memory` and, beside other lanes, in `bench pipeline`.
#include "bench.h"

#include "err.h"

#include <stddef.h>

int bench_pcie_main(int argc, const char **argv)
{
    struct bench_options options;
    int code = bench_parse(argc, argv, BENCH_USES_STORAGE, NULL, &options);
    if (code == ERR_NONE && !options.help)
        bench_skip("pcie: this version is built without CUDA: its device tier is host memory, and no link leads to it");
    bench_release(&options);
    return bench_exit("pcie", code);
}
