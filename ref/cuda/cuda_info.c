// SPDX-License-Identifier: Apache-2.0
#include "ref/cuda/cuda_info.h"

#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/cuda_matmul.h"

#include <cuda_runtime_api.h>

#include <stdio.h>

// Returns "13.0" for 13000 and null for 0.
static json_t *version_json(int version)
{
    char text[32];
    snprintf(text, sizeof text, "%d.%d", version / 1000, version % 1000 / 10);
    return version > 0 ? json_string(text) : json_null();
}

static json_t *place_json(const struct cudaDeviceProp *of)
{
    return json_sprintf("%04x:%02x:%02x", (unsigned)of->pciDomainID, (unsigned)of->pciBusID, (unsigned)of->pciDeviceID);
}

static json_t *device_json(int device)
{
    struct cudaDeviceProp of;
    char capability[32];
    if (cuda_lane_error(cudaGetDeviceProperties(&of, device), "a device's properties") != 0)
        return NULL;
    snprintf(capability, sizeof capability, "%d.%d", of.major, of.minor);
    return json_pack("{s:s, s:s, s:I, s:i, s:i, s:o}", "name", of.name, "compute_capability", capability,
                     "memory_bytes", (json_int_t)of.totalGlobalMem, "multiprocessors", of.multiProcessorCount,
                     "copy_engines", of.asyncEngineCount, "pci", place_json(&of));
}

json_t *cuda_info(void)
{
    int runtime = 0, driver = 0;
    (void)cudaRuntimeGetVersion(&runtime);
    (void)cudaDriverGetVersion(&driver);
    json_t *devices = json_array();
    for (int device = 0; device < cuda_lane_device_count(); device++)
        json_array_append_new(devices, device_json(device));
    return json_pack("{s:o, s:o, s:s?, s:s?, s:o}", "runtime", version_json(runtime), "driver", version_json(driver),
                     "absent", cuda_lane_absent(), "cublas", cuda_matmul_version(), "devices", devices);
}

json_t *cuda_info_models(void)
{
    json_t *models = json_array();
    for (int device = 0; device < cuda_lane_device_count(); device++) {
        struct cudaDeviceProp of;
        if (cuda_lane_error(cudaGetDeviceProperties(&of, device), "a device's properties") == 0)
            json_array_append_new(models, json_pack("{s:s, s:o}", "model", of.name, "pci", place_json(&of)));
    }
    return models;
}
