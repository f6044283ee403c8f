"""Tensors with reproducible numbers, and what a network computes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import tpuc_lang as tl
from numpy.typing import NDArray
from tpuc.api import Module
from tpuc.interpreter import Interpreter

Array = NDArray[Any]


def begin_anew() -> None:
    """Forget the network, as names are numbered in it and taken once."""
    tl.deinit()
    tl.init("BM1684X")


def numbers(*shape: int, seed: int = 0) -> Array:
    """Between -1 and 1."""
    return np.random.default_rng([seed, *shape]).uniform(-1, 1, shape).astype(np.float32)


def floats(*shape: int, seed: int = 0) -> tl.Tensor:
    """A network input with an example."""
    return tl.Tensor(shape, data=numbers(*shape, seed=seed))


def integers(*shape: int, dtype: str = "int8", seed: int = 0, **meaning: Any) -> tl.Tensor:
    """A network input of whole numbers over the whole range of the type."""
    limits = np.iinfo(dtype)
    data = np.random.default_rng(seed).integers(limits.min, limits.max, shape, endpoint=True)
    return tl.Tensor(shape, data=data, dtype=dtype, **meaning)


def const(array: Array, dtype: str = "float32", **meaning: Any) -> tl.Tensor:
    """A weight."""
    return tl.Tensor(array.shape, data=array, dtype=dtype, is_const=True, **meaning)


def compiled(outputs: tl.Tensor | list[tl.Tensor], inputs: list[tl.Tensor], folder: Path) -> Module:
    """Through the files, which `cmp` reads back."""
    return tl.compile("net", inputs, outputs if isinstance(outputs, list) else [outputs], cmp=True, folder=folder)


def result(output: tl.Tensor, inputs: list[tl.Tensor], folder: Path) -> Array:
    """What the network computes from its inputs' examples."""
    module = compiled(output, inputs, folder)
    module.verify()
    data = {tensor.name: np.asarray(tensor.data, np.float32) for tensor in inputs}
    value = Interpreter(module).run(data)[output.name]
    assert value.shape == output.shape
    return value


def evaluated(outputs: tl.Tensor | list[tl.Tensor], inputs: list[tl.Tensor]) -> list[Array]:
    """What the module in memory computes from its inputs' examples."""
    wanted = outputs if isinstance(outputs, list) else [outputs]
    module = tl.compile("net", inputs, wanted, no_save=True)
    module.verify()
    data = {tensor.name: np.asarray(tensor.data, np.float32) for tensor in inputs}
    found = Interpreter(module).run(data)
    assert all(found[one.name].shape == one.shape for one in wanted)
    return [found[one.name] for one in wanted]
