#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Prints recipe_golden.h: what every recipe makes of a small tensor, in exact rational arithmetic.

Nothing is shared with recipe.h: each operation of the named implementations is written out in the order in which they
execute it, computed as a fraction, and rounded to fp32 once. Usage: python3 recipe_golden.py > recipe_golden.h
"""
import math
import struct
from fractions import Fraction

COUNT = 45  # 40 elements of body and 5 of tail for 8 lanes, 32 and 13 for 16
STEPS = (1, 2, 3, 10)  # the last one as after loading a checkpoint
MASK = (1 << 64) - 1


def bits_of(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def of_bits(bits):
    return struct.unpack("<f", struct.pack("<I", bits))[0]


def nearest(x):
    """The Fraction x rounded to fp32, ties to even, subnormals kept; a Python float that holds it exactly."""
    if x == 0:
        return 0.0
    magnitude = abs(x)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    unit = Fraction(2) ** (max(exponent, -126) - 23)
    steps = magnitude / unit
    whole = steps.numerator // steps.denominator
    rest = steps - whole
    if rest > Fraction(1, 2) or (rest == Fraction(1, 2) and whole % 2):
        whole += 1
    result = float(whole * unit)  # exact: at most 24 bits
    assert result < 2.0**128
    return -result if x < 0 else result


def signed(exact, zero_sign):
    """IEEE: a result that is exactly zero takes its sign from the operands, one that rounds to zero keeps its own."""
    value = nearest(exact)
    if value != 0:
        return value
    negative = exact < 0 if exact != 0 else zero_sign
    return -0.0 if negative else 0.0


def minus(x):
    return math.copysign(1, x) < 0


def mul(a, b):
    return signed(Fraction(a) * Fraction(b), minus(a) != minus(b))


def div(a, b):
    return signed(Fraction(a) / Fraction(b), minus(a) != minus(b))


def add(a, b):
    return signed(Fraction(a) + Fraction(b), minus(a) and minus(b))


def sub(a, b):
    return add(a, -b)


def fma(a, b, c):
    return signed(Fraction(a) * Fraction(b) + Fraction(c), (minus(a) != minus(b)) and minus(c))


def no_fma(a, b, c):
    return add(mul(a, b), c)


def sqrt(x):
    """Correctly rounded: 60 bits of root with a sticky bit, rounded once more."""
    if x == 0:
        return x
    fraction = Fraction(x)
    shift = 400
    scaled = fraction.numerator * 4**shift
    root = math.isqrt(scaled // fraction.denominator)
    exact = root * root * fraction.denominator == scaled
    value = Fraction(2 * root + (0 if exact else 1), 2)
    return nearest(value / 2**shift)


def f32(x):
    return of_bits(bits_of(x))


class Torch:
    """torch.optim.Adam and AdamW on CPU."""

    def __init__(self, hyper):
        self.hyper = hyper

    def begin(self, t):
        h = self.hyper
        bc1 = 1 - math.pow(h["beta1"], t)
        bc2 = 1 - math.pow(h["beta2"], t)
        self.w = f32(1 - h["beta1"])
        self.b2 = f32(h["beta2"])
        self.c2 = f32(1 - h["beta2"])
        self.big_b = f32(math.pow(bc2, 0.5))
        self.e = f32(h["eps"])
        self.s = f32(-(h["lr"] / bc1))
        self.wd = f32(h["wd"])
        self.d = f32(1 - h["lr"] * h["wd"])

    def element(self, g, p, m, v, fma, other_product=False):
        h = self.hyper
        if h["wd"] != 0 and not h["decoupled"]:
            g = fma(p, self.wd, g)
        if h["decoupled"]:
            p = mul(p, self.d)
        if abs(self.w) < 0.5:
            m = fma(self.w, sub(g, m), m)
        else:
            m = fma(sub(self.w, 1.0), sub(g, m), g)
        u = mul(self.c2, g)
        if other_product:
            v = fma(v, self.b2, mul(u, g))
        else:
            v = fma(u, g, mul(v, self.b2))
        s = add(div(sqrt(v), self.big_b), self.e)
        p = add(p, div(mul(self.s, m), s))
        return p, m, v


class DeepSpeed:
    """DeepSpeedCPUAdam."""

    def __init__(self, hyper):
        self.hyper = hyper
        self.step = 0
        self.b1t = self.b2t = 1.0

    def begin(self, t):
        h = self.hyper
        self.b1, self.b2, lr, self.wd = f32(h["beta1"]), f32(h["beta2"]), f32(h["lr"]), f32(h["wd"])
        self.eps = f32(h["eps"])
        if t == self.step + 1:
            self.b1t, self.b2t = mul(self.b1t, self.b1), mul(self.b2t, self.b2)
        else:
            self.b1t, self.b2t = f32(math.pow(self.b1, t)), f32(math.pow(self.b2, t))
        self.step = t
        bc1, self.bc2 = 1.0, 1.0
        if h["bias_correction"]:
            bc1 = sub(1.0, self.b1t)
            self.bc2 = div(1.0, sqrt(sub(1.0, self.b2t)))
        self.c1, self.c2 = sub(1.0, self.b1), sub(1.0, self.b2)
        self.ss = div(-lr, bc1)
        self.big_wd = mul(-lr, self.wd)

    def element(self, g, p, m, v, fma, other_product=False):
        h = self.hyper
        if self.wd > 0 and not h["decoupled"]:
            g = fma(p, self.wd, g)
        if other_product:
            m = fma(m, self.b1, mul(g, self.c1))
            v = fma(v, self.b2, mul(mul(g, g), self.c2))
        else:
            m = fma(g, self.c1, mul(m, self.b1))
            v = fma(mul(g, g), self.c2, mul(v, self.b2))
        s = fma(sqrt(v), self.bc2, self.eps)
        q = div(m, s)
        if self.wd > 0 and h["decoupled"]:
            p = fma(p, self.big_wd, p)
        p = fma(q, self.ss, p)
        return p, m, v


def fma64(a, b, c):
    """Python's floats are doubles; a Fraction becomes the nearest one."""
    exact = Fraction(a) * Fraction(b) + Fraction(c)
    if exact != 0:
        return float(exact)
    return -0.0 if (minus(a) != minus(b)) and minus(c) else 0.0


