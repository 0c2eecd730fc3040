# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed without ZeRO, in fp32, clips by a function of its own, not by torch.nn.utils.clip_grad_norm_: the
coefficient is a quotient of two fp32 tensors, and the norm the sum of the ranks' norms, each divided by their number.
DeepSpeed 0.19.8."""
import multiprocessing
import os
import sys


def run(rank, world, port):
    os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": str(world),
                   "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port)}
    import deepspeed
    import torch
    from deepspeed.runtime.utils import clip_grad_norm_

    deepspeed.utils.logger.setLevel("ERROR")
    deepspeed.init_distributed(dist_backend="gloo")
    torch.manual_seed(1)
    norms = clipped = 0
    for _ in range(1000):  # the same gradients on all ranks
        p, q = (torch.nn.Parameter(torch.zeros(10)) for _ in range(2))
        p.grad = torch.randn(10)
        q.grad = p.grad.clone()
        norm = torch.nn.utils.clip_grad_norm_([p], 0.1, foreach=False)
        norms += int(clip_grad_norm_([q], 0.1) != norm)
        clipped += int(not torch.equal(p.grad, q.grad))
    if rank == 0:
        print(f"{world} ranks, of 1000 clipped gradients of 10 elements differ from PyTorch's: {norms} norms, "
              f"{clipped} gradients", flush=True)
    sys.exit(clipped > 0)


if __name__ == "__main__":
    differ = 0
    for world in 1, 2, 3:
        ranks = [multiprocessing.Process(target=run, args=(rank, world, 29553 + world)) for rank in range(world)]
        [rank.start() for rank in ranks]
        [rank.join() for rank in ranks]
        differ += ranks[0].exitcode
    sys.exit(differ > 0)
