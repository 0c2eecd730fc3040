# SPDX-License-Identifier: Apache-2.0
# git clone https://github.com/liangyuwang/Tiny-DeepSpeed; export PYTHONPATH=Tiny-DeepSpeed  # Tiny-DeepSpeed 1ca1850
"""Tiny-DeepSpeed: t counts parameters, not steps, so that each has another bias correction."""
import sys
try:
    import torch
    from tiny_deepspeed.core import AdamW
except ImportError as missing:
    sys.exit(print(missing) or 77)

named = {name: torch.nn.Parameter(torch.ones(1)) for name in ("first", "second")}
optimizer = AdamW(named, lr=0.5, eps=0)
for p in named.values():
    p.grad = torch.ones(1)
optimizer.step()
expected, actual = [0.5, 0.5], [round(p.item(), 4) for p in named.values()]
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
