# SPDX-License-Identifier: Apache-2.0
"""Runs DeepSpeed's memory estimators, and compares them with the bytes that the stages hold in the same setting:

    python deepspeed_estimate.py ZEROGAUGE OUT

Prints bytes per parameter by setting and device. Fails if an estimator does not return what ESTIMATES expects: then
results/findings/deepspeed-estimators.md describes another version."""
import json
import subprocess
import sys

from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs as zero3
from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs as zero2

PARAMS, FACTOR = 2_851_000_000, 1.5
OPTIMIZER, PARAM = (f"zero_optimization.offload_{what}.device=cpu" for what in ("optimizer", "param"))
FP32 = "data_types.grad_accum_dtype=fp32"
# By setting: the estimator's call, the same configuration for zerogauge, and the bytes per parameter that the estimator
# computes for N GPUs of one node: of a GPU, and of the node's CPUs. Stage 3 adds 4 bytes per parameter of the largest
# layer, which is empty here.
ESTIMATES = {
    "ZeRO-2": (lambda n: zero2(PARAMS, n, 1, False, FACTOR), "zero2", [],
               lambda n: 2 + 18 / n, lambda n: 4 * n * FACTOR),
    "ZeRO-2, optimizer on the CPU": (lambda n: zero2(PARAMS, n, 1, True, FACTOR), "zero2", [OPTIMIZER],
                                     lambda n: 2, lambda n: max(4 * n, 16) * FACTOR),
    "ZeRO-3": (lambda n: zero3(PARAMS, 0, n, 1, False, False, True, FACTOR), "zero3", [],
               lambda n: 18 / n, lambda n: 0),
    "ZeRO-3, optimizer on the CPU": (lambda n: zero3(PARAMS, 0, n, 1, True, False, True, FACTOR), "zero3", [OPTIMIZER],
                                     lambda n: 2 / n, lambda n: 16 * FACTOR),
    "ZeRO-3, all on the CPU": (lambda n: zero3(PARAMS, 0, n, 1, True, True, True, FACTOR), "zero3", [OPTIMIZER, PARAM],
                               lambda n: 0, lambda n: 18 * FACTOR),
}
ROW = "{:30} {:>4} {:>5} {:>10} {:>10} {:>10}"


def measure(zerogauge, preset, settings, ranks, tier):
    """The states of one rank on a tier, in bytes per parameter."""
    options = [word for setting in settings for word in ("--set", setting)]
    text = subprocess.run([zerogauge, "plan", "--preset", preset, "--model", "gpt2-xl", "--world", str(ranks), *options,
                           "--json"], check=True, capture_output=True, text=True).stdout
    plan = json.loads(text.splitlines()[0])
    return plan["memory"][tier]["state_bytes"] / plan["params"]


def main(zerogauge, _):
    rows, values = [], []
    for name, (call, preset, settings, gpu, cpu) in ESTIMATES.items():
        for ranks in 1, 4, 8:
            cpu_bytes, gpu_bytes = call(ranks)[:2]
            for place, tier, count, estimate, formula in (("GPU", "device", 1, gpu_bytes, gpu(ranks)),
                                                          ("CPUs", "host", ranks, cpu_bytes, cpu(ranks))):
                rows.append((name, ranks, place, count, estimate / PARAMS, formula))
                values += [measure(zerogauge, preset, settings + more, ranks, tier) for more in ([], [FP32])]
    wrong = 0
    print(ROW.format("setting", "GPUs", "where", "estimate", "ledger", "fp32 grads"))
    for i, (name, ranks, place, count, estimate, formula) in enumerate(rows):
        changed = abs(estimate - formula) > 1e-6
        wrong += changed
        print(ROW.format(name, ranks, place, f"{estimate:.4f}", f"{count * values[2 * i]:.4f}",
                         f"{count * values[2 * i + 1]:.4f}") + (f" WRONG: {formula:.4f} expected" if changed else ""))
    return wrong > 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
