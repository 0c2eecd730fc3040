# SPDX-License-Identifier: Apache-2.0
"""Adam of torchao without sharding: its states are in 8 bits where a tensor has a multiple of 256 elements and at least
4096, in fp32 otherwise. Parameters are padded with zeros, to 4096 elements with --states 8-bit, to 1000 without: each
length is compiled for itself."""
import os

os.environ.setdefault("TORCHINDUCTOR_COMPILE_THREADS", "1")  # each rank compiles in its own process
import torch  # noqa: E402
import torch.distributed as dist  # noqa: E402
import torchao  # noqa: E402
from torchao.optim import Adam8bit, AdamW8bit  # noqa: E402

from zerogauge import MOMENTS  # noqa: E402
from zerogauge.pytorch import Model, TorchAdapter, hyper_parameters  # noqa: E402


class TorchAO(TorchAdapter):
    options = {"states": ["fp32", "8-bit"]}
    claims = {"contract": 1, "name": "torchao, Adam8bit and AdamW8bit", "version": torchao.__version__, "stages": [0],
              "worlds": [1, 2], "precisions": ["fp32"], "offload_optimizer": ["none"], "offload_param": ["none"],
              "communication_dtypes": ["precision"], "knobs": [], "unused": "untouched",
              "features": ["l2", "lr_schedule", "groups", "tied", "frozen", "unused", "varying_use", "scalar"]}

    def build(self, case):
        self.model = Model(case, torch.float32)
        self.padded = {name: torch.nn.Parameter(self.pad(p)) for name, p in self.model.by_name.items()}
        Adam = AdamW8bit if case.common("optimizer") == "AdamW" else Adam8bit
        self.optimizer = Adam(self.optimizer_groups(self.padded, "decoupled"), **hyper_parameters(case, 0))

    def pad(self, tensor):
        size = 4096 if self.arguments.states == "8-bit" else 1000
        return torch.nn.functional.pad(tensor.detach().reshape(-1), (0, -tensor.numel() % size))

    def set_lr(self, step):
        for group in self.optimizer.param_groups:
            group["lr"].fill_(self.case.lr(group["index"], step))

    def step(self):
        for name, p in self.model.by_name.items():
            self.padded[name].grad = None if p.grad is None else self.pad(p.grad)
            if p.grad is not None:
                dist.all_reduce(self.padded[name].grad)
                self.padded[name].grad /= self.case.world
        self.optimizer.step()
        self.model.zero_grad()
        for name, p in self.model.by_name.items():
            p.data.copy_(self.cut(name, self.padded[name]))

    def cut(self, name, padded):
        p = self.model.by_name[name]
        return padded.detach()[:p.numel()].reshape(p.shape)

    def state(self):
        tensors, t = {f"param/{name}": p for name, p in self.model.by_name.items()}, 0
        for name, padded in self.padded.items():
            state = self.optimizer.state.get(padded, {})
            t = max(t, int(state.get("step", 0)))
            tensors |= {f"{kind}/{name}": self.cut(name, getattr(state[kind], "dequantize", lambda k=kind: state[k])())
                        for kind in MOMENTS if kind in state}
        return self.gathered(tensors), t


if __name__ == "__main__":
    TorchAO.main()
