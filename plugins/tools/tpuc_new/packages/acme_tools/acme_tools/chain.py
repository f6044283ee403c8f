"""Reads `.chain` files: the input's name and shape, then one op per line, each on the result of the one before."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tpuc.api import F32, Frontend, ImportOptions, InvalidModel, Module, Op, TensorType, Unsupported
from tpuc_importing.building import ModuleSource, TopBuilder
from tpuc_ops import top


def _maxpool(size: str) -> Op:
    return top.MaxPool(kernel_shape=(int(size),) * 2, strides=(int(size),) * 2)


OPS: Mapping[str, Callable[..., Op]] = {
    "relu": top.Relu,
    "maxpool": _maxpool,
    "flatten": lambda: top.Flatten(start_dim=1),
}


class ChainFrontend(Frontend):
    """`.chain` files. An op's result is named by its word and line: `relu_2`."""

    name = "chain"
    suffixes = (".chain",)

    def read(self, path: Path, options: ImportOptions, registry: Any) -> Module:
        if options.output_names or len(options.input_shapes) > 1:
            raise Unsupported(f"{path}: a chain has one input and one output; give one shape and no output names")
        (_, (_, name, text)), *rest = _lines(path)
        (shape,) = options.input_shapes or (tuple(map(int, text.split("x"))),)
        if options.batch is not None:
            shape = (options.batch, *shape[1:])
        source = ModuleSource(str(path), options.model_name, "CHAIN", options.preprocess)
        build = TopBuilder(source, [(name, TensorType(shape, F32))])
        value = build.values[name]
        for number, (word, *arguments) in rest:
            value = build.build(_op(path, number, word, arguments), [value], f"{word}_{number}")
        return build.finish([(value.name, value)])


def _lines(path: Path) -> list[tuple[int, list[str]]]:
    """The words of every line that has any, with its number."""
    try:
        text = path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise InvalidModel(f"{path}: is not text (byte {error.start}); give a .chain file") from error
    if not re.match(r"input \S+ \d+(x\d+)*\n", text):
        raise InvalidModel(f"{path}: line 1 must be `input NAME SHAPE`, as in `input x 1x3x8x8`")
    return [(number, line.split()) for number, line in enumerate(text.splitlines(), 1) if line.strip()]


def _op(path: Path, number: int, word: str, arguments: list[str]) -> Op:
    make = OPS.get(word)
    if make is None:
        raise Unsupported(f"{path}: line {number}: no op '{word}'; a chain knows {', '.join(sorted(OPS))}")
    try:
        return make(*arguments)
    except (TypeError, ValueError) as error:
        raise InvalidModel(f"{path}: line {number}: '{word}' does not take '{' '.join(arguments)}'") from error


FRONTEND = ChainFrontend()
