// SPDX-License-Identifier: Apache-2.0
#include "bench/pcie/pcie.h"

#include <stdio.h>

double pcie_lanes_gb_per_s(double generation, double lanes, char name[PCIE_NAME_BYTES])
{
    // Transfers of a lane, 10^9/s, and the share of them that is data: 8 of 10 bits, 128 of 130, 242 of 256 bytes.
    static const double transfers[] = {0, 2.5, 5, 8, 16, 32, 64};
    static const double data[] = {0, 0.8, 0.8, 128.0 / 130, 128.0 / 130, 128.0 / 130, 242.0 / 256};
    enum { GENERATIONS = sizeof transfers / sizeof *transfers };
    *name = '\0';
    if (!(generation >= 1 && generation < GENERATIONS && lanes >= 1))  // false for NAN, too
        return 0;
    snprintf(name, PCIE_NAME_BYTES, "PCIe %d x%d", (int)generation, (int)lanes);
    return transfers[(int)generation] * data[(int)generation] * lanes / 8;
}
