# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed: stages 0 to 3, offload to CPU and NVMe. --offload TIER offloads the optimizer states in every case. The
other options choose among what DeepSpeed offers for the same result; deepspeed_config.py explains them."""
import importlib
import subprocess
import sys

import zerogauge.adapters.deepspeed_start  # noqa: F401  first: it selects the accelerator
import deepspeed
import torch.distributed as dist
from deepspeed.checkpoint.constants import UNIVERSAL_CHECKPOINT_INFO, UNIVERSAL_CHECKPOINT_VERSION_KEY
from deepspeed.checkpoint.constants import UNIVERSAL_CHECKPOINT_VERSION_VALUE
from deepspeed.runtime.sequence_parallel import parallel_state_sp as sequence_ranks
from deepspeed.utils import groups as process_groups
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

from zerogauge.adapters.deepspeed_config import CHOICES, add_ballast, config_of, refuse
from zerogauge.pytorch import DTYPES, MOMENTS, Model, TorchAdapter


def described(kind):
    """What the trainer adds to its checkpoint so that it can be converted: its tensors are data-parallel alone."""
    version = {UNIVERSAL_CHECKPOINT_VERSION_KEY: UNIVERSAL_CHECKPOINT_VERSION_VALUE}
    return {UNIVERSAL_CHECKPOINT_INFO: version} if kind == "universal" else {}


def converted(path, tag, meet):
    """Converts the checkpoint once; returns the new tag. Collective."""
    if dist.get_rank() == 0 and not (path / f"{tag}-universal").exists():
        subprocess.run([sys.executable, "-m", "deepspeed.checkpoint.ds_to_universal", "--num_extract_workers", "1",
                        "--num_merge_workers", "1", "--input_folder", path / tag,
                        "--output_folder", path / f"{tag}-universal"], check=True)
    meet()
    return f"{tag}-universal"


class DeepSpeed(TorchAdapter):
    options = {"offload": ["", "cpu", "nvme"], **CHOICES}

    def model_of(self, case):
        return Model(case, DTYPES[case.precision])

    def build(self, case):
        case.offload["optimizer"] = self.arguments.offload or case.offload["optimizer"]
        refuse(case)
        self.model = self.model_of(case)
        importlib.reload(process_groups)  # forgets the last case's mesh
        deepspeed.init_distributed()
        deepspeed.zero.Init.param_id = 0  # names the files on NVMe; 0 as in a new process
        groups = self.optimizer_groups(self.model.by_name, "decoupled")
        if case.offload["optimizer"] == "nvme":
            add_ballast(case, self.model, groups)
        self.engine, self.optimizer, _, _ = deepspeed.initialize(
            model=self.model, model_parameters=groups, config=config_of(case, self.arguments),
            **self.sequence_ranks(case))

    def sequence_ranks(self, case):
        """Arguments for ranks that share a micro-batch: an mpu, as Ulysses makes it, or the shape of a mesh."""
        if case.mesh.sequence == 1:
            return {}
        if self.arguments.sequence == "mesh":
            return {"mesh_param": (case.world // case.mesh.sequence, case.mesh.sequence)}
        sequence_ranks._release_sequence_parallel_groups()
        sequence_ranks.initialize_sequence_parallel(case.mesh.sequence)
        return {"mpu": sequence_ranks}

    def forward(self, gradients):
        return self.engine(gradients)

    def backward(self, loss):
        if self.arguments.micro == "backwards":
            self.engine.set_gradient_accumulation_boundary(self.is_last)
            return self.engine.backward(loss / self.case.accumulation)
        self.engine.backward(loss)
        if not self.is_last:
            self.engine.step()

    def step(self):
        self.engine.step()
        scale = getattr(self.optimizer, "loss_scale", None)
        return not self.engine.was_step_applied(), scale, self.engine.get_global_grad_norm()

    def state(self):
        inner, tensors = getattr(self.optimizer, "optimizer", self.optimizer), {}
        t = max((state.get("step", 0) for state in inner.state.values()), default=0)
        if t and hasattr(self.optimizer, "_hp_optimizer_states_linked"):  # DeepSpeed links only the first group's
            self.optimizer._hp_optimizer_states_linked = False
            self.optimizer._lazy_init_hp_params_optimizer_state()
        for name in self.model.by_name:
            parts = zip(("param", *MOMENTS), self.read(self.model.by_name[name], t))
            tensors |= {f"{kind}/{name}": tensor for kind, tensor in parts if tensor is not None}
        return tensors, t

    def read(self, p, t):
        """The full master parameter and moments."""
        if self.case.stage > 0 and p.requires_grad and getattr(p, "ds_numel", p.numel()):  # DeepSpeed omits empty ones
            moments = [safe_get_full_optimizer_state(p, kind) for kind in MOMENTS if t]
            return [safe_get_full_fp32_param(p), *moments]
        if hasattr(self.optimizer, "fp32_groups"):  # stage 0 in 16 bits: one list per group
            pairs = zip(sum(self.optimizer.fp16_groups, []), sum(self.optimizer.fp32_groups, []))
            p = next((master for half, master in pairs if half is p), p)
        with deepspeed.zero.GatheredParameters([p], enabled=self.case.stage == 3):
            return [p.float().clone(), *(self.optimizer.state.get(p, {}).get(kind) for kind in MOMENTS)]

    def save(self, path):
        self.engine.save_checkpoint(str(path), tag="zerogauge", client_state=described(self.arguments.checkpoint))

    def load(self, path, weights_only):
        # In stage 3, load_module_only alone silently leaves the parameters unchanged.
        whole = {"load_module_only": weights_only, "load_optimizer_states": not weights_only}
        tag = converted(path, "zerogauge", self.meet) if self.arguments.checkpoint == "universal" else "zerogauge"
        self.engine.load_checkpoint(str(path), tag=tag, **whole)

    def close(self):
        self.engine.destroy()


if __name__ == "__main__":
    DeepSpeed.main()
