# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 einops psutil rich; pip install --no-deps colossalai==0.5.0
"""Gemini on the host does not clip bf16 gradients: HybridAdam ignores its div_scale."""
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
from colossalai.kernel.kernel_loader import CPUAdamLoader
from colossalai.nn.optimizer import HybridAdam

CPUAdamLoader.load = MagicMock()  # serves fp32 and fp16, and is compiled with CUDA's headers
p = torch.nn.Parameter(torch.ones(1, dtype=torch.bfloat16))
p.grad = torch.full_like(p, 8.0)
optimizer = HybridAdam([p], betas=(0.0, 0.9))  # with beta1 = 0 exp_avg is the gradient
optimizer.step(div_scale=8.0)  # as GeminiOptimizer passes its clipping
expected, actual = 1.0, optimizer.state[p]["exp_avg"].item()
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
