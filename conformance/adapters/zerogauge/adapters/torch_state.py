# SPDX-License-Identifier: Apache-2.0
"""Reads and restores the full state of model, optimizer and scaler behind any of PyTorch's wrappers. All calls are
collective."""
import torch
from torch.distributed.checkpoint import state_dict as dcp
from torch.distributed.optim import ZeroRedundancyOptimizer

from zerogauge import MOMENTS

WHOLE = {"options": dcp.StateDictOptions(full_state_dict=True, strict=False)}


def whole(model, optimizer, scaler, applied):
    """Complete on rank 0 only. Does not ask for the optimizer's state before the first applied step: that would create
    it."""
    state = {"state": {}}
    if applied and not isinstance(optimizer, ZeroRedundancyOptimizer):
        state = dcp.get_optimizer_state_dict(model, optimizer, **WHOLE)
    elif applied:
        optimizer.consolidate_state_dict(to=0)
        state = optimizer.state_dict() if torch.distributed.get_rank() == 0 else state
    return {"model": dcp.get_model_state_dict(model, **WHOLE), "optimizer": state, "scaler": scaler.state_dict()}


def answer_of(saved, paths, trained):
    """The tensors of an answer, and t. The optimizer's state is indexed by path, or by position in the optimizer."""
    tensors, states = {}, saved["optimizer"]["state"]
    for name, path in paths.items():
        tensors[f"param/{name}"] = saved["model"][path]
        state = states.get(path) or (states.get(trained.index(name), {}) if name in trained else {})
        tensors.update({f"{kind}/{name}": state[kind] for kind in MOMENTS if kind in state})
    return tensors, max((state["step"] for state in states.values() if "step" in state), default=0)


def restore(saved, paths, model, optimizer, scaler, weights_only):
    """Returns whether the optimizer has state afterwards. A tied parameter is loaded by only one of its paths."""
    dcp.set_model_state_dict(model, {path: saved["model"][path] for path in paths.values()}, **WHOLE)
    state = {} if weights_only else saved["optimizer"]["state"]
    if not weights_only:
        scaler.load_state_dict(saved["scaler"])
    if state and isinstance(optimizer, ZeroRedundancyOptimizer):
        optimizer.load_state_dict(saved["optimizer"])
    elif state:
        dcp.set_optimizer_state_dict(model, optimizer, saved["optimizer"], **WHOLE)
    return bool(state)
