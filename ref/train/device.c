// SPDX-License-Identifier: Apache-2.0
#include "ref/train/device.h"

#include "ref/arithmetic/accelerator.h"
#include "base/err.h"
#include "ref/comm/launcher.h"
#ifdef ZG_HAVE_CUDA
#include "ref/cuda/cuda_lane.h"
#include "ref/cuda/tier_cuda.h"
#endif
#ifdef ZG_HAVE_NCCL
#include "ref/comm/comm_nccl.h"
#endif

#include <string.h>

static int find_cuda(bool launched, struct train_setting *setting)
{
#ifdef ZG_HAVE_CUDA
#ifndef ZG_HAVE_NCCL
    if (launched)
        return err_set(ERR_USAGE, "--device cuda: this binary was built without NCCL, which processes need to exchange "
                                  "data on GPUs; start the ranks as threads (--world without a launcher)");
#endif
    int rc = cuda_devices_for(launched ? 1 : setting->world, &setting->device_count);
    if (rc != ERR_NONE)
        return err_prefix(rc, "--device cuda");
    setting->accelerator = &cuda_accelerator;
    return ERR_NONE;
#else
    (void)launched, (void)setting;
    return err_set(ERR_USAGE, "--device cuda: this binary was built without CUDA; install the CUDA toolkit and "
                              "configure with -DZG_CUDA=ON");
#endif
}

int device_find(const char *name, bool launched, struct train_setting *setting)
{
    setting->accelerator = NULL;
    setting->device_count = 0;
    if (!name || strcmp(name, "cpu") == 0)
        return ERR_NONE;
    if (strcmp(name, "cuda") == 0)
        return find_cuda(launched, setting);
    return err_set(ERR_USAGE, "--device %s: expected cpu or cuda", name);
}

bool device_is_name(const char *name)
{
    return !name || strcmp(name, "cpu") == 0 || strcmp(name, "cuda") == 0;
}

#ifdef ZG_HAVE_NCCL
// NCCL wants a GPU for each rank of this host.
static int check_host(int local_count)
{
    const struct comm_nccl_calls *calls;
    int devices = cuda_lane_device_count(), code = comm_nccl_library(&calls);
    if (code != ERR_NONE)
        return err_prefix(code, "--device cuda");
    if (local_count > devices)
        return err_set(ERR_USAGE,
                       "--device cuda: %d ranks on this host, which has %d GPU%s, and NCCL needs one for each: "
                       "start fewer, or start the ranks as threads (--world without a launcher)",
                       local_count, devices, devices == 1 ? "" : "s");
    return ERR_NONE;
}

// If one rank has an error, all ranks return one, so that none goes on alone.
static int refuse_together(struct comm *comm, int code)
{
    uint8_t own = code != ERR_NONE, any = 0;
    TRY(comm_all_reduce(comm, &own, &any, 1, DTYPE_BYTE, COMM_MAX));
    if (any && !own)
        return err_set(ERR_USAGE, "--device cuda: a rank on another host lacks NCCL or its own GPU");
    return code;
}
#endif

int device_connect(struct train_setting *setting, struct comm **comm)
{
#ifdef ZG_HAVE_NCCL
    int local_rank, local_count;
    if (setting->accelerator != &cuda_accelerator)
        return ERR_NONE;
    TRY(launcher_position(*comm, &local_rank, &local_count));
    TRY(refuse_together(*comm, check_host(local_count)));
    setting->device = local_rank;
    TRY(cuda_lane_use(local_rank));
    return comm_nccl_open(*comm, &comm_nccl_defaults, comm);
#else
    (void)setting, (void)comm;
    return ERR_NONE;
#endif
}

const char *device_name(const struct train_setting *setting)
{
    return setting->accelerator ? setting->accelerator->name : "cpu";
}
