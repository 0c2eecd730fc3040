# SPDX-License-Identifier: Apache-2.0
"""Gemini (ColossalAI 0.5.0) in bf16 with its optimizer on the host clips nothing: CPUAdam and HybridAdam do not pass the
coefficient to their own update of bf16 gradients. zerogauge.adapters.colossalai_gemini lets Gemini run on the CPU."""
import torch
import torch.distributed as dist
import zerogauge.adapters.colossalai_gemini  # noqa: F401
from colossalai.nn.optimizer import HybridAdam
from colossalai.zero import GeminiDDP, GeminiOptimizer

dist.init_process_group("gloo", init_method="tcp://127.0.0.1:29537", rank=0, world_size=1)
for limit in 0, 1:
    model = torch.nn.Linear(4, 1, bias=False)
    wrapped = GeminiDDP(model, {1: {"chunk_size": 4, "keep_gathered": False}}, offload_optim_frac=1.0,
                        mixed_precision=torch.bfloat16, enable_async_reduce=False)
    optimizer = GeminiOptimizer(HybridAdam(model.parameters(), betas=(0.0, 0.9)), wrapped, max_norm=limit)
    optimizer.backward(wrapped(torch.full((1, 4), 4.0)).sum())
    optimizer.step()
    used = next(iter(optimizer.optim.state.values()))["exp_avg"]  # with beta1 = 0 this is the gradient
    print(f"max_norm {limit}: gradient 4 of 4 weights, norm {optimizer.get_grad_norm()}; used: {used.tolist()}")
