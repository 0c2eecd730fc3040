# SPDX-License-Identifier: Apache-2.0
"""ZeRO-1 of the tutorial Tiny-DeepSpeed (github.com/liangyuwang/Tiny-DeepSpeed, in PYTHONPATH): whole tensors by rank,
each the weight of a linear layer, which a unit matrix multiplies."""
import torch
from tiny_deepspeed.core import Zero1, Zero1AdamW, partition_tensors

from zerogauge.pytorch import TorchAdapter, hyper_parameters, tensor_of

torch.cuda.synchronize = lambda: None  # it is written for GPUs, by their numbers
zeros_like, torch.zeros_like = torch.zeros_like, lambda tensor, device: zeros_like(tensor)


class Tutorial(TorchAdapter):
    def build(self, case):
        whole = {name: tensor_of(a).reshape(len(a), -1) for name, a in case.initial().items()}
        layers = {name: torch.nn.Linear(w.shape[1], len(w), bias=None) for name, w in whole.items()}
        self.layers, self.count = torch.nn.ModuleDict(layers), 0
        parts, _ = partition_tensors(dict(self.layers.named_parameters()), ranks_map=[self.device.type] * case.world)
        self.model = Zero1(self.layers, parts)  # replaces the layers
        for name, layer in self.layers.items():
            layer.weight.data = whole[name]
        self.optimizer = Zero1AdamW(self.layers.named_parameters(), **hyper_parameters(case, 0), param_part_table=parts)
        self.mine = [name for name in self.layers if parts[f"{name}.weight"] == case.rank]

    def forward(self, gradients):
        self.model.enable_grad_sync()
        self.model.seen = {name: layer.weight.detach().clone().reshape(gradients[name].shape)
                           for name, layer in self.layers.items()}
        return sum((layer(torch.eye(layer.in_features, device=self.device)).t() * tensor_of(gradients[name]).reshape(layer.weight.shape)).sum()
                   for name, layer in self.layers.items())

    def step(self):
        self.optimizer.step()
        self.count += 1

    def state(self):
        held = {"exp_avg": self.optimizer.moments, "exp_avg_sq": self.optimizer.velocities,
                "param": self.optimizer.parameters}
        return self.gathered({f"{kind}/{n}": of[f"{n}.weight"] for kind, of in held.items() for n in self.mine}), self.count


if __name__ == "__main__":
    Tutorial.main()
