# SPDX-License-Identifier: Apache-2.0
"""fairscale's ShardedDataParallel averages gradients in the first step alone, if zero_grad sets them to None, as it does
by default since PyTorch 2.0. Rank 0's gradient is 1, rank 1's is 3; the mean is 2. fairscale 0.4.13."""
import os
import sys

import torch
import torch.distributed as dist
from fairscale.nn.data_parallel import ShardedDataParallel
from fairscale.optim import OSS


def run(rank, set_to_none):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29511"}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = torch.nn.Linear(4, 1)
    optimizer = OSS(model.parameters(), torch.optim.SGD, lr=0.0)
    wrapped = ShardedDataParallel(model, optimizer)
    owner = next(rank for rank, groups in enumerate(optimizer.partition_parameters()) if any(p is model.weight for p in groups[0]["params"]))
    for step in 1, 2, 3:
        wrapped(torch.full((1, 4), 1.0 + 2 * rank)).sum().backward()
        if rank == owner:
            print(f"zero_grad(set_to_none={set_to_none}): step {step}: gradient {model.weight.grad[0, 0]:g}, mean 2",
                  flush=True)
        optimizer.step()
        optimizer.zero_grad(set_to_none=set_to_none)
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    for set_to_none in False, True:
        torch.multiprocessing.start_processes(run, (set_to_none,), 2, start_method="fork")
    sys.exit()
