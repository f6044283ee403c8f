"""Module files: the text, and next to it the weight file named by `module.weight_file`."""

from __future__ import annotations

from pathlib import Path

from tpuc.errors import InvalidModel, VerifyError
from tpuc.files import read_text, write_atomic
from tpuc.ir.attributes import StringAttr
from tpuc.ir.dialect import OpResolver
from tpuc.ir.operation import Location, Module, Operation
from tpuc.ir.text.parser import parse_module
from tpuc.ir.text.printer import print_module
from tpuc.ir.traits import Constant
from tpuc.ir.weights import Weights

WEIGHT_FILE = "module.weight_file"
MODULE_NAME = "module.name"
NAME = "name"


def read_module(path: Path, resolve: OpResolver) -> Module:
    """Read and verify a module. Weights are read on first use and must then have their declared types.

    Early files of TPU-MLIR have no locations: their attribute `name` names the value, and `module.name` the module.
    """
    path = Path(path)
    text = read_text(path, InvalidModel, "Give the .mlir file.")
    if not text.strip():
        raise InvalidModel(f"{path}: is empty. Give the .mlir file.")
    module = parse_module(text, resolve, str(path))
    match module.attributes.get(MODULE_NAME):
        case StringAttr(value=name) if not module.name:
            module.name = name
        case _:
            pass
    for operation in module.walk():
        _name_by_attribute(operation)
    weight_file = weight_file_of(module)
    if weight_file is not None:
        types = [(operation.name, operation.result.type) for operation in module.walk() if _is_constant(operation)]
        _share_weights(module, Weights(path.parent / weight_file, types))
    try:
        module.verify()
    except VerifyError as error:
        raise VerifyError(f"{path}: {error}") from error
    return module


def _is_constant(operation: Operation) -> bool:
    return isinstance(operation.op, Constant) and len(operation.results) == 1


def write_module(path: Path, module: Module) -> None:
    """Write the text, and next to it the weights under the module's name for them.

    Weights in a missing file that were never read cannot be written; only the text is written then.
    """
    path = Path(path)
    weight_file = weight_file_of(module)
    if weight_file is not None and module.weights.missing is None:
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


def _name_by_attribute(operation: Operation) -> None:
    name = operation.extra_attributes.get(NAME)
    if not operation.location.names and len(operation.results) == 1 and isinstance(name, StringAttr) and name.value:
        operation.location = Location((name.value,))
        del operation.extra_attributes[NAME]
