"""float32 exp, log and tanh as LLVM instructions: they vectorise, and give the same bits on every processor.

Each is a polynomial or a quotient of polynomials fitted for the purpose (least maximum relative error), evaluated
with explicit fused multiply-adds. Error against the exact value: exp at most 1 ulp, log at most 1 ulp, tanh at most 6
ulp. NaN, infinities, zeros and denormal numbers behave as in math.exp, math.log and math.tanh, but without
exceptions.
"""

from struct import pack, unpack

from llvmlite import ir

F32, I32 = ir.FloatType(), ir.IntType(32)
_MAGIC = 12582912.0  # 1.5 * 2**23: adding it rounds to an integer, which then stands in the low bits
_LN2_HIGH, _LN2_LOW, _LOG2E = 0.693145751953125, 1.42860682030941723212e-6, 1.44269504088896341
_EXP = (0.4999999403953552, 0.1666652113199234, 0.04166839271783829, 0.00836874544620514, 0.001381453825160861)
_LOG = (
    0.3333333134651184,
    -0.2500081956386566,
    0.20001226663589478,
    -0.16623356938362122,
    0.14201757311820984,
    -0.13160184025764465,
    0.127615824341774,
    -0.07634497433900833,
)
_TANH_P = (1.0, 0.13379712402820587, 0.0034940275363624096, 2.0583363948389888e-05, 1.3318905089931832e-08)
_TANH_Q = (1.0, 0.46713027358055115, 0.025871045887470245, 0.00032830811687745154, 7.761951792417676e-07)
_TANH_END = 9.02
_HALF_ROOT_BITS = 0x3F3504F3  # the bits of sqrt(1/2)


def single(value):
    """The nearest float32 as an LLVM constant."""
    return ir.Constant(F32, unpack("f", pack("f", value))[0])


class Floats:
    """Float32 arithmetic on an LLVM builder."""

    def __init__(self, builder):
        self.b = builder

    def fma(self, x, y, z):
        return self.b.fma(x, y, z)

    def horner(self, x, coefficients):
        """c0 + c1 x + c2 x^2 + ..."""
        total = single(coefficients[-1])
        for c in coefficients[-2::-1]:
            total = self.fma(total, x, single(c))
        return total

    def at_most(self, x, limit):
        """min(x, limit), NaN kept."""
        return self.b.select(self.b.fcmp_ordered(">", x, single(limit)), single(limit), x)

    def at_least(self, x, limit):
        return self.b.select(self.b.fcmp_ordered("<", x, single(limit)), single(limit), x)

    def power_of_two(self, k):
        """2**k for an integer -126 <= k <= 127."""
        biased = self.b.add(k, ir.Constant(I32, 127))
        return self.b.bitcast(self.b.shl(biased, ir.Constant(I32, 23)), F32)


def exp(builder, x):
    """exp(x) = 2**k exp(r), |r| <= ln(2) / 2; two factors for 2**k reach denormal results and infinity."""
    f, b = Floats(builder), builder
    x = f.at_least(f.at_most(x, 89.0), -104.0)
    shifted = f.fma(x, single(_LOG2E), single(_MAGIC))
    n = b.fsub(shifted, single(_MAGIC))
    k = b.sub(b.bitcast(shifted, I32), b.bitcast(single(_MAGIC), I32))
    r = f.fma(n, single(-_LN2_LOW), f.fma(n, single(-_LN2_HIGH), x))
    tail = b.fmul(r, r)
    p = b.fadd(f.fma(f.horner(r, _EXP), tail, r), single(1.0))
    half = b.ashr(k, ir.Constant(I32, 1))
    return b.fmul(b.fmul(p, f.power_of_two(half)), f.power_of_two(b.sub(k, half)))


def log(builder, x):
    """log(x) = e ln(2) + log(1 + m) with 1 + m between sqrt(1/2) and sqrt(2)."""
    f, b = Floats(builder), builder
    tiny = b.fcmp_ordered("<", x, single(1.1754943508222875e-38))
    scaled = b.select(tiny, b.fmul(x, single(8388608.0)), x)
    bits = b.bitcast(scaled, I32)
    e = b.ashr(b.sub(bits, ir.Constant(I32, _HALF_ROOT_BITS)), ir.Constant(I32, 23))
    m = b.fsub(b.bitcast(b.sub(bits, b.shl(e, ir.Constant(I32, 23))), F32), single(1.0))
    e = b.sub(e, b.select(tiny, ir.Constant(I32, 23), ir.Constant(I32, 0)))
    e = b.sitofp(e, F32)
    square = b.fmul(m, m)
    tail = f.fma(b.fmul(square, m), f.horner(m, _LOG), b.fmul(e, single(_LN2_LOW)))
    tail = f.fma(square, single(-0.5), tail)
    value = f.fma(e, single(_LN2_HIGH), b.fadd(m, tail))
    zero, infinite = single(0.0), single(float("inf"))
    value = b.select(b.fcmp_ordered("==", x, infinite), x, value)
    value = b.select(b.fcmp_ordered("==", x, zero), single(float("-inf")), value)
    return b.select(b.fcmp_unordered("<", x, zero), single(float("nan")), value)


def tanh(builder, x):
    """An odd quotient of polynomials, 1 beyond 9.02."""
    f, b = Floats(builder), builder
    x = f.at_least(f.at_most(x, _TANH_END), -_TANH_END)
    z = b.fmul(x, x)
    value = b.fdiv(b.fmul(x, f.horner(z, _TANH_P)), f.horner(z, _TANH_Q))
    return f.at_least(f.at_most(value, 1.0), -1.0)
