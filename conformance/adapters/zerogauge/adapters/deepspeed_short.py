# SPDX-License-Identifier: Apache-2.0
"""DeepSpeed in fp32, in as few lines as an adapter needs; deepspeed_zero.py has all of its features."""
import zerogauge.adapters.deepspeed_start  # noqa: F401  first: it selects the accelerator
import deepspeed
from deepspeed.utils import safe_get_full_fp32_param, safe_get_full_optimizer_state

from zerogauge import MOMENTS
from zerogauge.pytorch import Model, TorchAdapter, torch


class DeepSpeedShort(TorchAdapter):
    claims = {**TorchAdapter.plain, "name": "DeepSpeed, by the short adapter", "version": deepspeed.__version__,
              "stages": [1, 2, 3], "worlds": [1, 2, 4], "clip_form": "deepspeed", "unused": "zero_gradient",
              "features": ["accumulation", "clipping", "lr_schedule", "groups", "tied"]}

    def build(self, case):
        self.model = Model(case, torch.float32)
        deepspeed.init_distributed()
        adam = torch.optim.Adam(self.optimizer_groups(self.model.by_name, "decoupled_weight_decay"))
        self.engine, self.optimizer, *_ = deepspeed.initialize(model=self.model, optimizer=adam, config={
            "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": case.accumulation,
            "gradient_clipping": case.gradient_clipping,  # without the key it clips at 1
            "zero_allow_untested_optimizer": True,
            "zero_optimization": {"stage": case.stage, "stage3_param_persistence_threshold": 0}})

    def forward(self, gradients):
        return self.engine(gradients)

    def backward(self, loss):
        self.engine.backward(loss)  # which divides by gradient_accumulation_steps
        if not self.is_last:
            self.engine.step()

    def step(self):
        self.engine.step()
        return False, None, self.engine.get_global_grad_norm()

    def state(self):
        tensors, t = {}, max((state["step"] for state in self.optimizer.state.values() if "step" in state), default=0)
        for name, p in self.model.by_name.items():
            tensors[f"param/{name}"] = safe_get_full_fp32_param(p)
            tensors |= {f"{kind}/{name}": safe_get_full_optimizer_state(p, kind) for kind in MOMENTS if t}
        return tensors, t

    def close(self):
        self.engine.destroy()


if __name__ == "__main__":
    DeepSpeedShort.main()
