# SPDX-License-Identifier: Apache-2.0
"""What PyTorch reaches on this GPU: memory, the fused AdamW, and training steps of the GPT of gpt.py, as JSON lines of
the same cases as `zerogauge bench memory`, `adam` and `step` with --device cuda. Needs PyTorch and gpt.py only.

    python3 torch_gpu.py [--seconds 150] [--part memory,adam,step] [--tiny]

CUDA events time every repetition after a warm-up; a line has the median and all samples. A step is forward, backward,
clipping and the fused AdamW, on random tokens. `dtype` of a step: fp32, every product in fp32; tf32, products of
fp32 matrices in TF32; bf16, parameters, gradients and moments in bf16; autocast, products in bf16 with all of these in
fp32. `attention` is the kernel that scaled_dot_product_attention is held to; zerogauge's own is `math`. What does not
begin within --seconds is left out and said. --tiny: small cases on any processor, to test this file.
Exit status: 0; 77 without PyTorch or a GPU; 1 where a case failed."""
import argparse
import contextlib
import json
import statistics
import sys
import time

try:
    import torch
    from torch.nn.attention import SDPBackend, sdpa_kernel

    from gpt import GPT
except ModuleNotFoundError as missing:
    print(f"SKIP: torch_gpu.py: {missing}", file=sys.stderr)
    sys.exit(77)

SHAPES = {"gpt2-124m": {"layers": 12, "width": 768, "heads": 12, "length": 1024, "vocabulary": 50257, "sequences": 8},
          "tiny": {"layers": 2, "width": 64, "heads": 2, "length": 32, "vocabulary": 300, "sequences": 2}}
ATTENTION = {"flash": SDPBackend.FLASH_ATTENTION, "efficient": SDPBackend.EFFICIENT_ATTENTION,
             "math": SDPBackend.MATH}
# Dtype, attention, compiled. Those that compile for a minute are last.
STEPS = [("fp32", "efficient", False), ("fp32", "math", False), ("tf32", "efficient", False),
         ("bf16", "flash", False), ("bf16", "math", False), ("autocast", "flash", False),
         ("bf16", "flash", True), ("fp32", "efficient", True)]
ADAM_BYTES = 28  # parameter and both moments read and written, gradient read, all in fp32


class Bench:
    def __init__(self, tiny, seconds):
        self.device = "cuda" if torch.cuda.is_available() else "cpu"
        self.tiny, self.end, self.failed = tiny, time.monotonic() + seconds, 0

    def say(self, **line):
        print(json.dumps(line), flush=True)

    def time_ms(self, work, warmup, repeat):
        """The durations of work, by the device's clock."""
        samples = []
        for i in range(warmup + repeat):
            if self.device == "cuda":
                begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
                begin.record()
                work()
                end.record()
                end.synchronize()
                ms = begin.elapsed_time(end)
            else:
                begin = time.perf_counter()
                work()
                ms = (time.perf_counter() - begin) * 1e3
            if i >= warmup:
                samples.append(ms)
        return samples

    def case(self, what, measure, **of_case):
        """Prints the line of one case, and leaves nothing of it in memory. measure returns further keys."""
        line = {"what": what, "by": "torch", **of_case}
        if time.monotonic() > self.end:
            return self.say(**line, left_out="no time is left: --seconds")
        try:
            self.say(**line, **measure())
        except Exception as error:  # too little memory, no such kernel: the other cases go on
            self.failed += 1
            self.say(**line, error=f"{type(error).__name__}: {error}"[:300])
        if of_case.get("compiled"):
            torch.compiler.reset()
        if self.device == "cuda":
            torch.cuda.empty_cache()


def summary(samples_ms, **rates):
    """rates: amounts in one sample, which become amounts a second."""
    median = statistics.median(samples_ms)
    seconds = median * 1e-3
    return {"median_ms": median, **{key: amount / seconds for key, amount in rates.items()}, "samples_ms": samples_ms}


def memory_case(bench, operation, bytes_):
    count = bytes_ // 4
    source = torch.ones(count, device=bench.device)
    target = torch.empty_like(source)
    works = {"copy": (lambda: target.copy_(source), 2), "read": (lambda: torch.sum(source), 1),
             "write": (lambda: target.fill_(3), 1)}
    work, moves = works[operation]
    # As many as take some milliseconds.
    rounds = 1 if bytes_ >= 1 << 29 or bench.tiny else 256
    samples = bench.time_ms(lambda: [work() for _ in range(rounds)], 2, 9)
    if operation != "read" and not bool((target == (1 if operation == "copy" else 3)).all()):
        raise ValueError(f"{operation} left wrong words")
    return summary(samples, GB_per_s=moves * bytes_ * rounds * 1e-9)


