# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0
"""FSDP1: the second backward fails if a unit of frozen parameters between others returns its input."""
import os, sys, tempfile
try:
    import torch, torch.distributed as dist
    from torch.distributed.fsdp import FullyShardedDataParallel as FSDP
except ImportError as missing:
    sys.exit(print(missing) or 77)

class Unit(torch.nn.Linear):
    def forward(self, loss):
        return loss + self.weight.sum() if self.weight.requires_grad else loss  # as a layer that is skipped does

file, rank = f"file://{tempfile.mkdtemp()}/ranks", int(os.fork() == 0)  # this process and its child
dist.init_process_group("gloo", init_method=file, rank=rank, world_size=2)
options = {"use_orig_params": True, "device_id": "cpu"}
units = (FSDP(Unit(4, 1, bias=False).requires_grad_(used), **options) for used in (True, False, True))
model = FSDP(torch.nn.Sequential(*units), **options)
expected = actual = "two backward passes"
try:
    for _ in range(2):
        model(torch.zeros(())).backward()
except ValueError as error:
    actual = " ".join(str(error).split())
rank == 0 or os._exit(0)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