class TorchCuda(Torch):
    """torch.optim.Adam and AdamW on CUDA, foreach."""

    def element(self, g, p, m, v, fma, other_product=False):
        h = self.hyper
        if h["wd"] != 0 and not h["decoupled"]:
            g = fma(self.wd, p, g)
        if h["decoupled"]:
            p = mul(p, self.d)
        if abs(self.w) < 0.5:
            m = fma(self.w, sub(g, m), m)
        else:
            m = fma(-sub(g, m), sub(1.0, self.w), g)
        v = mul(v, self.b2)
        v = fma(self.c2, mul(g, g), v)
        return self.update(sqrt(v), p, m), m, v

    def update(self, root, p, m):
        return fma(self.s, div(m, add(div(root, self.big_b), self.e)), p)


class TorchCudaSingle(TorchCuda):
    """A tensor over a number is the tensor times the number's reciprocal."""

    def update(self, root, p, m):
        return fma(self.s, div(m, add(mul(root, div(1.0, self.big_b)), self.e)), p)


class TorchCapturable(TorchCuda):
    """Corrections in fp32 tensors; the powers are correctly rounded."""

    def begin(self, t):
        super().begin(t)
        h = self.hyper
        self.power1 = f32(math.pow(f32(h["beta1"]), t))
        self.root2 = sqrt(sub(1.0, f32(math.pow(f32(h["beta2"]), t))))


class TorchCapturableSingle(TorchCapturable):
    def update(self, root, p, m):
        step_size_neg = -mul(div(1.0, sub(1.0, self.power1)), f32(self.hyper["lr"]))
        s = div(root, mul(self.root2, step_size_neg))
        s = add(s, mul(div(1.0, step_size_neg), self.e))
        return add(p, div(m, s))


class TorchCapturableForeach(TorchCapturable):
    def update(self, root, p, m):
        step_size = div(1.0, mul(sub(self.power1, 1.0), f32(1 / self.hyper["lr"])))
        s = div(add(div(root, self.root2), self.e), step_size)
        return add(p, div(m, s))


