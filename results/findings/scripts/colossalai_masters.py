# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 einops psutil rich; pip install --no-deps colossalai==0.5.0
"""A 16-bit checkpoint of LowLevelZeroOptimizer has no master weights."""
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
p, q = (torch.nn.Parameter(torch.ones(1).bfloat16()) for _ in range(2))
first, resumed = (LowLevelZeroOptimizer(torch.optim.Adam([one], lr=0.001)) for one in (p, q))
first.backward(p.float().sum())
first.step()
q.data.copy_(p.data)
resumed.update_master_params(torch.nn.ParameterList([q]))  # as ColossalAI's plug-in does
resumed.load_state_dict(first.state_dict())
expected, actual = (one.working_to_master_param[id(w)].item() for one, w in ((first, p), (resumed, q)))
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
