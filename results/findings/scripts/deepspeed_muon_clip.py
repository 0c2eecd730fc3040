# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's Muon, stages 0 to 3: clipping divides the orthogonalised update, not the gradient, at stages 1 to 3. The
gradient's norm is below the threshold, so that nothing is to be clipped. DeepSpeed 0.19.8."""
import os
import sys

os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29561", "TORCHDYNAMO_DISABLE": "1"}
import deepspeed
import torch
from deepspeed.utils import safe_get_full_fp32_param

deepspeed.utils.logger.setLevel("ERROR")
deepspeed.init_distributed(dist_backend="gloo")
for stage in 0, 1, 2, 3:
    for threshold in 0.0, 0.25:
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(16, 16, bias=False), torch.nn.Linear(16, 1, bias=False))
        x = torch.full((1, 16), 0.01)
        model(x).sum().backward()
        gradient = torch.nn.utils.get_total_norm([p.grad for p in model.parameters()])
        model.zero_grad()
        engine, optimizer, _, _ = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
            "train_batch_size": 1, "gradient_clipping": threshold, "zero_optimization": {
                "stage": stage, "reduce_scatter": stage < 3}, "optimizer": {"type": "Muon", "params": {
                    "lr": 0.02, "momentum": 0.9, "ns_method": "standard", "torch_adam": True}}})
        before = model[0].weight.data.clone() if stage < 3 else safe_get_full_fp32_param(model[0].weight).clone()
        engine.backward(engine(x).sum())
        engine.step()
        moved = safe_get_full_fp32_param(model[0].weight) if stage else model[0].weight.data
        print(f"stage {stage}, gradient of norm {gradient:.4f}, gradient_clipping {threshold:g}: weight moved by "
              f"{(moved - before).norm():.4f}", flush=True)
        engine.destroy()
sys.exit()
