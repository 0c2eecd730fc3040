// SPDX-License-Identifier: Apache-2.0
// Runs each case in turn with its baseline. For one device the baseline is the method of CUDA's bandwidth samples:
// copies of 32 MiB, one after the other, between the device and page-locked memory allocated by the driver, in the same
// directions, and the rate of the first size also has the link's as a baseline. For all devices together it is each
// device alone; during NVMe reads, the same copies without them.
#include "bench/pcie/pcie.h"

#include "base/err.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLE_BLOCK_BYTES = 32 << 20, NVME_BYTES = 256 << 20, NVME_BLOCK_BYTES = 1 << 20, NVME_DEPTH = 32 };

// Measures one device against the method of CUDA's bandwidth samples.
static int run_alone(const struct pcie_trial *of)
{
    struct pcie_setting theirs = of->setting;
    theirs.memory = PCIE_DRIVERS;
    theirs.block_bytes = SAMPLE_BLOCK_BYTES < of->setting.bytes ? SAMPLE_BLOCK_BYTES : of->setting.bytes;
    theirs.bytes = of->setting.bytes / theirs.block_bytes * theirs.block_bytes;
    return pcie_trial_against(of, &of->setting, "CUDA's bandwidth sample", &theirs, 1, NULL);
}

static int run_together(const struct pcie_trial *of)
{
    int count = of->setting.link->device_count;
    struct pcie_setting theirs[count], together = of->setting;
    for (int i = 0; i < count; i++) {
        theirs[i] = of->setting;
        theirs[i].first_device = i;
    }
    together.device_count = count;
    return pcie_trial_against(of, &together, "each device alone", theirs, count, NULL);
}

static int run_beside_nvme(const struct pcie_trial *of, struct nvme_files *files)
{
    struct pcie_trial trial = *of;
    struct pcie_reads reads = {.stream = {.files = files,
                                          .engine = NVME_LIBAIO,
                                          .direction = STREAM_READ,
                                          .block_bytes = NVME_BLOCK_BYTES,
                                          .depth = NVME_DEPTH,
                                          .seconds = 0.1}};
    trial.reads = &reads;
    trial.beside = "nvme reads";
    trial.baseline_name = "the same with nothing beside";
    trial.baselines = &of->setting;
    trial.baseline_count = 1;
    return pcie_trial_run(&trial, NULL);
}

static int run_nvme_cases(const struct pcie_trial *of)
{
    const struct bench_storage *storage = &of->options->storage;
    struct nvme_files files;
    bench_progress("pcie: writing the files");
    TRY(nvme_files_open(storage->paths, storage->path_count, NVME_BYTES, storage->buffered, &files));
    int code = stream_all(&files, STREAM_WRITE);
    for (int direction = 0; code == ERR_NONE && direction < PCIE_DIRECTION_COUNT; direction++) {
        struct pcie_trial trial = *of;
        trial.setting.direction = (enum pcie_direction)direction;
        code = run_beside_nvme(&trial, &files);
    }
    if (code == ERR_NONE)
        code = stream_all(&files, STREAM_READ);
    nvme_files_close(&files);
    return code;
}

// Varies one setting at a time from pinned copies of the first size.
static int run_device_cases(const struct pcie_trial *of)
{
    static const enum pcie_memory kinds[] = {PCIE_PINNED, PCIE_PAGEABLE, PCIE_MAPPED};
    for (int direction = 0; direction < PCIE_DIRECTION_COUNT; direction++)
        for (size_t size = 0; size < of->options->size_count; size++)
            for (size_t kind = 0; kind < (size == 0 ? sizeof kinds / sizeof *kinds : 1); kind++) {
                struct pcie_trial trial = *of;
                trial.setting.direction = (enum pcie_direction)direction;
                trial.setting.block_bytes = of->options->sizes[size];
                trial.setting.memory = kinds[kind];
                trial.of_link = size == 0 && kinds[kind] == PCIE_PINNED;
                TRY(run_alone(&trial));
            }
    return ERR_NONE;
}

int pcie_cases_run(const struct pcie_link *link, const struct bench_options *options, size_t bytes)
{
    assert(link->device_count > 0 && options->size_count > 0);
    struct pcie_trial trial = {
        .options = options,
        .setting = {
            .link = link, .device_count = 1, .memory = PCIE_PINNED, .bytes = bytes, .block_bytes = options->sizes[0]}};
    if (!options->json)
        printf("ratio    %-9s %-5s %-11s %9s %9s %18s %9s\n", "device", "copy", "memory", "block", "GB/s",
               "(10 % to 90 %)", "baseline");
    for (int device = 0; device < link->device_count; device++) {
        trial.setting.first_device = device;
        TRY(run_device_cases(&trial));
        TRY(pcie_latency_run(options, &trial.setting));
    }
    trial.setting.first_device = 0;
    for (int direction = 0; link->device_count > 1 && direction < PCIE_DIRECTION_COUNT; direction++) {
        trial.setting.direction = (enum pcie_direction)direction;
        TRY(run_together(&trial));
    }
    trial.setting.direction = PCIE_H2D;
    TRY(link->device_count > 1 ? pcie_pairs_run(&trial) : ERR_NONE);
    return run_nvme_cases(&trial);
}
