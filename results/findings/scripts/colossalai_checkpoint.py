# SPDX-License-Identifier: Apache-2.0
"""LowLevelZeroOptimizer (ColossalAI 0.5.0): a checkpoint has neither the fp32 master weights nor the loss scale, so
that a run resumed in 16 bits is another one. zerogauge.adapters.colossalai_start lets ColossalAI run on the CPU."""
import sys

import torch
import torch.distributed as dist
import zerogauge.adapters.colossalai_start  # noqa: F401
from colossalai.zero import LowLevelZeroOptimizer

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29541", rank=0, world_size=1)


def made(dtype):
    p = torch.nn.Parameter(torch.ones(1, dtype=dtype))
    options = {"initial_scale": 4, "growth_interval": 2} if dtype == torch.float16 else {}
    return p, LowLevelZeroOptimizer(torch.optim.Adam([p], lr=0.001), **options)


def step(p, optimizer):
    optimizer.backward(p.float().sum())
    optimizer.step()
    optimizer.zero_grad()
    master = optimizer.working_to_master_param[id(p)].item()
    return f"{master:.6f}", getattr(optimizer.mixed_precision_mixin, "loss_scale", None)


differs = 0
for dtype in torch.float32, torch.bfloat16, torch.float16:
    p, optimizer = made(dtype)
    for _ in range(3):
        step(p, optimizer)
    saved, (q, resumed) = optimizer.state_dict(), made(dtype)
    q.data.copy_(p.data)
    resumed.update_master_params(torch.nn.ParameterList([q]))  # as ColossalAI's plug-in does
    resumed.load_state_dict(saved)
    whole, other = step(p, optimizer), step(q, resumed)
    differs += whole != other
    print(f"{dtype}: step 4: master weight and loss scale {whole}, after a checkpoint {other}")
sys.exit(differs > 0)
