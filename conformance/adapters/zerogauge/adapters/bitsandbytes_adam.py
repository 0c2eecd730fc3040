# SPDX-License-Identifier: Apache-2.0
"""Adam of bitsandbytes without sharding: its states are in 8 bits where a tensor has 4096 elements, in fp32 below.
--states 8-bit has them in 8 bits in all tensors."""
import bitsandbytes
import torch
import torch.distributed as dist

from zerogauge import MOMENTS, Unsupported
from zerogauge.pytorch import Model, TorchAdapter, hyper_parameters


class BitsAndBytes(TorchAdapter):
    options = {"states": ["fp32", "8-bit"]}
    claims = {"contract": 1, "name": "bitsandbytes, Adam8bit", "version": bitsandbytes.__version__, "stages": [0],
              "worlds": [1, 2], "precisions": ["fp32"], "offload_optimizer": ["none"], "offload_param": ["none"],
              "communication_dtypes": ["precision"], "knobs": [], "unused": "untouched",
              "features": ["lr_schedule", "groups", "tied", "frozen", "unused", "scalar"]}

    def build(self, case):
        if self.device.type == "cpu" and any(group["optimizer"] == "Adam" for group in case.groups):
            raise Unsupported("on a CPU all decay is decoupled")
        self.model = Model(case, torch.float32)
        self.optimizer = bitsandbytes.optim.AdamW8bit(
            self.optimizer_groups(self.model.by_name, "decoupled"), **hyper_parameters(case, 0),
            min_8bit_size=1 if self.arguments.states == "8-bit" else 4096)

    def step(self):
        for p in self.model.parameters():
            if p.grad is not None:
                dist.all_reduce(p.grad)
                p.grad /= self.case.world
        super().step()

    def state(self):
        tensors, t = {}, 0
        for name, p in self.model.by_name.items():
            state = self.optimizer.state.get(p, {})
            tensors[f"param/{name}"], t = p, max(t, state.get("step", 0))
            for kind, number in zip(MOMENTS, "12"):
                if state:
                    tensors[f"{kind}/{name}"] = self.dequantized(state, number)
        return self.gathered(tensors), t

    def dequantized(self, state, number):
        held = state[f"state{number}"]
        if held.dtype == torch.float32:
            return held
        return bitsandbytes.functional.dequantize_blockwise(
            held, absmax=state[f"absmax{number}"], code=state[f"qmap{number}"], blocksize=256)


if __name__ == "__main__":
    BitsAndBytes.main()
