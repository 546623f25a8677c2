"""The configuration of a model and of its training: strict, frozen, read from JSON.

A mistake in a file becomes one `ConfigError` of one line that names the file, the field, what was found and what was
expected.
"""

import json
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from andrea_lab import strict_json

INT32_MAX = 2**31 - 1

Count = Annotated[int, Field(ge=1, le=INT32_MAX)]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Fraction = Annotated[float, Field(ge=0, lt=1, allow_inf_nan=False)]


class ConfigError(ValueError):
    """A configuration that cannot be used; the message is one line for the user."""


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ModelConfig(_Strict):
    """The shape of a model: token ids, positions, width C, heads NH, layers; the MLP is 4 C wide."""

    vocab: Count = Field(description="number of token ids, V")
    context: Count = Field(description="number of learned positions")
    width: Count = Field(description="channels of the residual stream, C")
    heads: Count = Field(description="attention heads, NH; must divide the width")
    layers: Count = Field(description="transformer blocks")
    tie_embeddings: bool = Field(False, description="use the token embedding as the output head as well")

    @property
    def head_size(self) -> int:
        return self.width // self.heads

    @property
    def hidden(self) -> int:
        """The width of the MLP: 4 C."""
        return 4 * self.width

    @model_validator(mode="after")
    def _heads_divide_width(self):
        if self.width % self.heads:
            raise ValueError(f"model.heads: found {self.heads}, expected a divisor of width {self.width}")
        return self


class TrainConfig(_Strict):
    """How a model is trained. A step sees `microbatches` times `batch` rows of `context` tokens."""

    batch: Count = Field(description="rows of one microbatch, B")
    microbatches: Count = Field(1, description="microbatches summed into one step")
    context: Count = Field(description="tokens of one row, T; at most the model's context")
    steps: Count = Field(description="length of the run, and of the learning-rate schedule")
    seed: Annotated[int, Field(ge=0, lt=2**63)] = Field(1, description="draws the first weights and the batches")
    lr: Positive = Field(3e-4, description="peak learning rate")
    warmup: Annotated[int, Field(ge=0, le=INT32_MAX)] = Field(2000, description="steps of linear warmup")
    min_lr: Annotated[float, Field(ge=0, le=1)] = Field(0.1, description="where the cosine ends, a fraction of lr")
    beta1: Fraction = Field(0.9, description="decay of AdamW's first moment")
    beta2: Fraction = Field(0.999, description="decay of AdamW's second moment")
    eps: Positive = Field(1e-8, description="AdamW's epsilon, outside the root")
    decay: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(0.1, description="weight decay of the W_* only")
    clip: Annotated[float, Field(ge=0, allow_inf_nan=False)] = Field(1.0, description="largest gradient norm; 0 = off")
    save_every: Annotated[int, Field(ge=0, le=INT32_MAX)] = Field(100, description="steps between two weight files")
    keep: Annotated[int, Field(ge=0, le=INT32_MAX)] = Field(10, description="weight files kept; 0 = all")
    rotate: Literal["after", "before"] = Field("after", description="old files go after a save, or before it")
    save_errors: Literal["stop", "go_on"] = Field("stop", description="what a failed save does to the run")
    grace: Annotated[float, Field(ge=0, allow_inf_nan=False)] | None = Field(
        None, description="seconds between SIGTERM and kill; null = as long as the step and its save take"
    )
    sample_every: Annotated[int, Field(ge=0, le=INT32_MAX)] = Field(0, description="steps between two samples; 0 = off")
    sample_tokens: Count = Field(420, description="tokens of a sample")
    gemm: Literal["blas", "kernels"] = Field("blas", description="who multiplies matrices")
    sources: list[str] | None = Field(None, description="names of the texts to learn from; null = all")
    tokenizer: Literal["bytes"] = Field("bytes", description="how text becomes token ids")

    @model_validator(mode="after")
    def _sources_are_named(self):
        if self.sources is not None and (not self.sources or len(set(self.sources)) != len(self.sources)):
            raise ValueError(f"train.sources: found {self.sources}, expected at least one name and none twice")
        return self


class Config(_Strict):
    """One experiment: a name, the model and its training."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$")] = Field(description="name of the experiment")
    model: ModelConfig
    train: TrainConfig

    @model_validator(mode="after")
    def _context_fits_the_table(self):
        if self.train.context > self.model.context:
            raise ValueError(
                f"train.context: found {self.train.context}, expected at most model.context = {self.model.context}"
            )
        return self

    def to_json(self) -> str:
        """The configuration as indented JSON text, every field written out."""
        return json.dumps(self.model_dump(), indent=2) + "\n"

    def with_train(self, **changes: Any) -> "Config":
        """A checked copy with other training fields; a value of None leaves the field as it is."""
        changes = {key: value for key, value in changes.items() if value is not None}
        return parse({**self.model_dump(), "train": {**self.train.model_dump(), **changes}}, self.name)


def parse(data: Any, where: str) -> Config:
    """Check plain JSON data; `where` is the name for messages. Raises ConfigError."""
    try:
        return Config.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_one_line(error, where)) from None


def load_config(name: str | Path, experiments: Path | None = None) -> Config:
    """Read a configuration by preset name ("ANDREA-nano") or from a JSON file.

    Presets are the files `experiments`/<name>-TRAIN.json. Raises ConfigError.
    """
    path = Path(name)
    if experiments is not None and path.name == str(name) and path.suffix != ".json":
        path = experiments / f"{name}-TRAIN.json"
        if not path.is_file():
            known = ", ".join(presets(experiments)) or "none"
            raise ConfigError(f"configuration: found {str(name)!r}, expected a .json file or one of {known}")
    try:
        data = strict_json.parse(path.read_bytes(), constant=float)
    except OSError as error:
        raise ConfigError(f"{path}: found {error.strerror or error}, expected a readable JSON file") from None
    except ValueError as error:
        raise ConfigError(f"{path}: found text that is no JSON ({error}), expected a JSON object") from None
    return parse(data, str(path))


def presets(experiments: Path) -> list[str]:
    """Names of the experiments in a folder, sorted."""
    return sorted(file.name.removesuffix("-TRAIN.json") for file in experiments.glob("*-TRAIN.json"))


def _one_line(error: ValidationError, where: str) -> str:
    """The first complaint of pydantic as `file: field: found X, expected Y`, and how many more there are."""
    first, *more = error.errors(include_url=False)
    field = ".".join(str(part) for part in first["loc"]) or "configuration"
    found = json.dumps(first["input"], default=str)
    if len(found) > 60:
        found = found[:57] + "..."
    if first["type"] == "extra_forbidden":
        text = f"{field}: found an unknown key, expected one of {', '.join(_fields(first['loc'][:-1]))}"
    elif first["type"] == "missing":
        text = f"{field}: found nothing, expected a value"
    elif first["type"] == "value_error":
        text = str(first["ctx"]["error"])
    else:
        expected = first["msg"].removeprefix("Input should be ").removeprefix("Value should be ")
        text = f"{field}: found {found}, expected {expected}"
    return f"{where}: {text}" + (f" (and {len(more)} more)" if more else "")


def _fields(loc: tuple) -> list[str]:
    kind = {"model": ModelConfig, "train": TrainConfig}.get(str(loc[0]) if loc else "", Config)
    return list(kind.model_fields)
