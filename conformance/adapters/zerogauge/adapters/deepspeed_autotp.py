# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's AutoTP: it cuts linear layers over tensor ranks, by patterns of their names. A layer gets the gradient of
the case by its product with a unit matrix."""
import torch

from zerogauge import Shard, Unsupported
from zerogauge.adapters.deepspeed_zero import DeepSpeed
from zerogauge.pytorch import DTYPES, Model, Uses, tensor_of


class Cut(Uses):
    """A parameter as the weight of a linear layer; a vector is a matrix of one column."""

    def __init__(self, model, name, whole, dimension):
        super().__init__(model, [])
        self.name, self.kind = name, ["column", "row"][dimension]
        matrix = tensor_of(whole).to(model.dtype).reshape(len(whole), -1)
        layer = torch.nn.Linear(*reversed(matrix.shape), bias=False)
        layer.weight = torch.nn.Parameter(matrix)
        setattr(self, self.kind, layer)

    def forward(self, loss):
        model, layer, name = self.model[0], getattr(self, self.kind), self.name
        shape = model.part_shape[name]
        model.seen[name] = layer.weight.detach().clone().reshape(shape)
        gradient = model.gradients[name].reshape(layer.weight.shape)
        product = layer(torch.eye(layer.weight.shape[1], dtype=layer.weight.dtype, device=layer.weight.device))
        return loss + (product.float() * gradient.float().t()).sum()


class CutModel(Model):
    """forward takes the gradients of set_gradients: AutoTP demands that all tensor ranks call it alike."""

    def __init__(self, case, dtype):
        cut = [p["name"] for p in case.params if case.mesh.cut(p["name"]) is not None]
        super().__init__(case, dtype, apart=cut)
        self.part_shape, whole = {name: p.shape for name, p in self.by_name.items()}, case.initial()
        self.cut = {name: Cut(self, name, whole[name], case.mesh.cut(name)) for name in cut}
        self.units.extend(self.cut.values())
        self.follow()

    def follow(self):
        self.by_name.update({name: getattr(unit, unit.kind).weight for name, unit in self.cut.items()})
        self.number()

    def forward(self):
        return super().forward(self.given)


class AutoTP(DeepSpeed):
    def model_of(self, case):
        if any(case.mesh.partial(p["name"]) for p in case.params):
            raise Unsupported("there is no sequence parallelism")
        case.deepspeed_keys = {"tensor_parallel": {"autotp_size": case.mesh.tensor, "partition_config": {
            "use_default_specs": False, "layer_specs": [{"patterns": [f".*\\.{kind}\\.weight$"], "partition_type": kind}
                                                       for kind in ("column", "row")]}}}
        return CutModel(case, DTYPES[case.precision])

    def build(self, case):
        super().build(case)
        self.model.follow()

    def forward(self, gradients):
        self.model.given = gradients
        return self.engine()

    def state(self):
        tensors, t = super().state()
        return self.gathered({name: Shard(tensor, 0) for name, tensor in tensors.items()}), t


if __name__ == "__main__":
    AutoTP.main()
