# SPDX-License-Identifier: Apache-2.0
# git clone https://github.com/liangyuwang/Tiny-DeepSpeed; export PYTHONPATH=Tiny-DeepSpeed  # Tiny-DeepSpeed 1ca1850
"""Tiny-DeepSpeed: AdamW adds the decay to the gradient, so that the moments contain it."""
import sys
try:
    import torch
    from tiny_deepspeed.core import AdamW
except ImportError as missing:
    sys.exit(print(missing) or 77)

p = torch.nn.Parameter(torch.ones(1))
optimizer = AdamW({"p": p}, lr=0.5, weight_decay=0.5)
p.grad = torch.zeros(1)
optimizer.step()
expected, actual = 0.75, round(p.item(), 4)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
