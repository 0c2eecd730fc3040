# SPDX-License-Identifier: Apache-2.0
"""Adam and the mean of Tiny-DeepSpeed at 1ca1850, which must be in PYTHONPATH: t counts parameters, decay is added to
the gradient, and ranks' gradients are summed."""
import os

import torch
import torch.distributed as dist

torch.cuda.synchronize = lambda: None
from tiny_deepspeed.core import AdamW, Zero1  # noqa: E402


def moved(gradient, weight_decay):
    named = {name: torch.nn.Parameter(torch.ones(1)) for name in ("first", "second")}
    optimizer = AdamW(named, lr=0.1, eps=0, weight_decay=weight_decay)
    for p in named.values():
        p.grad = torch.full((1,), float(gradient))
    optimizer.step()
    return [f"{1 - p.item():.4g}" for p in named.values()]


def run(rank):
    os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29519"}
    dist.init_process_group("gloo", rank=rank, world_size=2)
    model = Zero1(torch.nn.Sequential(torch.nn.Linear(1, 1, bias=None)), {"0.weight": 0})
    model.require_backward_grad_sync = True
    model(torch.tensor([[1.0 + 2 * rank]])).sum().backward()
    if rank == 0:
        print(f"gradients 1 and 3 of two ranks: {model.module[0].weight.grad.item():g}, mean 2")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    print("gradient 1, lr 0.1: step 1 moves the parameters by", *moved(1, 0), "expected 0.1 0.1")
    print("gradient 0, decay 0.5, lr 0.1: by", *moved(0, 0.5), "expected 0.05 0.05")
    torch.multiprocessing.start_processes(run, (), 2, start_method="fork")
