"""Statements about memory that are often repeated of this model family, beside the numbers that shapes give."""

from dataclasses import dataclass

from andrea_lab.model.config import ModelConfig
from andrea_lab.model.layout import count_params
from andrea_lab.model.memory import MB, MIB, plan

SMALL = ModelConfig(vocab=2305, context=1024, width=384, heads=12, layers=6)
LARGE = ModelConfig(vocab=8449, context=1024, width=768, heads=12, layers=12)
BATCH, CONTEXT = 8, 1024


@dataclass(frozen=True)
class Claim:
    """A statement, whether it holds, and the computed numbers that decide it."""

    about: str
    says: str
    holds: bool
    found: str


def claims() -> list[Claim]:
    """Check each statement for the published sizes, 8 rows of 1,024 tokens a step."""
    return _parameters() + _activations() + _totals()


def _gb(nbytes: int) -> str:
    return f"{nbytes / 1e9:.2f} GB"


def _parameters() -> list[Claim]:
    small, large = count_params(SMALL), count_params(LARGE)
    tied = count_params(LARGE.model_copy(update={"tie_embeddings": True}))
    file_small, file_large = 8 + 12 * small, 8 + 12 * large
    ratio = large / small
    half, full = 2 * large / MB, 4 * large / MB
    return [
        Claim(
            "gradients",
            "as large as the weights: 480 MB in float32, 240 MB in float16",
            False,
            f"as large, yes; but 120M is a name: {large:,} parameters ({tied:,} tied) are {full:.0f} and {half:.0f} MB",
        ),
        Claim(
            "weight file of the 12M",
            "154 MB, rounded to 147 MB",
            False,
            f"{file_small:,} bytes are {file_small / MB:.1f} MB or {file_small / MIB:.1f} MiB: two units, no rounding",
        ),
        Claim("weight file of the 120M", "1.44 GB", False, f"{file_large:,} bytes = {_gb(file_large)}"),
        Claim(
            "m and v",
            "four float16 vectors: weights, gradients, m, v",
            False,
            f"v holds squares: float16 ends at 6e-8, the square of 2.4e-4, so m and v stay float32; w, g, m, v in "
            f"float32 are 16 bytes a parameter = {_gb(16 * large)}",
        ),
        Claim("from 12M to 120M", "10 times the parameters", False, f"{large:,} / {small:,} = {ratio:.1f} times"),
    ]


def _activations() -> list[Claim]:
    one = BATCH * CONTEXT * LARGE.width * 4
    full = plan(LARGE, BATCH, CONTEXT)
    saved, weights = full.by_role()["saved"], full.by_role()["weights"]
    half = plan(LARGE, BATCH, CONTEXT, "float16")
    times16 = half.by_role()["saved"] / half.by_role()["weights"]
    one_row = plan(LARGE, 1, 128).by_role()["saved"] / weights
    probabilities = BATCH * LARGE.heads * CONTEXT**2 * 4
    return [
        Claim("one saved tensor", "25 MB", True, f"8 * 1024 * 768 * 4 = {one:,} bytes = {one / MB:.1f} MB"),
        Claim(
            "saved activations",
            "2 to 4 times the weights",
            False,
            f"{_gb(saved)} in float32, {saved / weights:.0f} times the weights ({times16:.0f} times in float16); "
            f"at 1 row of 128 tokens {one_row:.2f} times: they follow the batch, not the weights",
        ),
        Claim(
            "attention probabilities",
            "part of what is saved",
            False,
            f"saving them would add {probabilities / MIB:.0f} MiB a layer, {12 * probabilities / 2**30:.1f} GiB in "
            f"all; the log-sum-exp kept instead is {BATCH * LARGE.heads * CONTEXT * 4 / MIB:.2f} MiB a layer",
        ),
    ]


def _totals() -> list[Claim]:
    small, large = plan(SMALL, BATCH, CONTEXT), plan(LARGE, BATCH, CONTEXT)
    half = plan(LARGE, BATCH, CONTEXT, "float16")
    weights = large.by_role()["weights"]
    return [
        Claim(
            "total",
            "6 to 8 times the weights",
            False,
            f"{_gb(large.total)} in float32, {large.total / weights:.0f} times the weights",
        ),
        Claim(
            "120M in float16",
            "4 * 240 MB + 5 to 10 GB = 10 to 12 GB",
            False,
            f"the sum as written is 6 to 11 GB; our plan in float16 is {_gb(half.total)}, below 24 GB",
        ),
        Claim(
            "12M trains in 1.4 GB, and 10 times the parameters take 10 times the memory",
            "memory follows the parameters",
            False,
            f"8 * 1024 tokens take {_gb(small.total)} and {_gb(large.total)} in float32: "
            f"{large.total / small.total:.1f} times for {count_params(LARGE) / count_params(SMALL):.1f} times the "
            f"parameters",
        ),
    ]
