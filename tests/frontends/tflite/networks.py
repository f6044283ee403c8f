"""Small networks through the front end and our interpreter, in the foreign order of dimensions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tpuc.api import ImportOptions, Module
from tpuc.interpreter import Interpreter
from tpuc.registry import Offer, Registry
from tpuc_tflite.frontend import FRONTEND

from tests.frontends.tflite.files import Node, Tensor, tflite_file

Array = NDArray[Any]
NCHW, NHWC = (0, 3, 1, 2), (0, 2, 3, 1)

OFFERS = (
    Offer("tpuc.dialects", "top", "tpuc", "0", "tpuc_ops.top:DIALECT"),
    Offer("tpuc.dialects", "quant", "tpuc", "0", "tpuc_ops.quant:DIALECT"),
    Offer("tpuc.frontends", "tflite", "tpuc", "0", "tpuc_tflite.frontend:FRONTEND"),
    Offer("tpuc.importers", "tflite.top", "tpuc", "0", "tpuc_tflite.importers:TABLE"),
)


def registry(*more: Offer) -> Registry:
    """The front end alone, with whatever a test adds."""
    return Registry(offers=[*OFFERS, *more])


def read(content: bytes, folder: Path, options: ImportOptions | None = None, more: Sequence[Offer] = ()) -> Module:
    """The TOP module of a file."""
    path = folder / "network.tflite"
    path.write_bytes(content)
    return FRONTEND.read(path, options or ImportOptions("network"), registry(*more))


def single(
    folder: Path,
    op: str,
    operands: Sequence[Tensor],
    result: Tensor,
    options: tuple[str, dict[str, Any]] | None = None,
) -> Module:
    """A network of one operator; operands without data are its inputs."""
    inputs = [tensor.name for tensor in operands if tensor.data is None]
    node = Node(op, [tensor.name for tensor in operands], [result.name], options)
    return read(tflite_file([*operands, result], [node], inputs, [result.name]), folder)


def compute(module: Module, *inputs: Array) -> list[Array]:
    """The outputs for inputs in their order; images are `[n, h, w, c]` here."""
    interpreter = Interpreter(module)
    fed = {
        name: np.ascontiguousarray(x.transpose(NCHW)) if x.ndim == 4 else x
        for name, x in zip(interpreter.inputs, inputs, strict=True)
    }
    outputs = interpreter.run(fed)
    return [y.transpose(NHWC) if y.ndim == 4 else y for y in (outputs[name] for name in interpreter.output_names)]


def ops_of(module: Module) -> list[str]:
    """Names of what computes, without the dialect."""
    passive = ("top.Input", "top.Weight", "top.None", "func.return")
    return [o.op.name.partition(".")[2] for o in module.walk() if o.op.name not in passive]


def values(*shape: int, seed: int = 0) -> NDArray[np.float32]:
    """Reproducible numbers between -2 and 2."""
    return np.random.default_rng(seed).uniform(-2, 2, shape).astype(np.float32)


def stored(kind: str, *shape: int, seed: int = 0) -> Array:
    """Reproducible integers over the whole range of int8, uint8 or int16."""
    limits = np.iinfo(kind)
    return np.random.default_rng(seed).integers(limits.min, limits.max, shape, kind, endpoint=True)
