# SPDX-License-Identifier: Apache-2.0
"""Hugging Face Accelerate with its DeepSpeed plug-in. State is read as by deepspeed_zero.py."""
import os

from zerogauge.adapters.deepspeed_zero import DeepSpeed, config_of, deepspeed, refuse
from zerogauge.pytorch import DTYPES, Model

os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
from accelerate import Accelerator  # noqa: E402
from accelerate.state import AcceleratorState, GradientState, PartialState  # noqa: E402
from accelerate.utils import DeepSpeedPlugin, DummyOptim  # noqa: E402


class AccelerateDeepSpeed(DeepSpeed):
    def build(self, case):
        refuse(case)
        os.environ["ACCELERATE_USE_DEEPSPEED"] = "true"
        self.model = Model(case, DTYPES[case.precision])
        for shared in AcceleratorState, PartialState, GradientState:  # one per process, so that of the last case
            shared._reset_state()
        deepspeed.init_distributed()
        plugin = DeepSpeedPlugin(hf_ds_config=config_of(case, self.arguments))
        self.accelerator = Accelerator(deepspeed_plugin=plugin, gradient_accumulation_steps=case.accumulation)
        groups = self.optimizer_groups(self.model.by_name, "decoupled")
        self.engine, self.prepared = self.accelerator.prepare(self.model, DummyOptim(groups))
        self.optimizer = self.engine.optimizer

    def micro_step(self, gradients):
        with self.accelerator.accumulate(self.engine):
            super().micro_step(gradients)

    def backward(self, loss):
        self.accelerator.backward(loss)  # and the engine's step

    def step(self):
        self.prepared.step()
        scale = getattr(self.optimizer, "loss_scale", None)
        return not self.engine.was_step_applied(), scale, self.engine.get_global_grad_norm()

    def save(self, path):
        self.accelerator.save_state(str(path))

    def load(self, path, weights_only):
        self.accelerator.load_state(str(path), **{"load_module_only": weights_only,
                                                  "load_optimizer_states": not weights_only})


if __name__ == "__main__":
    AccelerateDeepSpeed.main()
