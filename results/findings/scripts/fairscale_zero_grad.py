# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 fairscale==0.4.13
"""ShardedDataParallel reduces gradients in the first step alone, if zero_grad sets them to None.

It does so by default since PyTorch 2.0. The gradients of two ranks are 1 and 3, their mean is 2."""
import os, sys, tempfile
try:
    import torch, torch.distributed as dist
    from fairscale.nn.data_parallel import ShardedDataParallel
    from fairscale.optim import OSS
except ImportError as missing:
    sys.exit(print(missing) or 77)

file, rank = f"file://{tempfile.mkdtemp()}/ranks", int(os.fork() == 0)  # this process and its child
dist.init_process_group("gloo", init_method=file, rank=rank, world_size=2)
both = torch.nn.ModuleList(torch.nn.Linear(4, 1) for _ in range(2))  # of which a rank owns one
both.forward = lambda x: sum(layer(x) for layer in both)
optimizer = OSS(both.parameters(), torch.optim.SGD, lr=0.0)
wrapped, actual = ShardedDataParallel(both, optimizer), []
own = next(p for group in optimizer.partition_parameters()[rank] for p in group["params"] if p.dim() == 2)
for _ in range(3):
    wrapped(torch.full((1, 4), 1.0 + 2 * rank)).sum().backward()
    actual.append(own.grad[0, 0].item())
    optimizer.step()
    optimizer.zero_grad()
expected = [2.0] * 3
rank == 0 or os._exit(0)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