def adam_case(bench, params):
    param = torch.randn(params, device=bench.device, requires_grad=True)
    param.grad = torch.full_like(param, 1e-3)
    optimizer = torch.optim.AdamW([param], lr=1e-3, weight_decay=0.01, fused=True)
    samples = bench.time_ms(optimizer.step, 3, 15)
    return {**summary(samples, GB_per_s=ADAM_BYTES * params * 1e-9),
            "ns_per_param": statistics.median(samples) * 1e6 / params}


def weights_of(shape):
    """Initial values by gpt.py's names."""
    width = shape["width"]
    matrices = {"attn.c_attn": (width, 3 * width), "attn.c_proj": (width, width),
                "mlp.c_fc": (width, 4 * width), "mlp.c_proj": (4 * width, width)}
    weights = {"wte.weight": torch.randn(shape["vocabulary"], width) * 0.02,
               "wpe.weight": torch.randn(shape["length"], width) * 0.02}
    norms = ["ln_f"]
    for layer in range(shape["layers"]):
        norms += [f"h.{layer}.ln_1", f"h.{layer}.ln_2"]
        for name, (rows, columns) in matrices.items():
            weights[f"h.{layer}.{name}.weight"] = torch.randn(rows, columns) * 0.02
            weights[f"h.{layer}.{name}.bias"] = torch.zeros(columns)
    for name in norms:
        weights[f"{name}.weight"], weights[f"{name}.bias"] = torch.ones(width), torch.zeros(width)
    return weights


def step_case(bench, shape, dtype, attention, compiled):
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high" if dtype == "tf32" else "highest")
    if bench.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    with torch.device(bench.device):
        model = GPT(shape["layers"], shape["heads"], shape["length"], weights_of(shape))
    if dtype == "bf16":
        model = model.to(torch.bfloat16)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    run = torch.compile(model) if compiled else model
    tokens = torch.randint(0, 256, (shape["sequences"], shape["length"] + 1), device=bench.device)
    cast = torch.autocast(bench.device, torch.bfloat16) if dtype == "autocast" else contextlib.nullcontext()
    losses = []

    def step():
        optimizer.zero_grad()
        with cast, sdpa_kernel(ATTENTION[attention]):
            loss = run(tokens)
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())

    samples = bench.time_ms(step, 3, 3 if bench.tiny else 15)
    losses = [loss.item() for loss in losses]
    if not losses[-1] < losses[0]:
        raise ValueError(f"the loss did not fall: {losses[0]} to {losses[-1]}")
    peak = {"peak_bytes": torch.cuda.max_memory_allocated()} if bench.device == "cuda" else {}
    return {**summary(samples, tokens_per_s=shape["sequences"] * shape["length"]), "losses": [losses[0], losses[-1]],
            **peak}


def run(bench, parts):
    name = torch.cuda.get_device_name() if bench.device == "cuda" else "the processor"
    bench.say(what="device", by="torch", name=name, torch=torch.__version__, cuda=torch.version.cuda)
    sizes = [1 << 16] if bench.tiny else [8 << 20, 512 << 20, 4 << 30]
    for operation in ("copy", "read", "write") if "memory" in parts else ():
        for size in sizes:
            bench.case("memory", lambda: memory_case(bench, operation, size), operation=operation, array_bytes=size)
    for params in ([1 << 12] if bench.tiny else [1 << 24, 1 << 26, 1 << 30]) if "adam" in parts else ():
        bench.case("adam", lambda: adam_case(bench, params), step="update", recipe="torch-cuda-fused-fp32", grad="fp32",
                   params=params, bytes_per_param=ADAM_BYTES)
    model = "tiny" if bench.tiny else "gpt2-124m"
    shape = SHAPES[model]
    for dtype, attention, compiled in STEPS if "step" in parts else ():
        if bench.device == "cpu" and attention == "efficient":
            attention = "math"  # the processor has no other in fp32
        bench.case("step", lambda: step_case(bench, shape, dtype, attention, compiled), model=model, world=1,
                   sequences=shape["sequences"], sequence_tokens=shape["length"], dtype=dtype, attention=attention,
                   compiled=compiled)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=150)
    parser.add_argument("--part", default="memory,adam,step")
    parser.add_argument("--tiny", action="store_true")
    options = parser.parse_args()
    if not torch.cuda.is_available() and not options.tiny:
        print("SKIP: torch_gpu.py: PyTorch finds no CUDA device", file=sys.stderr)
        return 77
    bench = Bench(options.tiny, options.seconds)
    run(bench, options.part.split(","))
    return 1 if bench.failed else 0


if __name__ == "__main__":
    sys.exit(main())
