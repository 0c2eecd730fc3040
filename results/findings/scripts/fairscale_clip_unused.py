# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 fairscale==0.4.13
"""OSS.clip_grad_norm counts the parameters that had a gradient when it was first called, and no others."""
import sys
try:
    import torch, torch.distributed as dist
    from fairscale.optim import OSS
except ImportError as missing:
    sys.exit(print(missing) or 77)

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:0", rank=0, world_size=1)
p, q = (torch.nn.Parameter(torch.zeros(1)) for _ in range(2))
optimizer = OSS([p, q], torch.optim.SGD, lr=1.0)
p.grad = torch.full((1,), 3.0)
norms = [optimizer.clip_grad_norm(9.0).item()]
q.grad = torch.full((1,), 4.0)
expected, actual = [3.0, 5.0], norms + [optimizer.clip_grad_norm(9.0).item()]
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