class TorchCudaFused:
    """Doubles in every product with a hyper-parameter, and a rounding to fp32 at every assignment."""

    def __init__(self, hyper):
        self.hyper = hyper

    def begin(self, t):
        h = self.hyper
        self.bias1 = f32(1 - math.pow(h["beta1"], t))
        self.root2 = f32(math.sqrt(1 - math.pow(h["beta2"], t)))

    def element(self, g, p, m, v, fma, other_product=False):
        h = self.hyper
        if h["wd"] != 0 and not h["decoupled"]:
            g = f32(fma64(p, h["wd"], g))
        if h["decoupled"]:
            p = f32(fma64(-(h["lr"] * h["wd"]), p, p))
        m = f32(fma64(m, h["beta1"], (1 - h["beta1"]) * g))
        v = f32(fma64(v, h["beta2"], ((1 - h["beta2"]) * g) * g))
        s = f32(div(sqrt(v), self.root2) + h["eps"])
        q = div(mul(f32(h["lr"] / self.bias1), m), s)
        return sub(p, q), m, v


class TorchCudaFusedFp32:
    """Both moments as lerps of two fused multiply-adds; every hyper-parameter is rounded first."""

    def __init__(self, hyper):
        self.hyper = hyper

    def begin(self, t):
        h = self.hyper
        self.b1, self.b2, self.lr = f32(h["beta1"]), f32(h["beta2"]), f32(h["lr"])
        self.wd, self.eps = f32(h["wd"]), f32(h["eps"])
        self.step = div(self.lr, sub(1.0, f32(math.pow(self.b1, t))))
        self.root2 = sqrt(sub(1.0, f32(math.pow(self.b2, t))))

    def element(self, g, p, m, v, fma, other_product=False):
        h = self.hyper
        if self.wd != 0 and not h["decoupled"]:
            g = fma(p, self.wd, g)
        if self.wd != 0 and h["decoupled"]:
            p = fma(p, -mul(self.lr, self.wd), p)
        square = mul(g, g)
        v = fma(v, self.b2, fma(square, -self.b2, square))
        m = fma(m, self.b1, fma(g, -self.b1, g))
        s = add(div(sqrt(v), self.root2), self.eps)
        return sub(p, div(mul(m, self.step), s)), m, v


class Apex:
    """FusedAdam of DeepSpeed, Apex and Transformer Engine, without fast-math."""

    def __init__(self, hyper):
        self.hyper = hyper

    def begin(self, t):
        h = self.hyper
        self.b1, self.b2, self.lr, self.wd = f32(h["beta1"]), f32(h["beta2"]), f32(h["lr"]), f32(h["wd"])
        self.eps, self.bc1, self.bc2 = f32(h["eps"]), 1.0, 1.0
        if h["bias_correction"]:
            self.bc1, self.bc2 = f32(1 - math.pow(self.b1, t)), f32(1 - math.pow(self.b2, t))
        self.c1, self.c2 = sub(1.0, self.b1), sub(1.0, self.b2)

    def element(self, g, p, m, v, fma, other_product=False):
        h = self.hyper
        if self.wd != 0 and not h["decoupled"]:
            g = fma(self.wd, p, g)
        if other_product:
            m = fma(m, self.b1, mul(self.c1, g))
            v = fma(v, self.b2, mul(mul(self.c2, g), g))
        else:
            m = fma(self.c1, g, mul(self.b1, m))
            v = fma(mul(self.c2, g), g, mul(self.b2, v))
        q = div(div(m, self.bc1), add(sqrt(div(v, self.bc2)), self.eps))
        if self.wd != 0 and h["decoupled"]:
            q = fma(p, self.wd, q)
        p = fma(-q, self.lr, p)
        return p, m, v


