# SPDX-License-Identifier: Apache-2.0
"""LowLevelZeroOptimizer in fp16 (ColossalAI 0.5.0): the step after which the loss scale grows uses half the gradient.
zerogauge.adapters.colossalai_start lets ColossalAI run on the CPU."""
import torch
import torch.distributed as dist
import zerogauge.adapters.colossalai_start  # noqa: F401
from colossalai.zero import LowLevelZeroOptimizer

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29521", rank=0, world_size=1)
p = torch.nn.Parameter(torch.full((1,), 10.0, dtype=torch.float16))
optimizer = LowLevelZeroOptimizer(torch.optim.SGD([p], lr=1.0), initial_scale=4, growth_interval=2)
for step in range(1, 5):
    before = p.item()
    optimizer.backward(p.float().sum())  # gradient 1
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step}: gradient 1, lr 1: moved by {before - p.item():g}, "
          f"scale then {optimizer.mixed_precision_mixin.loss_scale:g}")
