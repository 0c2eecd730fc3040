# SPDX-License-Identifier: Apache-2.0
"""What checkpoints may hold, through every format and back; and damaged ones, each refused by name without output:

    python convert_damage.py ZEROGAUGE OUT"""
import os
import pickle
import shutil
import sys
from pathlib import Path

import numpy as np
import torch
import torch.distributed.checkpoint as dcp

sys.path.append(str(Path(__file__).resolve().parents[2]))  # of the package
from zerogauge import convert, states  # noqa: E402

SCALER = {"dynamic": True, "scale": 16.0, "iteration": 5, "last_overflow": 2, "hysteresis": 1, "window": 100,
          "hysteresis_start": 2, "consecutive": False, "min_scale": 1.0}
FAILED = []


def expect(claim, good):
    FAILED.extend([claim] * (not good))
    print(f"{'PASS' if good else 'FAIL'}: {claim}", flush=True)


def converted(source, out, form):
    """The digest, or the message of the refusal."""
    try:
        return convert.main([str(source), str(out), "--to", form])
    except SystemExit as refusal:
        return str(refusal)


def make(path, precision="fp16"):
    """Scalar, empty, tied, frozen and unused parameters, two groups, a t for each, and a name with a folder in it."""
    adam = {"lr": 0.1, "betas": [0.9, 0.99], "eps": 1e-8, "weight_decay": 0.0}
    state, tensors = states.new(5, 1, precision=precision, scaler=SCALER if precision == "fp16" else None, schedule=4,
                                groups=[adam, {**adam, "weight_decay": 0.1, "name": "decayed"}], tied={"out": "x/w"}), {}
    draw = np.random.default_rng(1)
    for name, shape, group, t in (("scalar", [], 0, 4), ("empty", [0, 5], 1, 4), ("x/w", [3, 5], 1, 4), ("v", [7], 0, 2),
                                  ("frozen", [2, 2], None, None), ("unused", [3], 0, None)):
        keys = ("param", *states.TRAINED) if t else ("param",)
        values = {key: np.asarray(draw.normal(size=shape), np.float32) for key in keys}
        states.add(state, tensors, name, values, group, t)
    return states.write(path, state, tensors)


def edit(file, change):
    """Changes what a file of torch.save holds."""
    value = torch.load(file, weights_only=False)
    change(value)
    torch.save(value, file)


def rewrite(file, change):
    metadata = pickle.loads(file.read_bytes())
    change(metadata)
    file.write_bytes(pickle.dumps(metadata))


class Unknown:
    pass


def cut(file):
    os.truncate(file, file.stat().st_size - 100)


