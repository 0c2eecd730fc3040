# SPDX-License-Identifier: Apache-2.0
# pip install jax==0.10.2 optax==0.2.8
"""optax's Adam under GSPMD: which multiply-adds are fused depends on the shardings of the parameters."""
import sys
try:
    import jax, numpy as np, optax
    from jax.sharding import Mesh, NamedSharding, PartitionSpec
except ImportError as missing:
    sys.exit(print(missing) or 77)

jax.config.update("jax_num_cpu_devices", 2)
mesh, adam = Mesh(jax.devices(), "rank"), optax.scale_by_adam(0.9, 0.999, 1e-8)
shard, whole = NamedSharding(mesh, PartitionSpec("rank")), NamedSharding(mesh, PartitionSpec())
gradients = np.random.default_rng(1).standard_normal((5, 1000), dtype=np.float32)

def trained(kept):
    @jax.jit
    def step(p, state, gradient):
        update, state = adam.update(jax.lax.with_sharding_constraint(gradient, shard), state, p)
        return jax.lax.with_sharding_constraint(p - 0.01 * update, kept), state
    p = jax.device_put(np.linspace(-1, 1, 1000, dtype=np.float32), kept)
    state = jax.tree.map(lambda leaf: jax.device_put(leaf, shard if leaf.ndim else whole), adam.init(p))
    for gradient in gradients:
        p, state = step(p, state, gradient)
    return np.array(p)

expected, actual = (f"{n} of 1000 elements differ" for n in (0, np.count_nonzero(trained(whole) != trained(shard))))
print(f"expected: {expected}\nactual:   {actual}")
sys.exit(actual != expected)
