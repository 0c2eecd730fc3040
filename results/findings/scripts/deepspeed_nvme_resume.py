# SPDX-License-Identifier: Apache-2.0
# pip install torch==2.15.0 deepspeed==0.19.8
"""NVMe: a run that resumes has no moments, and its t is 1."""
import os, sys, tempfile
os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "0"}
try:
    import deepspeed, torch
except ImportError as missing:
    sys.exit(print(missing) or 77)

def exp_avg(steps, load, save):
    deepspeed.zero.Init.param_id = 0  # names the files; 0 as in a new process
    model = torch.nn.Linear(1024, 1024, bias=False)  # of 4 MiB in fp32; its gradient is 1
    engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "gradient_clipping": 0, "bf16": {"enabled": True}, "zero_optimization": {
            "stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": folder}},
        "optimizer": {"type": "Adam", "params": {"lr": 1e-3, "betas": [0.5, 0.9]}}})[0]
    assert not load or engine.load_checkpoint(folder, tag="saved")[0]
    for step in steps:
        engine.backward(engine(torch.ones(1, 1024).bfloat16()).float().sum())
        engine.step()
        assert step != save or engine.save_checkpoint(folder, tag="saved")
    return deepspeed.utils.safe_get_full_optimizer_state(model.weight, "exp_avg")[0, 0].item()

deepspeed.init_distributed(dist_backend="gloo")
folder = tempfile.mkdtemp()
expected, actual = exp_avg([1, 2], False, 1), exp_avg([2], True, None)
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
