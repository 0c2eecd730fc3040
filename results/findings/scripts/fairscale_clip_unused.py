# SPDX-License-Identifier: Apache-2.0
"""fairscale's OSS.clip_grad_norm remembers which parameters had a gradient when it was first called, and counts no
others in the norm: one that a later step begins to use is clipped, but not counted. fairscale 0.4.13."""
import os
import sys

import torch
import torch.distributed as dist
from fairscale.optim import OSS

os.environ |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "29557"}
dist.init_process_group("gloo", rank=0, world_size=1)
p, q = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
optimizer, wrong = OSS([p, q], torch.optim.SGD, lr=1.0), 0
for step, (of_p, of_q) in enumerate(((3.0, None), (3.0, 4.0), (None, 4.0)), 1):
    for parameter, gradient in (p, of_p), (q, of_q):
        parameter.grad = None if gradient is None else torch.full((1,), gradient)
    expected = sum(gradient**2 for gradient in (of_p, of_q) if gradient is not None) ** 0.5
    norm = optimizer.clip_grad_norm(1.0).item()
    wrong += norm != expected
    print(f"step {step}: gradients {of_p} and {of_q}: norm {norm:g}, expected {expected:g}; clipped to "
          f"{[None if parameter.grad is None else round(parameter.grad.item(), 3) for parameter in (p, q)]}")
    optimizer.step()
sys.exit(wrong > 0)
