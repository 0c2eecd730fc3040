# SPDX-License-Identifier: Apache-2.0
"""Lightning Fabric with FSDP2, by its ModelParallelStrategy."""
import torch
from lightning_fabric import Fabric
from lightning_fabric.strategies import ModelParallelStrategy
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

from zerogauge.adapters.torch_wrap import refuse, refuse_load
from zerogauge.pytorch import DTYPES, Model, TorchAdapter, hyper_parameters


class FabricFSDP2(TorchAdapter):
    def build(self, case):
        refuse(case, "fsdp2")
        low = {"param_dtype": DTYPES[case.precision], "reduce_dtype": DTYPES[case.communication_dtype]}

        def parallelize(model, mesh):
            for module in [*model.units, model]:
                fully_shard(module, mesh=mesh["data_parallel"], reshard_after_forward=case.stage == 3,
                            mp_policy=MixedPrecisionPolicy(**low, cast_forward_inputs=False))
            return model

        strategy = ModelParallelStrategy(parallelize, data_parallel_size=case.world, tensor_parallel_size=1)
        self.fabric = Fabric(accelerator=self.device.type, devices=case.world, strategy=strategy)
        self.fabric.launch()
        self.model = Model(case, torch.float32)
        self.wrapped = self.fabric.setup_module(self.model)
        groups = self.optimizer_groups(self.named(self.model), "decoupled_weight_decay")
        self.optimizer = self.fabric.setup_optimizers(torch.optim.Adam(groups, **hyper_parameters(case, 0)))
        self.whole = {"model": self.wrapped, "optimizer": self.optimizer}

    def micro_step(self, gradients):
        with self.fabric.no_backward_sync(self.wrapped, enabled=not self.is_last):
            super().micro_step(gradients)

    def backward(self, loss):
        self.fabric.backward(loss / self.case.accumulation)

    def step(self):
        limit, norm = self.case.gradient_clipping, None
        if limit:
            norm = self.fabric.clip_gradients(self.wrapped, self.optimizer, max_norm=limit)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return False, None, getattr(norm, "full_tensor", lambda: norm)()

    def save(self, path):
        self.fabric.save(path / "saved", self.whole)

    def load(self, path, weights_only):
        refuse_load(self.case, weights_only)
        self.fabric.load(path / "saved", self.whole)


if __name__ == "__main__":
    FabricFSDP2.main()
