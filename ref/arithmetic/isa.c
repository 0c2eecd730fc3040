// SPDX-License-Identifier: Apache-2.0
// Which build of the kernels runs: the best that this processor has, or the one that was asked for.
#include "ref/arithmetic/isa.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <assert.h>
#include <cpuid.h>
#include <stdatomic.h>

static const char *const names[ADAM_ISA_COUNT] = {"scalar", "avx2", "avx512"};
static const struct isa_kernels *const kernels[ADAM_ISA_COUNT] = {&isa_scalar, &isa_avx2, &isa_avx512};

// The one global of the numbers: the chosen build, or -1 before the first choice. It changes speed, never a bit.
static atomic_int chosen = -1;

// __builtin_cpu_supports of clang 14 does not know "f16c". Where the system keeps the vector registers, which the same
// builtin says of AVX2, the processor's own answer is enough.
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static bool isa_present(enum adam_isa isa)
{
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return isa == ADAM_SCALAR || (isa == ADAM_AVX2 && avx2) || (isa == ADAM_AVX512 && avx512);
}

const char *adam_isa_name(enum adam_isa isa)
{
    return names[isa];
}

int adam_isa_parse(const char *name, enum adam_isa *out)
{
    for (int isa = 0; isa < ADAM_ISA_COUNT; isa++) {
        if (strcmp(name, names[isa]))
            continue;
        if (!isa_present((enum adam_isa)isa))
            return err_set(ERR_USAGE, "this processor has no %s; its best is %s", name, adam_isa_name(adam_isa_best()));
        *out = (enum adam_isa)isa;
        return ERR_NONE;
    }
    return err_set(ERR_USAGE, "unknown instruction set \"%s\"; known are scalar, avx2 and avx512", name);
}

enum adam_isa adam_isa_best(void)
{
    return isa_present(ADAM_AVX512) ? ADAM_AVX512 : isa_present(ADAM_AVX2) ? ADAM_AVX2 : ADAM_SCALAR;
}

void adam_isa_set(enum adam_isa isa)
{
    assert(isa_present(isa));
    atomic_store_explicit(&chosen, (int)isa, memory_order_relaxed);
}

enum adam_isa adam_isa_now(void)
{
    int isa = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (isa < 0) {
        isa = (int)adam_isa_best();
        atomic_store_explicit(&chosen, isa, memory_order_relaxed);
    }
    return (enum adam_isa)isa;
}

const struct isa_kernels *isa_kernels(void)
{
    return kernels[adam_isa_now()];
}

const struct isa_kernels *isa_kernels_at(const void *address)
{
    const struct accelerator *accelerator = accelerator_of(address);
    return accelerator ? accelerator->kernels : isa_kernels();
}
