// SPDX-License-Identifier: Apache-2.0
#include "ref/comm/nccl_collective.h"

#include "base/err.h"

#ifdef ZG_HAVE_NCCL
#include "ref/comm/comm_nccl.h"

#include <string.h>

static bool is_nccl(const struct comm *comm)
{
    return strcmp(comm->ops->name, "nccl") == 0;
}

int nccl_collective_run(struct comm *comm, const struct comm_call *call)
{
    if (!is_nccl(comm))
        return err_set(ERR_USAGE, "ranks over %s have no collectives of NCCL", comm->ops->name);
    return comm_nccl_collective((struct comm_nccl *)comm, call);
}

const char *nccl_collective_library(const struct comm *comm)
{
    return is_nccl(comm) ? ((const struct comm_nccl *)comm)->library : NULL;
}
#else
int nccl_collective_run(struct comm *comm, const struct comm_call *call)
{
    (void)comm, (void)call;
    return err_set(ERR_USAGE, "this binary was built without NCCL");
}

const char *nccl_collective_library(const struct comm *comm)
{
    (void)comm;
    return NULL;
}
#endif
