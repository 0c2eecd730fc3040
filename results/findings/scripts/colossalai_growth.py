# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 einops psutil rich; pip install --no-deps colossalai==0.5.0
"""LowLevelZeroOptimizer halves the gradient of a step after which the loss scale grows."""
import sys
from unittest.mock import MagicMock
try:
    import torch, torch.distributed as dist
    others = "galore_torch", "bitsandbytes", "bitsandbytes.optim", "bitsandbytes.optim.optimizer"  # not used here
    names = "GaLoreAdafactor", "GaLoreAdamW", "Optimizer2State"
    sys.modules |= dict.fromkeys(others, MagicMock(**dict.fromkeys(names, torch.optim.SGD)))
    from colossalai.accelerator import BaseAccelerator, get_accelerator, set_accelerator
except ImportError as missing:
    sys.exit(print(missing) or 77)

device = {"get_current_device.return_value": torch.device("cpu"), "device_count.return_value": 1}
set_accelerator(MagicMock(BaseAccelerator, **device))
get_accelerator().name = "cuda"  # the only name that ColossalAI takes
from colossalai.zero import LowLevelZeroOptimizer

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
p = torch.nn.Parameter(torch.full((1,), 10.0, dtype=torch.float16))
optimizer, values = LowLevelZeroOptimizer(torch.optim.SGD([p], lr=1.0), initial_scale=4, growth_interval=2), [p.item()]
for _ in range(4):
    optimizer.backward(p.float().sum())  # the gradient is 1, and so is lr
    optimizer.step()
    optimizer.zero_grad()
    values.append(p.item())
expected, actual = [1.0] * 4, [before - after for before, after in zip(values, values[1:])]
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
