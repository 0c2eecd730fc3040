# SPDX-License-Identifier: Apache-2.0
"""ColossalAI 0.5.0 accepts what has no meaning: a negative clipping norm, with which nothing is clipped, a
growth_interval of 0, and, in HybridAdam, betas of 1. zerogauge.adapters.colossalai_gemini lets ColossalAI run on the
CPU."""
import sys

import torch
import torch.distributed as dist
import zerogauge.adapters.colossalai_gemini  # noqa: F401
from colossalai.nn.optimizer import HybridAdam
from colossalai.zero import GeminiDDP, GeminiOptimizer, LowLevelZeroOptimizer

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29545", rank=0, world_size=1)


def used(limit):
    """The gradient that Adam gets of one of 4: with beta1 = 0 it is exp_avg."""
    p = torch.nn.Parameter(torch.ones(4))
    optimizer = LowLevelZeroOptimizer(torch.optim.Adam([p], betas=(0.0, 0.9)), clip_grad_norm=limit)
    optimizer.backward((4 * p).sum())
    optimizer.step()
    return f"gradient 4 of norm 8 used as {next(iter(optimizer.optim.state.values()))['exp_avg'][0].item():g}"


def scaled(window):
    p = torch.nn.Parameter(torch.ones(1, dtype=torch.float16))
    optimizer = LowLevelZeroOptimizer(torch.optim.SGD([p], lr=1.0), initial_scale=4, growth_interval=window)
    for _ in range(3):
        optimizer.backward(p.float().sum())
        optimizer.step()
        optimizer.zero_grad()
    return f"loss scale after three steps {optimizer.mixed_precision_mixin.loss_scale:g}, at first 4"


def gemini(betas=(0.9, 0.999), limit=0.0):
    model = torch.nn.Linear(4, 1, bias=False)
    wrapped = GeminiDDP(model, {1: {"chunk_size": 4, "keep_gathered": False}}, offload_optim_frac=1.0,
                        mixed_precision=torch.bfloat16, enable_async_reduce=False)
    GeminiOptimizer(HybridAdam(model.parameters(), betas=betas), wrapped, max_norm=limit)
    return "accepted"


print("clip_grad_norm 1:", used(1.0))
accepted = 0
for name, run in {"clip_grad_norm -1": lambda: used(-1.0), "growth_interval 0": lambda: scaled(0),
                  "Gemini, max_norm -1": lambda: gemini(limit=-1.0),
                  "Gemini, betas of 1": lambda: gemini(betas=(1.0, 1.0))}.items():
    try:
        print(f"{name}: {run()}")
        accepted += 1
    except (ValueError, AssertionError) as error:
        print(f"{name}: refused: {error}")
sys.exit(accepted > 0)
