# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0
"""Adam(fused=True) on a CPU rounds the last elements of a shard otherwise than the rest.

The world decides where shards end, and so the bits."""
import sys
try:
    import torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

gradients = torch.randn(5, 1000, generator=torch.Generator().manual_seed(1))


def exp_avg_sq(shards):
    parts = [torch.nn.Parameter(part.clone()) for part in torch.ones(1000).chunk(shards)]
    optimizer = torch.optim.Adam(parts, lr=0.01, fused=True)
    for gradient in gradients:
        for part, own in zip(parts, gradient.chunk(shards)):
            part.grad = own.clone()
        optimizer.step()
    return torch.cat([optimizer.state[p]["exp_avg_sq"] for p in parts])


expected = "of 1000 elements 0 differ in 3 shards, 0 in 8"
differ = {shards: int((exp_avg_sq(1) != exp_avg_sq(shards)).sum()) for shards in (3, 8)}
actual = f"of 1000 elements {differ[3]} differ in 3 shards, {differ[8]} in 8"
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
