# SPDX-License-Identifier: Apache-2.0
"""An elastic checkpoint of DeepSpeed's stages 1 and 2 with PyTorch's Adam cannot be loaded. One rank. DeepSpeed 0.19.8."""
import os
import sys
import tempfile

os.environ |= {"DS_ACCELERATOR": "cpu", "RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1",
               "MASTER_PORT": "29535"}
import deepspeed
import torch


def made(stage, elastic):
    model = torch.nn.Linear(4, 4, bias=False)
    return deepspeed.initialize(model=model, model_parameters=model.parameters(), config={
        "train_batch_size": 1, "gradient_clipping": 0,
        "zero_optimization": {"stage": stage, "elastic_checkpoint": elastic},
        "optimizer": {"type": "Adam", "params": {"lr": 0.1, "torch_adam": True}}})[0]


deepspeed.utils.logger.setLevel("ERROR")
deepspeed.init_distributed(dist_backend="gloo")
for stage in 1, 2:
    for elastic in False, True:
        with tempfile.TemporaryDirectory() as folder:
            engine = made(stage, elastic)
            engine.backward(engine(torch.ones(1, 4)).sum())
            engine.step()
            engine.save_checkpoint(folder, tag="saved")
            try:
                text = "loaded" if made(stage, elastic).load_checkpoint(folder, tag="saved")[0] else "not loaded"
            except Exception as error:
                text = f"{type(error).__name__}: {error}"
        print(f"stage {stage}, elastic_checkpoint {elastic}: {text}", flush=True)
sys.exit()
