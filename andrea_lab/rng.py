"""Every random draw of the laboratory: counter-based SplitMix64 words, and numbers made from them.

`rng(seed, purpose, *ids)` names a stream. Its n-th word is a function of the name and of n alone, so nothing
depends on time, on the number of threads, on hash order or on who drew before. Streams of different names are
unrelated. All arithmetic is exact integer arithmetic or the five IEEE operations + - * / sqrt on float64, each
rounded once, so the bits are the same on every processor; no library log, sin or cos is called.

The generator is SplitMix64 (Steele, Lea and Flood, "Fast Splittable Pseudorandom Number Generators", 2014): word i
is mix(start + (i + 1) * gamma), modulo 2^64, with an odd gamma. A name is hashed into its own start and gamma.
"""

from __future__ import annotations

import hashlib

import numpy as np

MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15  # the odd integer nearest 2^64 / golden ratio: SplitMix64's own gamma

_MUL1 = 0xBF58476D1CE4E5B9
_MUL2 = 0x94D049BB133111EB
_LN2_HIGH = float.fromhex("0x1.62e42fee00000p-1")  # ends in zeros, so that k * _LN2_HIGH is exact for any exponent k
_LN2_LOW = float.fromhex("0x1.a39ef35793c76p-33")
_SQRT_HALF = float.fromhex("0x1.6a09e667f3bcdp-1")
_TWO_PI = float.fromhex("0x1.921fb54442d18p+2")


def rng(seed: int, purpose: str, *ids: int | str) -> Stream:
    """Return the stream named by `seed`, `purpose` and any number of ids.

    `seed` is an int, `purpose` a str, an id an int or a str; ints may be negative or large, and the ids 1 and "1" give
    different streams. Raises TypeError for any other type, bool included.
    """
    digest = hashlib.blake2b(_canonical(seed, purpose, *ids), digest_size=16).digest()
    return Stream(int.from_bytes(digest[:8], "little"), _good_gamma(int.from_bytes(digest[8:], "little")))


def _canonical(seed, purpose, *ids) -> bytes:
    """Bytes that differ whenever two names differ: each part is its type, its length and its decimal or UTF-8 form."""
    if isinstance(seed, bool) or not isinstance(seed, (int, np.integer)):
        raise TypeError(f"seed: expected an int, found {type(seed).__name__}")
    if not isinstance(purpose, str):
        raise TypeError(f"purpose: expected a str, found {type(purpose).__name__}")
    out = b"andrea-lab rng 1\n"
    for part in (seed, purpose, *ids):
        if isinstance(part, bool) or not isinstance(part, (int, str, np.integer)):
            raise TypeError(f"id: expected an int or a str, found {type(part).__name__}")
        kind, text = (
            (b"s", part.encode("utf-8", "surrogatepass")) if isinstance(part, str) else (b"i", str(int(part)).encode())
        )
        out += kind + str(len(text)).encode() + b":" + text
    return out


def _good_gamma(gamma: int) -> int:
    """Make gamma odd, and busy: long runs of equal bits would make neighbouring words resemble each other."""
    gamma |= 1
    return gamma ^ 0xAAAAAAAAAAAAAAAA if (gamma ^ (gamma >> 1)).bit_count() < 24 else gamma


def mix(word: int) -> int:
    """Return SplitMix64's output function of one 64-bit Python int."""
    word = ((word ^ (word >> 30)) * _MUL1) & MASK
    word = ((word ^ (word >> 27)) * _MUL2) & MASK
    return word ^ (word >> 31)


class Stream:
    """A sequence of random numbers that starts at counter 0; each draw moves the counter on.

    `Stream(state)` with SplitMix64's own gamma gives that generator's published sequence.
    """

    __slots__ = ("counter", "gamma", "state")

    def __init__(self, state: int, gamma: int = GOLDEN) -> None:
        self.state = state & MASK
        self.gamma = (gamma | 1) & MASK
        self.counter = 0

    def words(self, n: int) -> np.ndarray:
        """Return the next n words, uint64 (n,)."""
        _check_count(n)
        word = np.arange(1, n + 1, dtype=np.uint64)
        word *= np.uint64(self.gamma)
        word += np.uint64((self.state + self.counter * self.gamma) & MASK)
        self.counter += n
        word ^= word >> np.uint64(30)
        word *= np.uint64(_MUL1)
        word ^= word >> np.uint64(27)
        word *= np.uint64(_MUL2)
        word ^= word >> np.uint64(31)
        return word

    def uniform(self, n: int) -> np.ndarray:
        """Return n numbers k * 2^-53 in [0, 1), float64 (n,). Takes n words."""
        return (self.words(n) >> np.uint64(11)).astype(np.float64) * 2.0**-53

    def integers(self, n: int, hi: int) -> np.ndarray:
        """Return n integers in [0, hi), int64 (n,), for 1 <= hi <= 2^32. Takes n words.

        The value is floor(word * hi / 2^64): each is met with a probability within 2^-64 of 1/hi. Raises ValueError.
        """
        if not 1 <= hi <= 1 << 32:
            raise ValueError(f"hi: expected 1 to 2^32, found {hi}")
        word, factor = self.words(n), np.uint64(hi)
        high, low = word >> np.uint64(32), word & np.uint64(0xFFFFFFFF)
        return ((high * factor + ((low * factor) >> np.uint64(32))) >> np.uint64(32)).astype(np.int64)

    def normal(self, n: int) -> np.ndarray:
        """Return n draws of the standard normal distribution, float64 (n,). Takes 2 * ceil(n / 2) words.

        Box and Muller's formula: sqrt(-2 ln u) * (cos, sin)(2 pi v), with u in (0, 1] from the first half of the
        words and v in [0, 1) from the second half. The largest possible value is 8.58.
        """
        _check_count(n)
        half = (n + 1) // 2
        word = self.words(2 * half) >> np.uint64(11)
        u = (word[:half] + np.uint64(1)).astype(np.float64) * 2.0**-53
        v = word[half:].astype(np.float64) * 2.0**-53
        radius = np.sqrt(-2.0 * log(u))
        sine, cosine = sincos_turn(v)
        return np.concatenate((radius * cosine, radius * sine))[:n]

    def permutation(self, n: int) -> np.ndarray:
        """Return 0 .. n-1 in random order, int64 (n,): the order that sorts n words. Takes n words."""
        return np.argsort(self.words(n), kind="stable").astype(np.int64)


