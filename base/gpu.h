// SPDX-License-Identifier: Apache-2.0
// What NVIDIA's management library (NVML, libnvidia-ml.so.1), which is loaded at run time, says of this machine's GPUs:
// which they are, how they are set, what they count of errors, and who computes on them.
#pragma once

#include <jansson.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { GPU_MAX = 64, GPU_TEXT_BYTES = 96, GPU_REASON_BYTES = 192 };

enum gpu_value {
    GPU_ECC,  // 1: on
    GPU_MIG,  // 1: on
    GPU_POWER_LIMIT_W,
    GPU_POWER_DEFAULT_W,
    GPU_CLOCK_MHZ,
    GPU_CLOCK_MOST_MHZ,
    GPU_MEMORY_CLOCK_MHZ,
    GPU_MEMORY_CLOCK_MOST_MHZ,
    GPU_PCIE_GENERATION,  // an idle link may be slower than it can be
    GPU_PCIE_GENERATION_MOST,
    GPU_PCIE_LANES,
    GPU_PCIE_LANES_MOST,
    GPU_THROTTLE_REASONS,            // of now, as the library adds them up: 1 idle, 4 the power limit, ...
    GPU_SETTING_COUNT,               // those above are facts of a result file
    GPU_SLOWED = GPU_SETTING_COUNT,  // 1: by heat or the power supply, now
    GPU_ECC_CORRECTED,               // since the driver was loaded, as all counts
    GPU_ECC_UNCORRECTED,
    GPU_ROWS_REMAPPED,  // of its memory, ever
    GPU_PCIE_REPLAYS,
    GPU_NVLINK_ERRORS,  // of all its links
    GPU_TEMPERATURE_C,
    GPU_POWER_W,
    GPU_VALUE_COUNT,
};

struct gpu {
    char model[GPU_TEXT_BYTES], uuid[GPU_TEXT_BYTES], driver[GPU_TEXT_BYTES], vbios[GPU_TEXT_BYTES];  // "": unknown
    char pci[GPU_TEXT_BYTES];                                                                         // "0000:3b:00"
    double values[GPU_VALUE_COUNT];  // NAN: the library does not say
};

// Returns the number of GPUs, 0 where the library is not installed or finds none.
size_t gpus_read(struct gpu out[GPU_MAX]);

// Returns what the NVLinks between two GPUs, places as of `pci`, carry each way, in GB/s, as NVML has a link's speed:
// of the active ones that lead from one to the other, or else to switches, at the GPU that has less of them. *links:
// their number. 0: none does; NAN: the library does not say.
double gpu_nvlink_gb_per_s(const char *one, const char *other, int *links);

// Returns the library's handle, ready for calls; null where it is not installed.
void *gpu_library(void);

// Calls `each` with each process that computes on a GPU and the bytes that it has there; once for each of its GPUs.
// Processes whose bytes the library does not tell are left out.
void gpus_each_holder(void (*each)(void *context, pid_t pid, uint64_t bytes), void *context);

// The facts that a result file has of a GPU: {"model", "id", "driver", "vbios", "ecc", "mig", "power_limit_w", ...},
// null for what is unknown. id is a digest of the UUID, which tells GPUs of one model apart and names none. New.
json_t *gpu_json(const struct gpu *gpu);

// Reads such facts, as far as they are there: the others are unknown. GPU_SLOWED is of when the facts were read.
void gpu_from_json(const json_t *facts, struct gpu *out);

// Writes what keeps a GPU below the figures of its model: a power limit below its default, heat or power that slows it
// now, a PCIe link with fewer lanes than it has, partitions (MIG); the first of these, "" for none.
void gpu_reason(const struct gpu *gpu, char out[GPU_REASON_BYTES]);
