# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""Muon at stages 1 to 3: gradient_clipping divides the orthogonal update, not the gradient.

The gradient's norm, 0.03, is below the threshold, so that clipping is to change nothing."""
import os, sys
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0", "TORCHDYNAMO_DISABLE": "1"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

def moved(stage, threshold):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(16, 16, bias=False), torch.nn.Linear(16, 1, bias=False))
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "gradient_clipping": threshold, "zero_optimization": {
            "stage": stage, "reduce_scatter": stage < 3}, "optimizer": {"type": "Muon", "params": {
                "lr": 0.02, "momentum": 0.9, "ns_method": "standard", "torch_adam": True}}})[0]
    before = deepspeed.utils.safe_get_full_fp32_param(model[0].weight).clone()
    engine.backward(engine(torch.full((1, 16), 0.01)).sum())
    engine.step()
    return f"{(deepspeed.utils.safe_get_full_fp32_param(model[0].weight) - before).norm():.4f}"


deepspeed.init_distributed(dist_backend="gloo")
expected, actual = ([moved(stage, threshold) for stage in (1, 2, 3)] for threshold in (0.0, 0.25))
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
