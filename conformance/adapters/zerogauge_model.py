# SPDX-License-Identifier: Apache-2.0
"""The model of a case: a linear loss whose gradients are the tensors of the case."""
import torch


class Uses(torch.nn.Module):
    """A module with some of the parameters. It adds sum(parameter x gradient) to the loss, and records the parameters
    that it used."""

    def __init__(self, model, named):
        super().__init__()
        self.model, self.names = [model], [name for name, _ in named]  # in a list, the model is not a submodule
        for i, (_, parameter) in enumerate(named):
            self.register_parameter(f"p{i}", parameter)

    def forward(self, loss):
        model = self.model[0]
        for i, name in enumerate(self.names):
            used = getattr(self, f"p{i}").to(model.dtype)
            if name in model.used:
                model.seen[name] = used.detach().clone()
            if name in model.gradients:  # in fp32, so that only S x gradient is rounded to `precision`
                loss = loss + (used.float() * model.gradients[name].float()).sum()
        return loss


class Model(torch.nn.Module):
    """Units of about a bucket each, in model order. Tied parameters belong to the root, as FSDP requires."""

    def __init__(self, case, dtype):
        super().__init__()
        initial, self.dtype, tied = case.initial(), case.dtype, {p["tied_to"] for p in case.params}
        self.used = {p["name"] for p in case.params if p["used"]}
        self.by_name, own, units, size = {}, [], [[]], 0
        for p in case.params:
            name, owner = p["name"], p["tied_to"] or p["name"]
            if owner == name:
                self.by_name[name] = torch.nn.Parameter(initial[name].to(dtype), requires_grad=not p["frozen"])
            if owner in tied:
                own.append((name, self.by_name[owner]))
                continue
            if units[-1] and size + initial[name].numel() > case.buckets["reduce"]:
                units, size = units + [[]], 0
            units[-1].append((name, self.by_name[name]))
            size += initial[name].numel()
        self.units = torch.nn.ModuleList(Uses(self, unit) for unit in units if unit)
        self.own = Uses(self, own)
        self.name_of = {parameter: name for name, parameter in self.by_name.items()}

    def forward(self, gradients):
        self.gradients, self.seen = gradients, {}
        loss = self.own(torch.zeros(()))
        for unit in self.units:
            loss = unit(loss)
        return loss
