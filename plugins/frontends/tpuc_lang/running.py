"""Files, example data, comparisons, and compiled files of `compile`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
from tpuc.api import Module, StringAttr, file_stem, parse_module, print_module, write_atomic
from tpuc_ops.arrays import Array

from tpuc_lang.graph import LangError, Tensor

SEED = 0
FLOAT_MODES = ("f32", "f16", "bf16")
MODES = (*FLOAT_MODES, "int8", "all", "none")
LOG_LEVELS = ("normal", "simple", "only-layer-group", "quiet")
LEVELS = (0, 1, 2)
REFERENCES, COMPILED = 0.99, 0.95
"""Minimum cosine similarity required by the language: of references to the module, and of the module to compiled
files.
"""


def check_options(where: str, mode: str, dynamic: bool, opt: int, log_level: str, embed_debug_info: bool) -> None:
    """Raise LangError for unknown or unsupported options."""
    if mode not in MODES:
        raise LangError(f"{where}: mode '{mode}' is not known; use one of {', '.join(MODES)}.")
    if log_level not in LOG_LEVELS:
        raise LangError(f"{where}: log_level '{log_level}' is not known; use one of {', '.join(LOG_LEVELS)}.")
    if opt not in LEVELS:
        raise LangError(f"{where}: opt is {opt}; use 0, 1 or 2.")
    if dynamic:
        raise LangError(f"{where}: dynamic shapes are not supported; compile one file for each shape.")
    if embed_debug_info:
        raise LangError(f"{where}: embed_debug_info is not supported; `tpuc profile` reports where time is spent.")


def write(module: Module, folder: Path, name: str) -> Path:
    """Write text and weights of a module; return the path of the text."""
    weights = f"{file_stem(name)}_top_f32_all_weight.npz"
    module.attributes["module.weight_file"] = StringAttr(weights)
    path = folder / f"{file_stem(name)}_origin.mlir"
    module.weights.save(folder / weights)
    write_atomic(path, print_module(module))
    return path


def deploy(folder: Path, name: str, device: str, mode: str, opt: int) -> Path:
    """Compile a file for the device in a mode; return its path."""
    from tpuc_driver.api.host import Session

    session = Session(chip=device, quantize=mode, opt=max(opt, 1))
    model = folder / f"{file_stem(name)}_{mode}{session.chip.description.suffix}"
    module = session.load(folder / f"{file_stem(name)}_origin.mlir")
    session.manager(session.context()).run_pipeline("top-optimize", module)
    session.deploy(module, model)
    return model


# Comparison


def example_data(inputs: Sequence[Tensor], given: Mapping[str, Array]) -> dict[str, Array]:
    """Return data for every input: the given ones, its example, or random numbers."""
    generator = np.random.default_rng(SEED)
    found = {tensor.name: _example(tensor, generator) for tensor in inputs}
    return found | {name: np.asarray(given[name], np.float32) for name in found if name in given}


def _example(tensor: Tensor, generator: np.random.Generator) -> Array:
    if tensor.data is not None:
        return tensor.data.astype(np.float32)
    if tensor.is_integer:
        limits = np.iinfo(tensor.dtype)
        low, high = max(int(limits.min), -128), min(int(limits.max), 127)
        return generator.integers(low, high, tensor.shape, endpoint=True).astype(np.float32)
    return generator.random(tensor.shape, np.float32)


def compare_written(module: Module, path: Path, data: Mapping[str, Array], name: str) -> None:
    """Raise LangError unless the written files compute the same. The data are kept beside them."""
    from tpuc.api.evaluation import Interpreter, write_npz

    write_npz(path.parent / f"{file_stem(name)}_in_f32.npz", dict(data))
    written = _read(path, module)
    wanted, got = Interpreter(module).run(dict(data)), Interpreter(written).run(dict(data))
    for output, array in wanted.items():
        if not np.array_equal(array, got[output], equal_nan=True):
            raise LangError(f"compile: output '{output}' of {path} is not what was built; write it again.")


def _read(path: Path, module: Module) -> Module:
    """Read the written module with its ops and weights."""
    from tpuc.api.evaluation import read_npz

    known = {operation.op.name: type(operation.op) for operation in module.walk()}
    written = parse_module(path.read_text(encoding="utf-8"), known.get, str(path))
    for label, array in read_npz(path.parent / f"{file_stem(module.name)}_top_f32_all_weight.npz").items():
        written.weights[label] = array
    return written


def compare_references(module: Module, data: Mapping[str, Array], references: Mapping[str, Array]) -> None:
    """Raise LangError for a result that is not similar to its reference."""
    from tpuc.api.evaluation import Interpreter

    if references:
        _compare("compile", Interpreter(module).run(dict(data)), references, REFERENCES)


def compare_compiled(module: Module, model: Path, data: Mapping[str, Array]) -> None:
    """Raise LangError unless a compiled file gives the module's results, up to its float type."""
    from tpuc.api.evaluation import Interpreter
    from tpuc_driver.api.host import Session

    session = Session()
    chip, loaded = session.open(model)
    _compare(str(model), Interpreter(module).run(dict(data)), session.simulate(chip, loaded, dict(data)), COMPILED)


def _compare(where: str, results: Mapping[str, Array], wanted: Mapping[str, Array], least: float) -> None:
    from tpuc_driver.api.host import cosine

    for name in results.keys() & wanted.keys():
        likeness = cosine(np.asarray(results[name], np.float32), np.asarray(wanted[name], np.float32))
        if likeness < least:
            raise LangError(
                f"{where}: output '{name}' has a cosine similarity of {likeness:.3f}, below {least}; look for the op."
            )
