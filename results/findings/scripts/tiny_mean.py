# SPDX-License-Identifier: Apache-2.0
# git clone https://github.com/liangyuwang/Tiny-DeepSpeed; export PYTHONPATH=Tiny-DeepSpeed  # Tiny-DeepSpeed 1ca1850
"""Tiny-DeepSpeed: Zero1 adds the ranks' gradients, and does not average them."""
import os, sys, tempfile
try:
    import torch, torch.distributed as dist
    from tiny_deepspeed.core import Zero1
except ImportError as missing:
    sys.exit(print(missing) or 77)

torch.cuda.synchronize = lambda: None  # there is none
file, rank = f"file://{tempfile.mkdtemp()}/ranks", int(os.fork() == 0)  # this process and its child
dist.init_process_group("gloo", init_method=file, rank=rank, world_size=2)
model = Zero1(torch.nn.Sequential(torch.nn.Linear(1, 1, bias=None)), {"0.weight": 0})
model.require_backward_grad_sync = True
model(torch.tensor([[1.0 + 2 * rank]])).sum().backward()  # the gradients are 1 and 3
rank == 0 or os._exit(0)
expected, actual = 2.0, model.module[0].weight.grad.item()
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
