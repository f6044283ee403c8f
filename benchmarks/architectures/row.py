"""One line of the table of architectures, and short ways to write one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

BOTH, DYNAMO, LEGACY = ("dynamo", "legacy"), ("dynamo",), ("legacy",)


@dataclass(frozen=True)
class Input:
    """An input of an export: floats from a normal distribution, or integers from 0 to below `high`, or ones."""

    name: str
    shape: tuple[int, ...]
    high: int | None = None
    ones: bool = False

    def array(self, seed: int) -> np.ndarray:
        """Values, the same for the same seed."""
        random = np.random.default_rng(seed)
        if self.ones:
            return np.ones(self.shape, np.int64)
        if self.high is not None:
            return random.integers(0, self.high, self.shape, np.int64)
        return random.normal(0, 1, self.shape).astype(np.float32)


@dataclass(frozen=True)
class Architecture:
    """`function` of `package` with `options` gives the module; it is small where the architecture allows it, because
    the graph is what matters.

    `keeps` are the places or names of the outputs to keep; `exporters` leaves out what the package cannot be exported
    by. `selects`: the rows of the outputs are queries in the order of their scores.
    """

    name: str
    family: str
    package: str
    function: str
    inputs: tuple[Input, ...]
    options: Mapping[str, Any] = field(default_factory=dict[str, Any])
    keeps: tuple[int, ...] | None = None
    exporters: tuple[str, ...] = BOTH
    selects: bool = False


def image(side: int, channels: int = 3, name: str = "pixels") -> Input:
    """One square picture."""
    return Input(name, (1, channels, side, side))


def tokens(name: str = "input_ids", length: int = 16, high: int = 100) -> Input:
    """One sequence of token numbers."""
    return Input(name, (1, length), high)


def mask(name: str = "attention_mask", length: int = 16) -> Input:
    """The mask of a sequence that is as long as its input."""
    return Input(name, (1, length), 2, ones=True)


def timm(name: str, side: int = 64, family: str = "", model: str = "", **options: Any) -> Architecture:
    """A classifier of timm."""
    return Architecture(name, family, "timm", model or name, (image(side),), options)


def torchvision(
    name: str, family: str, side: int = 64, keeps: tuple[int, ...] | None = None, function: str = "", **options: Any
) -> Architecture:
    """A network of torchvision."""
    return Architecture(name, family, "torchvision", function or name, (image(side),), options, keeps)


def transformers(
    name: str,
    family: str,
    function: str,
    *inputs: Input,
    keeps: tuple[int, ...] = (0,),
    exporters: tuple[str, ...] = BOTH,
    selects: bool = False,
    **options: Any,
) -> Architecture:
    """A network of transformers: the class and its configuration."""
    return Architecture(name, family, "transformers", function, inputs, options, keeps, exporters, selects)


def ultralytics(name: str, family: str = "detection", side: int = 64) -> Architecture:
    """A network of ultralytics by its YAML file, as its own export has it."""
    return Architecture(name, family, "ultralytics", f"{name}.yaml", (image(side),), {}, (0,), ("legacy",))


def drawn(name: str, family: str, function: str, *inputs: Input, **options: Any) -> Architecture:
    """A network of `benchmarks/architectures/drawn.py`, for architectures without a package."""
    return Architecture(name, family, "drawn", function, inputs, options)
