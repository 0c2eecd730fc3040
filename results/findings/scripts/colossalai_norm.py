# SPDX-License-Identifier: Apache-2.0
"""LowLevelZeroOptimizer (ColossalAI 0.5.0): the norm of subnormal bf16 gradients is 0: the sum of their squares is
rounded to fp32. zerogauge.adapters.colossalai_start lets ColossalAI run on the CPU."""
import sys

import torch
import torch.distributed as dist
import zerogauge.adapters.colossalai_start  # noqa: F401
from colossalai.zero import LowLevelZeroOptimizer

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29543", rank=0, world_size=1)
norms = []
for gradient in 1e-18, 1e-36:
    p = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
    optimizer = LowLevelZeroOptimizer(torch.optim.Adam([p]), clip_grad_norm=1.0)
    optimizer.backward((p.float() * gradient).sum())
    optimizer.step()
    norms.append(float(optimizer.get_grad_norm()))
    print(f"4 gradients of {gradient:g}: norm {norms[-1]:.3g}, expected {2 * gradient:g}")
sys.exit(norms[1] == 0)