TAG, W = "global_step5", "global_step5/zero/x/w"
OPTIMIZER, MODEL = f"{TAG}/zero/optimizer_state.pt", f"{TAG}/mp_rank_00_model_states.pt"
# By format: words of the refusal, and what happens to the folder before.
DAMAGES = {"universal": [
    ("exp_avg, exp_avg_sq and step belong together", lambda at: (at / W / "exp_avg.pt").unlink()),
    ("fp32.pt: is missing", lambda at: (at / W / "fp32.pt").unlink()),
    ("belong together", lambda at: (at / W / "step.pt").unlink()),
    ("optimizer_state.pt: is missing", lambda at: (at / OPTIMIZER).unlink()),
    ("zero/y: belongs to no parameter", lambda at: shutil.copytree(at / W, at / TAG / "zero" / "y")),
    ("does not hold a tensor in fp32", lambda at: torch.save({"param": torch.zeros(3, 5).double()}, at / W / "fp32.pt")),
    ("has the shape [5, 3]", lambda at: torch.save({"param": torch.zeros(5, 3)}, at / W / "exp_avg.pt")),
    ("exp_avg_sq.pt: is damaged", lambda at: cut(at / W / "exp_avg_sq.pt")),
    ("names the class __main__.Unknown", lambda at: torch.save({"param": Unknown()}, at / W / "fp32.pt")),
    ("is not a parameter's name", lambda at: edit(at / MODEL, lambda v: v["param_shapes"][0].update({"../w": (1,)}))),
    ("is not a parameter's name", lambda at: (at / "latest_universal").write_text("../saved")),
    ("no loss_scaler", lambda at: edit(at / OPTIMIZER, lambda v: v.pop("loss_scaler"))),
    ("its loss scale is 8", lambda at: edit(at / OPTIMIZER, lambda v: setattr(v["loss_scaler"], "cur_scale", 8.0))),
    ("expected a count of steps", lambda at: torch.save(-1, at / W / "step.pt")),
    ("no settings of group 1", lambda at: edit(at / OPTIMIZER, lambda v: v["param_groups"].pop())),
    ("groups.0.lr", lambda at: edit(at / OPTIMIZER, lambda v: v["param_groups"][0].pop("lr"))),
    ("is not a checkpoint", lambda at: [shutil.rmtree(at / TAG), (at / "latest_universal").unlink()])],
    "dcp": [
    ("belong together", lambda at: rewrite(at / ".metadata", lambda v: v.state_dict_metadata.pop("optim.state.x/w.exp_avg"))),
    ("which no checkpoint of PyTorch has there", lambda at: (at / ".metadata").write_bytes(pickle.dumps(os.system))),
    ("15 of its 15 elements are missing", lambda at: rewrite(
        at / ".metadata", lambda v: v.state_dict_metadata["model.x/w"].chunks.clear())),
    ("15 are there twice", lambda at: rewrite(
        at / ".metadata", lambda v: v.state_dict_metadata["model.x/w"].chunks.extend(v.state_dict_metadata["model.x/w"].chunks))),
    ("has no data", lambda at: rewrite(at / ".metadata", lambda v: v.storage_data.clear())),
    ("expected a plain file", lambda at: rewrite(at / ".metadata", lambda v: [
        setattr(place, "relative_path", "../x") for place in v.storage_data.values()])),
    ("is truncated", lambda at: cut(at / "__0_0.distcp")),
    ("is not the metadata", lambda at: cut(at / ".metadata")),
    ("weights alone are an export", lambda at: dcp.save({"model": {"w": torch.zeros(2)}}, checkpoint_id=at, no_dist=True)),
    ("which is not part of Adam", lambda at: rewrite(at / ".metadata", lambda v: v.state_dict_metadata.update(
        {"optim.state.x/w.max_exp_avg_sq": v.state_dict_metadata["model.x/w"]}))),
    ("belongs to no group of settings", lambda at: rewrite(at / ".metadata", lambda v: [
        v.state_dict_metadata.pop(key) for key in [*v.state_dict_metadata] if key.startswith("optim.param_groups")])),
    ("expected fp32", lambda at: dcp.save({"model": {"w": torch.zeros(2).bfloat16()}, "optim": {"state": {"w": {
        "exp_avg": torch.zeros(2), "exp_avg_sq": torch.zeros(2), "step": torch.tensor(1.0)}}, "param_groups": [
            {"params": ["w"], "lr": 0.1}]}}, checkpoint_id=at, no_dist=True))]}


def main():
    zerogauge, out = Path(sys.argv[1]).resolve(), Path(sys.argv[2])
    os.environ["PATH"] = f"{zerogauge.parent}:{os.environ['PATH']}"
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    os.chdir(out)
    for precision in ("fp16", "bf16", "fp32"):
        source, digests = Path(f"{precision}.safetensors"), {make(Path(f"{precision}.safetensors"), precision)}
        for at, form in enumerate(("universal", "dcp", "universal", "safetensors", "dcp", "safetensors")):
            digests.add(converted(source, Path(f"{precision}-{at}"), form))
            source = Path(f"{precision}-{at}")
        expect(f"{precision}: six conversions of what is awkward, one digest: {' '.join(sorted(digests))}", len(digests) == 1)
    for form, damages in DAMAGES.items():
        converted("fp16.safetensors", form, form)
        for index, (words, change) in enumerate(damages):
            shutil.copytree(form, f"{form}-{index}")
            change(Path(f"{form}-{index}"))
            said = converted(f"{form}-{index}", f"made-{form}-{index}", "dcp" if form == "universal" else "universal")
            expect(f"{form}, {words}: {said}", said.startswith("zerogauge convert: ") and words in said and
                   not list(Path().glob(f"made-{form}-{index}*")))
    Path("text").write_text("nothing")
    for source, words in (("text", "is not a safetensors file"), ("nowhere", "nowhere"), ("fp16.safetensors", "exists")):
        said = converted(source, "universal", "universal") if words == "exists" else converted(source, "made", "dcp")
        expect(f"{words}: {said}", words in said and not Path("made").exists())
    print(f"{len(FAILED)} failed")
    return len(FAILED) > 0


if __name__ == "__main__":
    sys.exit(main())
