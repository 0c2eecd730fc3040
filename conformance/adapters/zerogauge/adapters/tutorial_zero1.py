# SPDX-License-Identifier: Apache-2.0
"""ZeRO-1 of the tutorial Tiny-DeepSpeed (github.com/liangyuwang/Tiny-DeepSpeed, in PYTHONPATH): whole tensors by rank."""
import torch
from tiny_deepspeed.core import Zero1, Zero1AdamW, partition_tensors

from zerogauge.pytorch import TorchAdapter, hyper_parameters, tensor_of

torch.cuda.synchronize = lambda: None  # it is written for GPUs, by their numbers
zeros_like, torch.zeros_like = torch.zeros_like, lambda tensor, device: zeros_like(tensor)


class Layers(torch.nn.ModuleDict):
    """Each parameter as the weight of a linear layer, which a unit matrix multiplies."""

    def forward(self, gradients):
        return sum((layer(torch.eye(layer.in_features)).t() * tensor_of(gradients[name]).reshape(len(layer.weight), -1)).sum()
                   for name, layer in self.items())


class Tutorial(TorchAdapter):
    claims = {"contract": 1, "name": "Tiny-DeepSpeed, ZeRO-1", "version": "1ca1850", "stages": [1], "worlds": [1, 2, 3, 4],
              "precisions": ["fp32"], "offload_optimizer": ["none"], "offload_param": ["none"], "knobs": [], "features": []}

    def build(self, case):
        whole = {name: tensor_of(a).reshape(len(a), -1) for name, a in case.initial().items()}
        self.layers = Layers({name: torch.nn.Linear(w.shape[1], len(w), bias=None) for name, w in whole.items()})
        parts, _ = partition_tensors(dict(self.layers.named_parameters()), ranks_map=["cpu"] * case.world)
        self.model = Zero1(self.layers, parts)
        for name, layer in self.layers.items():
            layer.weight.data = whole[name]
        self.count, self.optimizer = 0, Zero1AdamW(self.layers.named_parameters(), **hyper_parameters(case, 0), param_part_table=parts)

    def forward(self, gradients):
        self.model.require_backward_grad_sync = True
        return self.model(gradients)

    def seen(self):
        return {p["name"]: self.layers[p["name"]].weight.detach().clone().reshape(p["shape"]) for p in self.case.params}

    def step(self):
        self.optimizer.step()
        self.count += 1

    def state(self):
        mine = [name for name in self.layers if self.optimizer.param_part_table[f"{name}.weight"] == self.case.rank]
        held = {"exp_avg": self.optimizer.moments, "exp_avg_sq": self.optimizer.velocities}
        tensors = {f"{kind}/{name}": of[f"{name}.weight"] for kind, of in held.items() for name in mine}
        return self.gathered(tensors | {f"param/{name}": self.layers[name].weight for name in mine}), self.count


if __name__ == "__main__":
    Tutorial.main()
