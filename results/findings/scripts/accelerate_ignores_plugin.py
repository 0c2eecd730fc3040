# SPDX-License-Identifier: Apache-2.0
"""On the CPU, Accelerate ignores its FSDP plug-in without a word: DDP trains the model with cpu=True, and
each rank trains alone without it. Accelerate 1.15.0."""
import os

import torch
from accelerate import Accelerator
from accelerate.utils import FullyShardedDataParallelPlugin


def run(rank, cpu):
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2", "LOCAL_WORLD_SIZE": "2",
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29513"}
    accelerator = Accelerator(cpu=cpu, fsdp_plugin=FullyShardedDataParallelPlugin(fsdp_version=2))
    model = torch.nn.Linear(4, 2)
    model, optimizer = accelerator.prepare(model, torch.optim.Adam(model.parameters()))
    if rank == 0:
        print(f"cpu={cpu}: {accelerator.distributed_type}, {accelerator.num_processes} processes, "
              f"{type(model).__name__}, {sum(p.numel() for p in model.parameters())} of 10 parameters on rank 0", flush=True)
    accelerator.end_training()


if __name__ == "__main__":
    for cpu in True, False:
        torch.multiprocessing.start_processes(run, (cpu,), 2, start_method="fork")
