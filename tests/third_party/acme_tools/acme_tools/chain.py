"""Reads `.chain` files: the input's name and shape, then one op per line, each on the result of the one before."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from tpuc.api import (
    F32,
    Block,
    Builder,
    Frontend,
    Function,
    FunctionType,
    ImportOptions,
    InvalidModel,
    Location,
    Module,
    Op,
    Operation,
    Return,
    StringAttr,
    TensorType,
    Unsupported,
)
from tpuc_ops import top

OPS: Mapping[str, Callable[..., Op]] = {
    "relu": top.Relu,
    "maxpool": lambda size: top.MaxPool(kernel_shape=(int(size),) * 2, strides=(int(size),) * 2),
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
        body = Block([TensorType(shape, F32)])
        body.arguments[0].location = Location((name,))
        module = Module(options.model_name, {"module.chip": StringAttr("ALL"), "module.state": StringAttr("TOP_F32")})
        build = Builder(module, body)
        source = top.Input(do_preprocess=True, **options.preprocess) if options.preprocess else top.Input()
        value = build(source, [body.arguments[0]], name=name)
        for number, (word, *arguments) in rest:
            value = build(_op(path, number, word, arguments), [value], name=f"{word}_{number}")
        body.append(Operation(Return(), [value]))
        main = Function("main", FunctionType((), ()), body)
        main.update_type()
        module.functions.append(main)
        return module


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
