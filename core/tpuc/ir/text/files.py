"""Modules in files: the text, and the weights that its `module.weight_file` names beside it."""

from __future__ import annotations

from pathlib import Path

from tpuc.errors import InvalidModel
from tpuc.files import reason, write_atomic
from tpuc.ir.attributes import StringAttr
from tpuc.ir.dialect import OpResolver
from tpuc.ir.operation import Module
from tpuc.ir.text.parser import parse_module
from tpuc.ir.text.printer import print_module
from tpuc.ir.weights import Weights

WEIGHT_FILE = "module.weight_file"


def read_module(path: Path, resolve: OpResolver) -> Module:
    """The module of a file. Its weights are read when first used."""
    path = Path(path)
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise InvalidModel(f"{path}: cannot be read: {reason(error)}. Check the path.") from error
    except UnicodeDecodeError as error:
        raise InvalidModel(f"{path}: is not a text file (byte {error.start}). Give the .mlir file.") from error
    module = parse_module(text, resolve, str(path))
    weight_file = weight_file_of(module)
    if weight_file is not None:
        _share_weights(module, Weights(path.parent / weight_file))
    return module


def write_module(path: Path, module: Module) -> None:
    """Write the text, and the weights under the name that the module gives them, both beside each other."""
    path = Path(path)
    weight_file = weight_file_of(module)
    if weight_file is not None:
        module.weights.save(path.parent / weight_file)
    write_atomic(path, print_module(module))


def weight_file_of(module: Module) -> str | None:
    """The name of the weight file, None when the module names none."""
    match module.attributes.get(WEIGHT_FILE):
        case StringAttr(value=name) if name:
            return name
        case _:
            return None


def _share_weights(module: Module, weights: Weights) -> None:
    module.weights = weights
    for nested in module.modules:
        _share_weights(nested, weights)
