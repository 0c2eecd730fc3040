// SPDX-License-Identifier: Apache-2.0
#include "bench/harness/registers.h"

#include "base/clock.h"
#include "base/err.h"
#include "ref/arithmetic/isa.h"

double registers_flops(void)
{
    const struct isa_kernels *kernels = isa_kernels();
    return 2 * (double)kernels->matmul_rows * (double)kernels->matmul_columns * REGISTERS_STEPS;
}

bool registers_pass(void)
{
    return isa_kernels()->matmul_registers(REGISTERS_STEPS) == REGISTERS_STEPS;
}

int registers_measure(int threads, double seconds, double *gflops)
{
    int wrong = 0;
    double sum = 0;
#pragma omp parallel num_threads(threads) reduction(+ : wrong, sum)
    {
        uint64_t begin_ns = clock_now_ns(), ns;
        double flops = 0;
        do {
            wrong += !registers_pass();
            flops += registers_flops();
            ns = clock_now_ns() - begin_ns;
        } while ((double)ns < seconds * 1e9);
        sum += flops / (double)ns;
    }
    *gflops = sum;
    return wrong == 0 ? ERR_NONE : err_set(ERR_CHECK, "fused multiply-adds of registers are wrong");
}
