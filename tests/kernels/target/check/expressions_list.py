"""Expressions whose type and value the check target must share with Numba, on the variables below."""

import numpy as np

VARIABLES = {
    "f": np.float32(1.7),
    "g": np.float32(-0.3),
    "d": np.float64(2.3),
    "e": np.float64(-0.75),
    "i": np.int32(7),
    "j": np.int32(-3),
    "l": np.int64(11),
    "u": np.uint32(5),
    "v": np.uint32(9),
    "b": np.uint8(200),
    "s": np.int16(-9),
    "q": np.bool_(True),
    "r": np.bool_(False),
    "z": np.float32(0.0),
}
CONSTANTS = {"SCALE": 0.7978845608, "WIDTH": 128, "PAIR": (3, 0.25), "HALF": np.float32(0.5), "FEW": np.int32(3)}

ARITHMETIC = """
f + g | f - g | f * g | f / g | f // g | f % g | g % f | g // f | -f | +g | f + d | d * g | d - f | e / f | d // e
e % d | f + 1 | f - 1 | f * 2 | 2 * f | f / 2 | 2 / f | f // 2 | f % 1 | 1 - f | f + 0.5 | f * 0.5 | 0.5 * f
1.0 / f | f / 3.0 | f + i | f * j | i * f | f / i | i / f | f - l | l * f | f + u | u / f | f * b | f + s | f + q
q * f | f // i | f % j | i + j | i - j | i * j | i / j | i // j | j // i | i % j | j % i | i % 4 | j % 4 | j // 4
-j // 2 | -i | ~i | ~j | +j | i + 1 | i * 2 | i / 2 | i // 2 | i + l | i * l | l // j | l % j | l / i | i - 0.5
l * 0.25 | 7 // 2 | -7 // 2 | -7 % 3 | u + u | u * v | v - u | u // v | v % u | v / u | u + i | u - i | u * l
u + b | b + b | b * b | b - s | s * s | s // 4 | s % 4 | q + q | q + r | q * q | q - r | i + q | l * r | u + q
d + q | q / i | s + q | b // 7 | b % 7 | u & 4 | i % u | l + u | i & 3 | i| 8 | i ^ j | i << 2 | i >> 1 | j >> 1
l & i | l| j | u ^ v | u << 3 | v >> 1 | b & 15 | q & r | q| r | q ^ q | f ** 2 | f ** 3 | f ** 0.5 | f ** 2.0
f ** -1 | f ** i | f ** j | i ** 2 | i ** 3 | 2 ** i | d ** 2 | d ** 0.5 | d ** e | f ** f | i ** 0.5 | l ** 2
j ** 3 | u ** 2 | 2.0 ** i | 2 ** f | FEW ** 2 | i * i * i * i * i * i * i * i * i * i * i * i | u * v * u * v
i * 1000000007 | f * f * f - g | (i + j) * f + 1
"""
COMPARE = """
f < g | i < u | f == 1.7 | i >= 7 | d > f | q == r | q and r | q or r | not q | not i | not r | f > 1 and g < 0
i > 3 or j > 3 | f > 1 and not r | 0 < i < 9 | g < f < d | i == 7.0 | s < b | u != v | l <= i | not (f > g and r)
f if q else g | f if r else d | f if q else i | i if q else l | 0 if r else f | 1.0 if q else f | i if f > g else j
u if q else i | q if r else i | b if q else s | 1 if q else 2 | f if i > j else float32(0) | (i if q else j) + f
"""
FUNCTIONS = """
abs(g) | abs(j) | abs(e) | abs(l) | max(f, g) | min(f, g) | max(f, 0) | max(f, 0.0) | max(f, float32(0))
max(i, j) | max(i, l) | min(i, 2) | min(d, f) | max(f, d) | max(f, g, d) | min(i, j, 0) | max(i, f) | min(u, v)
max(f, g, float32(2)) | min(l, i, 5) | float32(i) | float32(d) | float32(0.1) + f | float32(1) / i
float32(1.0) / float32(3) | float64(f) | int32(f) | int32(g) | int32(-2.7) | int32(3000000000) | int64(d)
int64(g) | uint8(300) | uint32(i) | int16(70000) | float32(1e-8) + f | uint32(j) | int(f) | int(e) | float(f)
float(i) | bool(i) | bool(z) | int32(l) | int64(u) | int32(q) | float32(q) | float64(i) | int8(b) | math.exp(f)
math.exp(d) | math.exp(i) | math.log(f) | math.log(d) | math.sqrt(f) | math.sqrt(d) | math.sqrt(i) | math.tanh(f)
math.sin(f) | math.cos(d) | math.tan(f) | math.pow(f, g) | math.pow(f, 2) | math.pow(f, 2.0) | math.pow(d, e)
math.pow(i, 2) | math.fabs(g) | math.fabs(j) | math.erf(f) | math.erfc(d) | math.isnan(f) | math.isinf(d)
math.isfinite(f) | math.atan(f) | math.atan2(f, g) | math.fmod(f, g) | math.copysign(f, g) | math.log1p(f)
math.expm1(g) | math.hypot(f, g) | math.log2(f) | math.log10(f) | math.exp(-f) | math.asin(g) | math.acos(g)
math.sinh(f) | math.cosh(f) | math.tanh(i) | math.gamma(f) | math.lgamma(d) | math.sqrt(f * f + g * g)
math.exp(f - d) | math.log(f) / math.log(float32(2)) | math.floor(f) | math.ceil(d) | math.floor(g) | math.floor(e)
math.trunc(f) | math.ceil(g) | f * math.pi | math.pi * 2 | math.pi | f - math.inf | float32(math.pi) * f | SCALE
SCALE * f | WIDTH * f | WIDTH // 2 | i + WIDTH | PAIR[0] + i | PAIR[1] * f | HALF * f | HALF * i | FEW + 1
FEW * f | round(f) | pow(f, 2) | pow(i, 2) | f * float32(0.044715) * f * f
float32(0.5) * f * (float32(1) + math.tanh(float32(SCALE) * (f + float32(0.044715) * f * f * f)))
0.5 * f * (1 + math.tanh(f))
"""


def expressions() -> list[str]:
    """All of them. A bar inside an expression is written without a space on its left."""
    found = []
    for text in (ARITHMETIC, COMPARE, FUNCTIONS):
        for line in text.strip().splitlines():
            found += [part.strip() for part in line.split(" | ")]
    return found
