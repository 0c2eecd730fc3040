# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0
"""FSDP1: an empty parameter at the edge of a unit makes the optimizer's state unreadable.

Its range of elements meets no rank's shard, so that it gets no gradient, and no state of its own."""
import sys
try:
    import torch, torch.distributed as dist
    from torch.distributed.checkpoint.state_dict import get_optimizer_state_dict
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
except ImportError as missing:
    sys.exit(print(missing) or 77)

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
unit = torch.nn.Sequential(torch.nn.Linear(4, 1, bias=False), torch.nn.Linear(4, 0, bias=False))
unit.forward = lambda: sum(p.sum() for p in unit.parameters())
model = FSDP(unit, use_orig_params=True, device_id="cpu")
optimizer = torch.optim.Adam(model.parameters())
expected = actual = "saved"
model().backward()
optimizer.step()
try:
    get_optimizer_state_dict(model, optimizer)
except RuntimeError as error:
    actual = str(error).split(". ")[0]
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
