# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 einops psutil rich; pip install --no-deps colossalai==0.5.0
"""LowLevelZeroOptimizer: the norm of subnormal gradients is 0."""
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
p = torch.nn.Parameter(torch.ones(4, dtype=torch.bfloat16))
optimizer = LowLevelZeroOptimizer(torch.optim.Adam([p]), clip_grad_norm=1.0)
optimizer.backward((p.float() * 2.0**-120).sum())  # four gradients of 2^-120: the sum of squares underflows in fp32
optimizer.step()
expected, actual = 2.0**-119, float(optimizer.get_grad_norm())
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
