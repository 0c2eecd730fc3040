# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0
"""fully_shard accepts a parameter without elements, and backward fails."""
import sys
try:
    import torch, torch.distributed as dist
    from torch.distributed.fsdp import fully_shard
except ImportError as missing:
    sys.exit(print(missing) or 77)

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
unit = torch.nn.Sequential(torch.nn.Linear(4, 1, bias=False), torch.nn.Linear(4, 0, bias=False))
unit.forward = lambda: sum(p.sum() for p in unit.parameters())
expected = actual = "a backward pass"
try:
    fully_shard(unit)().backward()
except RuntimeError as error:
    actual = str(error).splitlines()[0]
dist.destroy_process_group()
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