def _check_count(n: int) -> None:
    if n < 0:
        raise ValueError(f"n: expected 0 or more, found {n}")


def log(x: np.ndarray) -> np.ndarray:
    """Return ln x for float64 x > 0, normal numbers, to about 1e-16 relative, with portable bits.

    x = m * 2^k with m between sqrt(1/2) and sqrt(2); ln m = 2 artanh(s) with s = (m - 1)/(m + 1), |s| < 0.172, by its
    power series, whose first neglected term is below 1e-17.
    """
    bits = np.ascontiguousarray(x, dtype=np.float64).view(np.int64)
    exponent = (bits >> 52) - 1022
    m = ((bits & 0x000FFFFFFFFFFFFF) | 0x3FE0000000000000).view(np.float64)  # in [1/2, 1)
    small = m < _SQRT_HALF
    m = np.where(small, m + m, m)
    k = (exponent - small).astype(np.float64)
    s = (m - 1.0) / (m + 1.0)
    z = s * s
    tail = np.zeros_like(z)
    for odd in range(21, 1, -2):
        tail = (tail + 1.0 / odd) * z
    return k * _LN2_HIGH + (2.0 * s + (2.0 * s * tail + k * _LN2_LOW))


def sincos_turn(v: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return (sin 2 pi v, cos 2 pi v) for float64 v in [0, 1), to about 2e-16, with portable bits.

    v = q/4 + r with |r| <= 1/8, exactly; Taylor polynomials of 2 pi r, at most pi/4; then the quadrant q.
    """
    q = np.floor(4.0 * v + 0.5)
    a = (v - 0.25 * q) * _TWO_PI
    z = a * a
    sine, cosine = np.ones_like(z), np.ones_like(z)
    for k in range(18, 1, -2):  # sin a = a (1 - z/(2*3) (1 - z/(4*5) (1 - ...))), cos a likewise
        sine = 1.0 - sine * z / float(k * (k + 1))
        cosine = 1.0 - cosine * z / float(k * (k - 1))
    sine *= a
    quadrant = q.astype(np.int64) & 3
    odd = (quadrant & 1) == 1
    out_sine, out_cosine = np.where(odd, cosine, sine), np.where(odd, sine, cosine)
    out_sine = np.where(quadrant >= 2, -out_sine, out_sine)
    return out_sine, np.where((quadrant == 1) | (quadrant == 2), -out_cosine, out_cosine)


class Shuffle:
    """The numbers 0 .. n-1 in an order drawn from a stream, without a table: `shuffle[k]` is the k-th of them.

    Four Feistel rounds over the two halves of an even number of bits are a bijection on [0, 4^h) whatever the round
    function (Luby and Rackoff, 1988); a value beyond n is sent round again until it falls below n, which keeps the
    bijection (at most 4 rounds on average). It costs a few Python ints and no array, so a training step may ask for one
    element of a permutation of millions.
    """

    __slots__ = ("half", "keys", "n")

    def __init__(self, n: int, stream: Stream) -> None:
        if n < 1:
            raise ValueError(f"n: expected 1 or more, found {n}")
        self.n = n
        self.half = ((n - 1).bit_length() + 1) // 2
        self.keys = tuple(int(word) for word in stream.words(4))

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, k: int) -> int:
        if not 0 <= k < self.n:
            raise IndexError(f"k: expected 0 to {self.n - 1}, found {k}")
        low = (1 << self.half) - 1
        while True:
            left, right = k >> self.half, k & low
            for key in self.keys:
                left, right = right, left ^ (mix((right + key) & MASK) >> (64 - self.half) if self.half else 0)
            k = (left << self.half) | right
            if k < self.n:
                return k
