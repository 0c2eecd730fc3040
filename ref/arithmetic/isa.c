// SPDX-License-Identifier: Apache-2.0
#include "ref/arithmetic/isa.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"

#include <assert.h>
#include <stdatomic.h>

// The chosen build, or -1 before the first choice. It changes speed, never a bit of a result.
static atomic_int chosen = -1;

#if defined(__aarch64__)
#include <asm/hwcap.h>
#include <sys/auxv.h>

static const char *const names[ISA_COUNT] = {"scalar", "neon", "sve"};
static const struct isa_kernels *const kernels[ISA_COUNT] = {&isa_scalar, &isa_neon, &isa_sve};

static bool isa_present(enum isa isa)
{
    return isa != ISA_SVE || (getauxval(AT_HWCAP) & HWCAP_SVE);
}
#else
#include <cpuid.h>

static const char *const names[ISA_COUNT] = {"scalar", "avx2", "avx512"};
static const struct isa_kernels *const kernels[ISA_COUNT] = {&isa_scalar, &isa_avx2, &isa_avx512};

// __builtin_cpu_supports of clang 14 does not know "f16c". The builtin's answer for AVX2 includes the system's support
// for vector registers; the processor's own flag is enough for the rest.
static bool has_f16c(void)
{
    unsigned eax, ebx, ecx, edx;
    return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C);
}

static bool isa_present(enum isa isa)
{
    __builtin_cpu_init();
    bool avx2 = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && has_f16c();
    bool avx512 = avx2 && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return isa == ISA_SCALAR || (isa == ISA_AVX2 && avx2) || (isa == ISA_AVX512 && avx512);
}
#endif

const char *isa_name(enum isa isa)
{
    assert((unsigned)isa < ISA_COUNT);
    return names[isa];
}

int isa_parse(const char *name, enum isa *out)
{
    for (int isa = 0; isa < ISA_COUNT; isa++) {
        if (strcmp(name, names[isa]))
            continue;
        if (!isa_present((enum isa)isa))
            return err_set(ERR_USAGE, "this processor lacks %s; its best instruction set is %s", name,
                           isa_name(isa_best()));
        *out = (enum isa)isa;
        return ERR_NONE;
    }
    return err_set(ERR_USAGE, "unknown instruction set \"%s\": expected %s, %s or %s", name, names[0], names[1],
                   names[2]);
}

enum isa isa_best(void)
{
    int isa = ISA_COUNT - 1;
    while (!isa_present((enum isa)isa))
        isa--;
    return (enum isa)isa;
}

void isa_set(enum isa isa)
{
    assert(isa_present(isa));
    atomic_store_explicit(&chosen, (int)isa, memory_order_relaxed);
}

enum isa isa_now(void)
{
    int isa = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (isa < 0) {
        isa = (int)isa_best();
        atomic_store_explicit(&chosen, isa, memory_order_relaxed);
    }
    return (enum isa)isa;
}

const struct isa_kernels *isa_kernels(void)
{
    return kernels[isa_now()];
}

const struct isa_kernels *isa_kernels_of(enum isa isa)
{
    return isa_present(isa) ? kernels[isa] : NULL;
}

const struct isa_kernels *isa_kernels_at(const void *address)
{
    const struct accelerator *accelerator = accelerator_of(address);
    return accelerator ? accelerator->kernels : isa_kernels();
}
