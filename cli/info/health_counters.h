// SPDX-License-Identifier: Apache-2.0
// What the kernel and the drives count of a machine's health: machine checks, corrected memory errors, throttling, PCIe
// errors, errors and wear of NVMe drives, temperature and frequency; and what GPUs count. Read before and after a
// measurement: a count that grew in between is a reason to doubt it.
#pragma once

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

enum health_counter {
    COUNTER_MACHINE_CHECKS,      // /proc/interrupts, MCE: exceptions
    COUNTER_MEMORY_CORRECTED,    // EDAC
    COUNTER_MEMORY_UNCORRECTED,  // EDAC
    COUNTER_THROTTLED,           // thermal throttling of cores
    COUNTER_PCIE_CORRECTED,      // AER
    COUNTER_PCIE_UNCORRECTED,    // AER
    COUNTER_NARROW_LINKS,        // PCIe devices whose link is narrower than they can
    COUNTER_NVME_ERRORS,         // transfers whose data could not be recovered
    COUNTER_NVME_WARNINGS,       // critical warnings that drives give
    COUNTER_NVME_WORN_PERCENT,   // of the most worn drive, now
    COUNTER_NVME_SPARE_PERCENT,  // of the drive with the least spare blocks, now
    COUNTER_NVME_TEMPERATURE_C,  // of the hottest drive, now
    COUNTER_TEMPERATURE_C,       // the hottest sensor, now
    COUNTER_FREQUENCY_MHZ,       // mean of all cores, now
    COUNTER_GPU_ECC_CORRECTED,   // of all GPUs, as the next
    COUNTER_GPU_ECC_UNCORRECTED,
    COUNTER_GPU_ROWS_REMAPPED,
    COUNTER_GPU_PCIE_REPLAYS,
    COUNTER_GPU_NVLINK_ERRORS,
    COUNTER_GPU_SLOWED,         // GPUs that heat or power slows now
    COUNTER_GPU_TEMPERATURE_C,  // of the hottest, now
    COUNTER_GPU_POWER_W,        // of all together, now
    COUNTER_GPU_CLOCK_MHZ,      // of the slowest GPU's multiprocessors, now
    COUNTER_COUNT,
};

struct health_counters {
    double values[COUNTER_COUNT];  // NAN: this system does not say
};

// Reads this machine's, or those of the files that replace it (ZG_MACHINE_ROOT, base/resources.h).
void health_counters_read(struct health_counters *out);

// Raises each count of errors in *most to what `now` has of it: some count what is so at the moment, and may fall
// again.
void health_counters_keep_most(struct health_counters *most, const struct health_counters *now);

// Returns whether a counter of errors grew, or links became narrower, between the two; writes the reason, such as
// "corrected memory errors: 3 during the run".
bool health_counter_worse(enum health_counter counter, const struct health_counters *before,
                          const struct health_counters *after, char *reason, size_t bytes);

// The same for all counters that got worse, with "; " between them, as far as there is room.
bool health_counters_worse(const struct health_counters *before, const struct health_counters *after, char *reason,
                           size_t bytes);

// One line for each counter that the system has.
void health_counters_print(const struct health_counters *before, const struct health_counters *after, FILE *out);

// {"machine_checks": {"before": 0, "after": 0}, ...}; null for what the system does not say. New.
json_t *health_counters_json(const struct health_counters *before, const struct health_counters *after);

// Reads what `after` was when the object was made. ERR_USAGE, with the key: not such an object.
int health_counters_from_json(const json_t *object, struct health_counters *out);

// Returns the key of a counter of errors in that object; null: a value of the moment, whose change is no error.
const char *health_counter_error_key(enum health_counter counter);

// NVMe drives tell their own health: the log page SMART / Health Information (NVM Express Base Specification,
// figure "SMART / Health Information Log Page").

enum { HEALTH_NVME_LOG_BYTES = 512 };

struct health_nvme {
    double warnings;       // of all drives: critical warnings that are set now, such as worn out, too hot, read only
    double media_errors;   // of all drives: transfers whose data could not be recovered
    double worn_percent;   // of the most worn drive, of the writes that it is built for; may exceed 100
    double spare_percent;  // of the drive with the least spare blocks left
    double temperature_c;  // of the hottest drive
};

// Adds one drive's log page.
void health_nvme_add(const unsigned char log[HEALTH_NVME_LOG_BYTES], struct health_nvme *out);

// Asks every drive; what no drive says is NAN. Asking needs the rights of root; without them the kernel tells the
// temperature alone. root: prefix of /dev and /sys.
void health_nvme_read(const char *root, struct health_nvme *out);