def mix(bits):
    """splitmix64, for inputs that any language can make."""
    bits = (bits + 0x9E3779B97F4A7C15) & MASK
    bits = ((bits ^ (bits >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    bits = ((bits ^ (bits >> 27)) * 0x94D049BB133111EB) & MASK
    return bits ^ (bits >> 31)


def parameter(i):
    bits = mix(i)
    return of_bits((bits & 1) << 31 | (118 + (bits >> 1) % 9) << 23 | bits >> 41)


def gradient(t, i):
    """Zeros, and magnitudes from 2^-87, whose square is below fp32, to 2^3."""
    bits = mix(1000 * t + i)
    if bits % 19 == 0:
        return 0.0
    low = 40 if bits % 5 == 0 else 110
    return of_bits((bits & 1) << 31 | (low + (bits >> 8) % (130 - low)) << 23 | bits >> 41)


# The class, the lanes, the multiply-add, and where the other product of the moments is the fused one.
RECIPES = {
    "torch-cpu": (Torch, 0, fma, None),
    "torch-cpu-nofma": (Torch, 0, no_fma, None),
    "torch-fused-cpu": (Torch, 8, fma, "tail"),
    "deepspeed-cpu-gcc-avx512": (DeepSpeed, 16, fma, "tail"),
    "deepspeed-cpu-gcc-avx2": (DeepSpeed, 8, fma, "tail"),
    "deepspeed-cpu-clang": (DeepSpeed, 0, fma, None),
    "deepspeed-cpu-scalar": (DeepSpeed, 0, no_fma, None),
    "torch-cuda-foreach": (TorchCuda, 0, fma, None),
    "torch-cuda-single": (TorchCudaSingle, 0, fma, None),
    "torch-cuda-fused": (TorchCudaFused, 0, fma, None),
    "torch-cuda-fused-fp32": (TorchCudaFusedFp32, 0, fma, None),
    "torch-capturable-foreach": (TorchCapturableForeach, 0, fma, None),
    "torch-capturable-single": (TorchCapturableSingle, 0, fma, None),
    "apex": (Apex, 0, fma, "everywhere"),
    "apex-other-fusion": (Apex, 0, fma, None),
    "apex-nofma": (Apex, 0, no_fma, None),
}


def run(name, hyper):
    family, lanes, multiply_add, where = RECIPES[name]
    optimizer = family(hyper)
    tail_start = COUNT - COUNT % lanes if lanes else COUNT
    p = [parameter(i) for i in range(COUNT)]
    m, v = [0.0] * COUNT, [0.0] * COUNT
    for t in STEPS:
        optimizer.begin(t)
        for i in range(COUNT):
            other = where == "everywhere" or (where == "tail" and i >= tail_start)
            p[i], m[i], v[i] = optimizer.element(gradient(t, i), p[i], m[i], v[i], multiply_add, other)
    digest = 0
    for values in (p, m, v):
        for value in values:
            digest = mix(digest ^ bits_of(value))
    last = COUNT - 1
    return digest, bits_of(p[last]), bits_of(m[last]), bits_of(v[last])


def main():
    print("// SPDX-License-Identifier: Apache-2.0")
    print("// Printed by recipe_golden.py: the result of every recipe for a small tensor, in exact rational arithmetic with")
    print("// one rounding per operation. The digest is over p, m and v; the bits of their last elements follow.")
    usual = [(betas, decay, correction) for betas in ((0.9, 0.999), (0.4, 0.95))
             for decay in ((0.0, True), (0.1, False), (0.1, True)) for correction in (True, False)]
    # At beta1 1/2 both forms of an interpolation would do, in different bits; a decay of 1 is not "none".
    edge = ((0.5, 0.95), (1.0, True), True)
    for name in RECIPES:
        for (beta1, beta2), (wd, decoupled), correction in [*usual, edge]:
            if not correction and name.startswith("torch"):
                continue
            hyper = dict(lr=1e-3, beta1=beta1, beta2=beta2, eps=1e-8, wd=wd, decoupled=decoupled,
                         bias_correction=correction)
            digest, p, m, v = run(name, hyper)
            print(f'    {{"{name}", {beta1}, {beta2}, {wd}, {decoupled:d}, {correction:d}, 0x{digest:016x}, '
                  f"0x{p:08x}, 0x{m:08x}, 0x{v:08x}}},")


main()
