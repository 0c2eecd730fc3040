# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""Stage 3: backward fails in a leaf module whose input needs no gradient.

The module's backward hook runs before its parameters have gradients, as behind an embedding that is frozen."""
import os, sys
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

deepspeed.init_distributed(dist_backend="gloo")
expected, actual = {needs: "gradient 1" for needs in (True, False)}, {}
for needs in expected:
    model = torch.nn.Sequential(torch.nn.Linear(4, 4, bias=False))
    deepspeed.utils.set_z3_leaf_modules(model, [torch.nn.Linear])
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "gradient_clipping": 0, "zero_optimization": {"stage": 3},
        "optimizer": {"type": "Adam", "params": {"lr": 0.1, "betas": [0.0, 0.9], "torch_adam": True}}})[0]
    try:
        engine.backward(engine(torch.ones(1, 4, requires_grad=needs)).sum())
        engine.step()
        moment = deepspeed.utils.safe_get_full_optimizer_state(model[0].weight, "exp_avg")
        actual[needs] = f"gradient {moment[0, 0]:g}"
    except RuntimeError as error:
        actual[needs] = str(error)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
