# SPDX-License-Identifier: Apache-2.0
"""optax's Adam under GSPMD on two devices: with the same gradients, the bits of parameters that are whole, as at ZeRO's
stage 1, and of parameters that are shards, as at stage 3, differ. JAX 0.10.2, optax 0.2.8."""
import jax
import numpy as np
import optax
from jax.sharding import Mesh, NamedSharding, PartitionSpec

jax.config.update("jax_num_cpu_devices", 2)
mesh, adam = Mesh(jax.devices(), "rank"), optax.scale_by_adam(0.9, 0.999, 1e-8)
shard, whole = NamedSharding(mesh, PartitionSpec("rank")), NamedSharding(mesh, PartitionSpec())


def trained(kept, gradients):
    """Parameters and moments after each step; kept: how parameters are sharded. Moments are shards at both stages."""
    @jax.jit
    def step(p, state, gradient):
        update, state = adam.update(jax.lax.with_sharding_constraint(gradient, shard), state, p)
        return jax.lax.with_sharding_constraint(p - 0.01 * update, kept), state

    p, history = jax.device_put(np.linspace(-1, 1, gradients.shape[1], dtype=np.float32), kept), []
    state = jax.tree.map(lambda leaf: jax.device_put(leaf, shard if leaf.ndim else whole), adam.init(p))
    for gradient in gradients:
        p, state = step(p, state, gradient)
        history.append({"parameters": np.array(p), "exp_avg": np.array(state.mu), "exp_avg_sq": np.array(state.nu)})
    return history


gradients = np.random.default_rng(1).standard_normal((5, 1000), dtype=np.float32)
for at, (one, three) in enumerate(zip(trained(whole, gradients), trained(shard, gradients)), 1):
    print(f"step {at}, of 1000 elements differ:", ", ".join(
        f"{np.count_nonzero(one[name].view(np.int32) != three[name].view(np.int32))} {name}" for name in one))
