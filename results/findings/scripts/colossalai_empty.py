# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 einops psutil rich; pip install --no-deps colossalai==0.5.0
"""LowLevelZeroOptimizer on two ranks fails on a parameter without elements."""
import os, sys, tempfile
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
file, rank = f"file://{tempfile.mkdtemp()}/ranks", int(os.fork() == 0)  # this process and its child
dist.init_process_group("gloo", init_method=file, rank=rank, world_size=2)
parameters, expected, actual = [torch.nn.Parameter(torch.ones(size)) for size in (4, 0)], "a step", "a step"
try:
    optimizer = LowLevelZeroOptimizer(torch.optim.SGD(parameters, lr=1.0))
    optimizer.backward(sum(p.sum() for p in parameters))
    optimizer.step()
except IndexError as error:
    actual = repr(error)
rank == 0 or os._exit(0)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
