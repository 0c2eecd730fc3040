// SPDX-License-Identifier: Apache-2.0
#include "base/slow.h"

#include "base/gpu.h"
#include "base/machine.h"
#include "base/processor.h"
#include "base/resources.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#ifdef __OPTIMIZE__
enum { IS_OPTIMIZED = true };
#else
enum { IS_OPTIMIZED = false };
#endif

struct reasons {
    char (*texts)[SLOW_BYTES];
    size_t count;
};

static void add(struct reasons *r, const char *format, ...) __attribute__((format(printf, 2, 3)));
static void add(struct reasons *r, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(r->texts[r->count++], SLOW_BYTES, format, arguments);
    va_end(arguments);
}

// The process that traces this one; 0: none.
static double tracer(void)
{
    char path[PATH_MAX];
    double found;
    return resources_number(resources_path("/proc/self/status", path), "TracerPid", &found) ? found : 0;
}

// Every x86-64 server since 2013 has AVX2, and multiplies and adds in one instruction.
static bool lacks_vectors(void)
{
#if defined(__x86_64__)
    __builtin_cpu_init();
    return !__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma");
#else
    return false;
#endif
}

static bool says(const char *path, const char *word)
{
    char place[PATH_MAX];
    json_t *line = machine_line(resources_path(path, place));
    bool found = json_is_string(line) && strstr(json_string_value(line), word);
    json_decref(line);
    return found;
}

// The drivers intel_pstate and amd-pstate-epp raise the clock under this governor, too.
static bool keeps_clock_low(void)
{
    return says("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave") &&
           !says("/sys/devices/system/cpu/cpu0/cpufreq/scaling_driver", "pstate");
}

// The first GPU with a reason, and how many have one.
static void add_gpus(struct reasons *r)
{
    struct gpu gpus[GPU_MAX];
    char reason[GPU_REASON_BYTES], first[GPU_REASON_BYTES] = "";
    size_t count = gpus_read(gpus), slow = 0, at = 0;
    for (size_t i = 0; i < count; i++) {
        gpu_reason(&gpus[i], reason);
        if (*reason && slow++ == 0) {
            memcpy(first, reason, sizeof first);
            at = i;
        }
    }
    if (slow > 0)
        add(r, "GPU %zu: %.140s (%zu of %zu GPUs)", at, first, slow, count);
}

size_t slow_reasons(char out[SLOW_MAX][SLOW_BYTES])
{
    struct reasons r = {.texts = out};
    char emulator[PROCESSOR_NAME_BYTES];
    const char *preload = getenv("LD_PRELOAD"), *most = getenv("ONEDNN_MAX_CPU_ISA");
    most = most ? most : getenv("DNNL_MAX_CPU_ISA");
    if (!IS_OPTIMIZED)
        add(&r, "this program was built without optimization: build it with -DCMAKE_BUILD_TYPE=RelWithDebInfo");
    if (tracer() > 0)
        add(&r, "process %.0f, a debugger or another tracer, watches this one", tracer());
    if (preload && strstr(preload, "vgpreload"))
        add(&r, "valgrind runs this program");
    if (processor_is_emulated(emulator))
        add(&r, "%.96s emulates this processor", emulator);
    if (lacks_vectors())
        add(&r, "this processor shows no AVX2: a virtual machine may hide it (with QEMU: -cpu host)");
    if (keeps_clock_low())
        add(&r, "the governor \"powersave\" keeps the clock low: cpupower frequency-set -g performance");
    double quota = resources_processor_quota();
    if (quota > 0 && quota < 1)
        add(&r, "the control group permits %.2f of a processor: raise its limit (cpu.max)", quota);
    if (most && strcasecmp(most, "all") != 0 && strcasecmp(most, "default") != 0)
        add(&r, "oneDNN may not use more than %.64s: unset ONEDNN_MAX_CPU_ISA and DNNL_MAX_CPU_ISA", most);
    add_gpus(&r);
    return r.count;
}

void slow_print(void)
{
    static bool is_printed;
    if (is_printed)
        return;
    is_printed = true;
    char reasons[SLOW_MAX][SLOW_BYTES];
    size_t count = slow_reasons(reasons);
    for (size_t i = 0; i < count; i++)
        fprintf(stderr, "SLOW: %s\n", reasons[i]);
}
