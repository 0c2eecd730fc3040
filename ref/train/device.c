// SPDX-License-Identifier: Apache-2.0
#include "device.h"

#include "err.h"
#ifdef ZG_HAVE_CUDA
#include "tier_cuda.h"
#endif

#include <string.h>

static int find_cuda(bool launched, struct train_setting *setting)
{
#ifdef ZG_HAVE_CUDA
    if (launched)
        return err_set(ERR_USAGE, "--device cuda: the transport between processes carries host memory only; ranks as "
                                  "threads (--world without a launcher) share GPUs");
    int rc = cuda_devices_for(setting->world, &setting->device_count);
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
