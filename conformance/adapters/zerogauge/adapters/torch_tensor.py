# SPDX-License-Identifier: Apache-2.0
"""The model of a case whose parameters are DTensors over tensor ranks, as parallelize_module leaves them."""
import torch
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

from zerogauge.pytorch import Model, TorchAdapter


class TensorModel(Model):
    """Units compute with their rank's part, and say what their gradients are: to_local's grad_placements."""

    def __init__(self, case, dtype, mesh):
        super().__init__(case, dtype)
        self.case, whole, made = case, Replicate(), {}
        for name, p in self.by_name.items():
            cut = case.mesh.cut(name)
            part = DTensor.from_local(p.detach(), mesh, [whole if cut is None else Shard(cut)])
            made[p] = self.by_name[name] = torch.nn.Parameter(part, requires_grad=p.requires_grad)
        for module in self.modules():
            module._parameters.update({path: made[p] for path, p in module._parameters.items()})
        self.number()

    def local(self, name, parameter):
        return parameter.to_local(grad_placements=[Partial()] if self.case.mesh.partial(name) else None)


def model_of(case, dtype=torch.float32):
    """A Model, whose attribute `mesh` is the case's; ranks of init_device_mesh are numbered like a case's."""
    if not case.mesh.is_given:
        return Model(case, dtype)
    sizes = {name: getattr(case.mesh, name) for name in ("replicate", "shard", "tensor")}
    mesh = init_device_mesh(TorchAdapter.device.type, tuple(sizes.values()), mesh_dim_names=tuple(sizes))
    model = TensorModel(case, torch.float32, mesh["tensor"]) if case.mesh.tensor > 1 else Model(case, torch.float32)
    model.mesh = mesh
    return model
