# SPDX-License-Identifier: Apache-2.0
"""Adam(fused=True) on a CPU: the last elements of a tensor round otherwise than the rest, so that the bits of a sharded
tensor depend on the number of shards. PyTorch 2.15.0."""
import torch

STEPS, ELEMENTS = 5, 1000
GRADIENTS = torch.randn(STEPS, ELEMENTS, generator=torch.Generator().manual_seed(1))


def trained(shards, **form):
    parts = [torch.nn.Parameter(part.clone()) for part in torch.ones(ELEMENTS).chunk(shards)]
    optimizer = torch.optim.Adam(parts, lr=0.01, **form)
    for gradient in GRADIENTS:
        for part, own in zip(parts, gradient.chunk(shards)):
            part.grad = own.clone()
        optimizer.step()
    return [torch.cat([optimizer.state[p][kind] if kind else p.detach() for p in parts])
            for kind in (None, "exp_avg", "exp_avg_sq")]


for form in {"fused": True}, {"foreach": True}, {"foreach": False}:
    for shards in 3, 8:
        counts = ", ".join(f"{int((a.view(torch.int32) != b.view(torch.int32)).sum())} {name}" for name, a, b in zip(
            ("parameters", "exp_avg", "exp_avg_sq"), trained(1, **form), trained(shards, **form)))
        print(f"{form}, {shards} shards compared with 1, of {ELEMENTS} elements differ: {counts}")
