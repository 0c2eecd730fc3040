# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed's universal checkpoints, as ds_to_universal.py of 0.19.8 writes them for stages 1 to 3:

    latest_universal                        the name of the folder next to it
    FOLDER/zero/NAME/fp32.pt, exp_avg.pt, exp_avg_sq.pt, step.pt
    FOLDER/zero/optimizer_state.pt          settings of groups, loss scaler; in stage 3 also the step
    FOLDER/*mp_rank_00_model_states.pt      names, shapes, steps, schedule; in stage 3, one for each rank

What is written here serves all stages. All files are pickles: only tensors, plain values and DeepSpeed's loss scalers are
read."""
import math
import re
import sys
import types
from pathlib import PurePosixPath
from unittest.mock import patch

import torch

from zerogauge.states import TRAINED, Refused, add, kept, new, restore, settings, whole

RELEASE = "0.19.8"
MODEL, MODEL3 = "mp_rank_00_model_states.pt", "zero_pp_rank_{}_mp_rank_00_model_states.pt"
SCALERS = "deepspeed.runtime.fp16.loss_scaler"
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}
# Keys of a scaler here and there.
SCALER = {"scale": "cur_scale", "iteration": "cur_iter", "last_overflow": "last_overflow_iter",
          "hysteresis": "cur_hysteresis", "window": "scale_window", "hysteresis_start": "delayed_shift",
          "consecutive": "consecutive_hysteresis", "min_scale": "min_scale"}
NEW_SCALER = {"cur_iter": 0, "last_overflow_iter": -1, "cur_hysteresis": 0}  # of a static one, which does not count


LossScaler, DynamicLossScaler = (type(name, (), {"__module__": SCALERS}) for name in ("LossScaler", "DynamicLossScaler"))
ALLOWED = [(cls, f"{SCALERS}.{cls.__name__}") for cls in (LossScaler, DynamicLossScaler)] + [
    (int, "deepspeed.runtime.zero.config.ZeroStageEnum"), (dict, "deepspeed.utils.tensor_fragment.fragment_address")]


def unpickled(file, where):
    """What torch.save has written, without running anything that it names."""
    try:
        with torch.serialization.safe_globals(ALLOWED):
            return torch.load(file, map_location="cpu", weights_only=True)
    except Exception as error:  # of a pickle, an archive or a file, of many types
        known = re.search(r"GLOBAL (\S+)", str(error))
        raise Refused(f"{where}: names the class {known[1]}, which no checkpoint has there; it is not loaded" if known else
                      f"{where}: is damaged: {' '.join(str(error).split())[:120]}") from error


def load(path):
    if not path.is_file():
        raise Refused(f"{path}: is missing; no tensor is taken to be zero")
    return unpickled(path, path)


def folder_of(zero, name):
    """The folder of a parameter; its name must not lead elsewhere."""
    parts = PurePosixPath(name).parts
    if not parts or name.startswith("/") or ".." in parts or "\0" in name:
        raise Refused(f"{zero}: \"{name}\" is not a parameter's name")
    return zero.joinpath(*parts)


def tensor_of(path, shape):
    """The tensor of one state; stage 3's are flat."""
    value = load(path)
    value = value["param"] if isinstance(value, dict) and "param" in value else value
    if not torch.is_tensor(value) or value.dtype != torch.float32:
        raise Refused(f"{path}: does not hold a tensor in fp32")
    if list(value.shape) not in (list(shape), [math.prod(shape)]):
        raise Refused(f"{path}: has the shape {list(value.shape)}, the parameter {list(shape)}")
    return value.detach().reshape(tuple(shape)).numpy()


def read_scaler(scaler, precision):
    values = vars(scaler) if isinstance(scaler, (LossScaler, DynamicLossScaler)) else {}
    if not values and precision == "fp16":
        raise Refused("optimizer_state.pt: has no loss_scaler, but the model is in fp16")
    if not values or (not values["dynamic"] and values["cur_scale"] == 1 and precision != "fp16"):
        return None
    if not values["dynamic"]:
        values = {"dynamic": False, "cur_scale": values["cur_scale"], **NEW_SCALER}
    elif values["scale_factor"] != 2:
        raise Refused(f"optimizer_state.pt: the loss scaler's factor is {values['scale_factor']}, expected 2")
    scaler = {key: values[there] for key, there in SCALER.items() if there in values}
    return {**scaler, "dynamic": values["dynamic"], **{key: float(scaler[key]) for key in ("scale", "min_scale")
                                                       if key in scaler}}


def read(path):
    latest = path / "latest_universal"
    folder = folder_of(path, latest.read_text().strip()) if latest.is_file() else path
    zero, model_path = folder / "zero", folder / MODEL
    model = load(model_path if model_path.is_file() else folder / MODEL3.format(0))
    if list(folder.glob("*mp_rank_01_model_states.pt")):
        raise Refused(f"{folder}: is of several ranks of tensor parallelism, which is not supported")
    optimizer = load(zero / "optimizer_state.pt")
    inner = optimizer.get("optimizer_state_dict", {})
    groups = optimizer.get("param_groups") or inner.get("param_groups") or []
    state, tensors = new(*(whole(model[key], key) for key in ("global_steps", "skipped_steps"))), {}
    counted = any(zero.rglob("step.pt"))  # else, as in stage 3, all parameters of a group have one t
    state["groups"] = [settings(group) for group in groups]
    state["tied"] = dict(model.get("shared_params") or {})
    for index, shapes in enumerate(model["param_shapes"]):
        group = next((g for g, row in enumerate(groups) if index in row["params"]), None)
        if group is None:
            raise Refused(f"{zero / 'optimizer_state.pt'}: has no settings of group {index}")
        for name, shape in shapes.items():
            own = folder_of(zero, name)
            values = {"param": tensor_of(own / "fp32.pt", shape),
                      **{key: tensor_of(own / f"{key}.pt", shape) for key in TRAINED if (own / f"{key}.pt").exists()}}
            t = load(own / "step.pt") if (own / "step.pt").exists() else None if counted or len(values) == 1 else \
                inner.get("state", {}).get(index, {}).get("step")
            add(state, tensors, name, values, group, None if t is None else whole(t, f"{own / 'step.pt'}: t"))
    for name, value in model["module"].items():
        if name not in state["parameters"] and name not in state["tied"]:
            add(state, tensors, name, {"param": not_trained(folder, model, name, value)})
    known = {folder_of(zero, name) for name in (*state["parameters"], *state["tied"])}
    for extra in sorted({file.parent for file in zero.rglob("*.pt")} - known - {zero}):
        raise Refused(f"{extra}: belongs to no parameter of the model")
    trained = [model["module"][name].dtype for name, row in state["parameters"].items() if row["group"] is not None]
    state["precision"] = next((key for key, dtype in DTYPES.items() if trained[:1] == [dtype]), "fp32")
    state["scaler"] = read_scaler(optimizer.get("loss_scaler"), state["precision"])
    if isinstance(model.get("lr_scheduler"), dict) and "last_batch_iteration" in model["lr_scheduler"]:
        state["schedule"] = whole(model["lr_scheduler"]["last_batch_iteration"] + 1, "lr_scheduler")
    scale = (state["scaler"] or {"scale": 1})["scale"]
    restore(state, model.get("zerogauge"))
    if (state["scaler"] or {"scale": 1})["scale"] != scale:
        raise Refused(f"{folder}: its loss scale is {scale}, its entry \"zerogauge\" says otherwise")
    return state, tensors


def not_trained(folder, model, name, value):
    """A frozen parameter or a buffer; in stage 3, frozen ones are in pieces, by rank."""
    own, shapes = folder_of(folder / "zero", name), model.get("frozen_param_shapes") or {}
    if (own / "fp32.pt").exists():
        return tensor_of(own / "fp32.pt", shapes.get(name, value.shape))
    if name in shapes and value.numel() == 0:
        ranks = [load(folder / MODEL3.format(rank)) for rank in range(whole(model["dp_world_size"], "dp_world_size"))]
        value = torch.cat([rank["frozen_param_fragments"][name].reshape(-1) for rank in ranks])
        if value.numel() < math.prod(shapes[name]):
            raise Refused(f"{folder}: {name} has {value.numel()} elements, expected {math.prod(shapes[name])}")
        value = value[:math.prod(shapes[name])].reshape(tuple(shapes[name]))
    if not value.is_floating_point() or value.dtype == torch.float64:
        raise Refused(f"{folder}: {name} is in {value.dtype}, expected fp32, bf16 or fp16")
    return value.detach().float().numpy()


def make_scaler(scaler):
    made = (DynamicLossScaler if scaler["dynamic"] else LossScaler)()
    vars(made).update({there: scaler[key] for key, there in SCALER.items() if key in scaler}, dynamic=scaler["dynamic"])
    if scaler["dynamic"]:
        vars(made).update(scale_factor=2.0, raise_error_at_min_scale=True, dtype=torch.float16)
    return made


def write(path, state, tensors):
    folder = path / f"global_step{state['step']}"
    folder.mkdir(parents=True)
    groups = [{**group, **({"betas": tuple(group["betas"])} if "betas" in group else {}), "params": [index]}
              for index, group in enumerate(state["groups"])]
    shapes, module, steps = [{} for _ in groups], {}, [0] * len(groups)
    for name, row in state["parameters"].items():
        own = folder_of(folder / "zero", name)
        own.mkdir(parents=True)
        full = torch.from_numpy(tensors[f"param/{name}"].copy())
        module[name] = full.to(DTYPES[state["precision"]])
        if row["group"] is None and not torch.equal(module[name].float(), full):
            module[name] = full  # of a frozen parameter or a buffer, there is no other copy
        torch.save({"param": full} | ({} if row["group"] is None else {"cat_dim": 0}), own / "fp32.pt")
        if row["group"] is not None:
            shapes[row["group"]][name] = full.shape
        if row["t"] is not None:
            # PyTorch's optimizers, whose groups have this setting, count in tensors; DeepSpeed's in integers.
            tensor = "capturable" in state["groups"][row["group"]]
            steps[row["group"]] = torch.tensor(float(row["t"])) if tensor else row["t"]
            torch.save(steps[row["group"]], own / "step.pt")
            for key in TRAINED:
                torch.save({"cat_dim": 0, "param": torch.from_numpy(tensors[f"{key}/{name}"].copy())}, own / f"{key}.pt")
    for name, target in state["tied"].items():
        module[name] = module[target]
    position = None if state["schedule"] is None else {"last_batch_iteration": state["schedule"] - 1}
    model = {"module": module, "buffer_names": [], "optimizer": None, "param_shapes": shapes, "frozen_param_shapes": None,
             "shared_params": state["tied"], "frozen_param_fragments": None, "lr_scheduler": position,
             "data_sampler": None, "random_ltd": None, "skipped_steps": state["skipped"], "global_steps": state["step"],
             "dp_world_size": 1, "mp_world_size": 1, "ds_version": RELEASE,
             "universal_checkpoint_info": {"universal_checkpoint_version": 0.4},
             "zerogauge": kept(state, "scaler", "origin")}
    optimizer = {"param_groups": groups, "overflow": False, "ds_version": RELEASE, "optimizer_state_dict": {
        "state": {index: {"step": step} for index, step in enumerate(steps)}, "param_groups": groups}}
    if state["scaler"]:
        optimizer |= {"loss_scaler": make_scaler(state["scaler"]), "dynamic_loss_scale": state["scaler"]["dynamic"]}
    stand_in = types.SimpleNamespace(LossScaler=LossScaler, DynamicLossScaler=DynamicLossScaler)
    with patch.dict(sys.modules, {"deepspeed": stand_in, SCALERS: stand_in}):  # pickles name the class by its module
        torch.save(optimizer, folder / "zero" / "optimizer_state.pt")
    torch.save(model, folder / MODEL)
    torch.save(model, folder / MODEL3.format(0))
    (path / "latest_universal").write_text(folder.name)
