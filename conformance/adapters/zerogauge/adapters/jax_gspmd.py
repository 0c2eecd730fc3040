# SPDX-License-Identifier: Apache-2.0
"""ZeRO in JAX, with optax and GSPMD: a device for each rank, all in one process. The devices share Adam's states; at stage
2 gradients that are added, and at stage 3 parameters, too."""
import jax
import jax.numpy as jnp
import numpy as np
import optax
from jax.flatten_util import ravel_pytree
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from zerogauge import OneProcess

jax.config.update("jax_num_cpu_devices", 4)


class Jax(OneProcess):
    claims = {"contract": 1, "name": "JAX and optax", "version": jax.__version__, "stages": [1, 2, 3], "worlds": [1, 2, 4],
              "precisions": ["fp32"], "offload_optimizer": ["none"], "offload_param": ["none"],
              "communication_dtypes": ["precision"], "unused": "zero_gradient",
              "features": ["accumulation", "l2", "lr_schedule", "tied", "unused", "varying_use", "empty", "scalar"]}

    def build(self, case):
        group, mesh = case.groups[0], Mesh(jax.devices()[:case.world], "rank")
        self.shard, whole = NamedSharding(mesh, PartitionSpec("rank")), NamedSharding(mesh, PartitionSpec())
        self.parameters, self.sum, kept = case.initial(), 0, self.shard if case.stage == 3 else whole
        self.flat, self.unflat = jax.device_put(self.flatten(self.parameters), kept), ravel_pytree(self.parameters)[1]
        decay, adam = optax.add_decayed_weights(group["weight_decay"]), optax.scale_by_adam(*group["betas"], group["eps"])
        chain = optax.chain(adam, decay) if group["optimizer"] == "AdamW" else optax.chain(decay, adam)
        self.states = jax.tree.map(lambda leaf: jax.device_put(leaf, self.shard if leaf.ndim else whole),
                                   chain.init(self.flat))

        def reduced(gradients):  # a reduce-scatter
            return jax.lax.with_sharding_constraint(gradients.mean(0), self.shard)

        def update(flat, states, gradients, lr):  # the sum below becomes an all-gather where flat is whole
            change, states = chain.update(reduced(gradients) if case.stage == 1 else gradients, states, flat)
            return jax.lax.with_sharding_constraint(flat - lr * change, kept), states
        self.update, self.reduce = jax.jit(update), jax.jit(reduced)

    def flatten(self, tree):
        flat = ravel_pytree(tree)[0]
        return jnp.pad(flat, (0, -flat.size % self.case.world))

    def backward(self, losses):
        zeros = {name: np.zeros_like(p) for name, p in self.parameters.items()}
        mine = np.stack([self.flatten({**zeros, **loss.gradients}) for loss in losses]) / self.case.accumulation
        self.sum += mine if self.case.stage == 1 else self.reduce(jax.device_put(np.float32(mine), self.shard))

    def step(self):
        gradients = jax.device_put(np.float32(self.sum), self.shard) if self.case.stage == 1 else self.sum
        self.flat, self.states = self.update(self.flat, self.states, gradients, self.lr[0])
        self.parameters, self.sum = self.unflatten(self.flat), 0

    def unflatten(self, flat):
        return self.unflat(np.array(flat)[:sum(p.size for p in self.parameters.values())])

    def state(self):
        adam = next(state for state in self.states if hasattr(state, "mu"))
        kinds = {"param": self.flat, "exp_avg": adam.mu, "exp_avg_sq": adam.nu}
        return {f"{kind}/{name}": tensor for kind, flat in kinds.items()
                for name, tensor in self.unflatten(flat).items()}, adam.count


if __name__ == "__main__":
    Jax.main()
