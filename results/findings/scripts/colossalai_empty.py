# SPDX-License-Identifier: Apache-2.0
"""LowLevelZeroOptimizer (ColossalAI 0.5.0) and a parameter without elements, on two ranks.
zerogauge.adapters.colossalai_start lets ColossalAI run on the CPU."""
import os

import torch
import torch.distributed as dist
import zerogauge.adapters.colossalai_start  # noqa: F401
from colossalai.zero import LowLevelZeroOptimizer


def run(rank, stage):
    dist.init_process_group("gloo", init_method=f"tcp://127.0.0.1:{29523 + stage}", rank=rank, world_size=2)
    parameters = [torch.nn.Parameter(torch.ones(size)) for size in (4, 0)]
    try:
        optimizer = LowLevelZeroOptimizer(torch.optim.SGD(parameters, lr=1.0), partition_grad=stage == 2)
        optimizer.backward(sum(p.sum() for p in parameters))
        optimizer.step()
        print(f"stage {stage}, rank {rank}: {parameters[0].tolist()}", flush=True)
    except Exception as error:
        print(f"stage {stage}, rank {rank}: {type(error).__name__}: {error}", flush=True)
    os._exit(0)  # a rank that waits for the other would wait for ever


if __name__ == "__main__":
    for stage in 1, 2:
        torch.multiprocessing.start_processes(run, (stage,), 2, start_method="fork")
