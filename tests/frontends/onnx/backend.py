"""The `onnx` package's own single-operator cases, run through import and interpretation.

Compiled networks are static, so an operand that ONNX computes with may have to be a constant here. Each case is tried
with all operands as network inputs; where the front end refuses that, with its scalar operands as initializers, then
with the operands of at most one dimension behind the first, then with every operand but the first. Operators whose
results have data-dependent or data-only shapes (`FOLDED`) are folded: with all operands as initializers, their results
meet the network input `zero`, because a network computes something. Operands without elements are initializers always,
and results without elements are no outputs: nothing arrives at run time.
"""

from __future__ import annotations

import functools
import importlib.util
import sys
import warnings
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.api import ImportOptions, TpucError, Unsupported
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_onnx.frontend import FRONTEND

from tests.frontends.onnx.networks import registry

Array = NDArray[Any]
ZERO = "__zero"
FORMS = ("inputs", "scalars", "short", "first")
FOLDED = (
    "blackmanwindow",
    "compress",
    "constant",
    "constantofshape",
    "eyelike",
    "hammingwindow",
    "hannwindow",
    "melweightmatrix",
    "nonzero",
    "range",
    "shape",
    "size",
    "unique",
)
"""Operators, as case names spell them, that networks may hold only where everything is known before they run."""


@dataclass(frozen=True)
class Outcome:
    """`kind`: passed, wrong, refused or crashed; `detail`: the form for passed, else the reason."""

    kind: str
    detail: str


@dataclass(frozen=True)
class Case:
    """One case of the suite; `data_sets` are pairs of operands and expected results."""

    name: str
    model: onnx.ModelProto
    data_sets: Sequence[tuple[Sequence[Any], Sequence[Any]]]
    rtol: float
    atol: float

    @property
    def op_type(self) -> str:
        """The operator under test."""
        return self.model.graph.node[0].op_type


@functools.cache
def cases() -> tuple[Case, ...]:
    """All of them, by name."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the suite computes overflows on purpose
        loaded: Sequence[Any] = load_model_tests(kind="node")
    return _by_name(loaded)


def first_cases(listed: Collection[str]) -> tuple[Case, ...]:
    """What each operator's file makes until one case is not listed; to make all takes the package seconds."""
    from onnx.backend.test.case import base, node
    from onnx.backend.test.loader import load_model_tests

    def first_only(cls: type, name: str, _bases: tuple[type, ...], members: Mapping[str, Any]) -> None:
        for member in sorted(one for one in members if one.startswith("export")):
            known = len(node._NodeTestCases)
            np.random.seed(0)  # noqa: NPY002  # as the package does
            getattr(cls, member)()
            if any(case.name not in listed for case in node._NodeTestCases[known:]):
                break

    with warnings.catch_warnings(), pytest.MonkeyPatch.context() as patch:
        warnings.simplefilter("ignore")
        patch.setattr(base._Exporter, "__init__", first_only)
        patch.setattr(node, "_NodeTestCases", [])
        patch.setattr(node, "_existing_names", {})
        for name in _modules_of(node.__name__):
            patch.delitem(sys.modules, name)
        loaded = _by_name(load_model_tests(kind="node"))
        for name in _modules_of(node.__name__):
            del sys.modules[name]  # others make the rest of the cases when they import them
    return loaded


def _modules_of(package: str) -> list[str]:
    return [name for name in sys.modules if name.startswith(f"{package}.")]


def cases_of(operator: str) -> tuple[Case, ...]:
    """Those of one operator; the others are not made where the operator has a file of its own."""
    from onnx.backend.test.case import node

    if importlib.util.find_spec(f"{node.__name__}.{operator.lower()}") is None:
        return tuple(case for case in cases() if case.op_type == operator)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        importlib.import_module(f"{node.__name__}.{operator.lower()}")
    return _by_name(case for case in node._NodeTestCases if case.model.graph.node[0].op_type == operator)


def _by_name(loaded: Iterable[Any]) -> tuple[Case, ...]:
    return tuple(
        Case(case.name, case.model, [tuple(map(_arrays, pair)) for pair in case.data_sets], case.rtol, case.atol)
        for case in sorted(loaded, key=lambda case: case.name)
    )


def _arrays(values: Sequence[Any]) -> list[Any]:
    return [numpy_helper.to_array(value) if isinstance(value, TensorProto) else value for value in values]


def run(case: Case, folder: Path, offers: Registry | None = None) -> Outcome:
    """What becomes of a case."""
    offers = offers or registry()
    outcome = Outcome("refused", "no data")
    first = case.data_sets[0][0][:1]
    is_empty = not first or (isinstance(first[0], np.ndarray) and not first[0].size)
    for form in (*FORMS, "folded") if is_empty or case.name.split("_")[1] in FOLDED else FORMS:
        outcome = _run_form(case, form, folder, offers)
        if outcome.kind != "refused":
            break
    return outcome


def _run_form(case: Case, form: str, folder: Path, offers: Registry) -> Outcome:
    try:
        for operands, expected in case.data_sets:
            problem = _compare(case, form, operands, expected, folder, offers)
            if problem:
                return Outcome("wrong", problem)
    except TpucError as error:
        refused = isinstance(error, Unsupported) or "Choose other outputs with --output-names" in str(error)
        kind = "refused" if refused else "wrong"
        return Outcome(kind, str(error))
    except Exception as error:  # noqa: BLE001  # whatever it is, it is a crash to report
        return Outcome("crashed", f"{type(error).__name__}: {error}")
    return Outcome("passed", form)


def _compare(
    case: Case, form: str, operands: Sequence[Any], expected: Sequence[Any], folder: Path, offers: Registry
) -> str:
    """What differs, empty when nothing does."""
    for entry, wanted in zip(case.model.graph.output, expected, strict=True):
        if not isinstance(wanted, (np.ndarray, np.generic)):
            raise Unsupported(f"result '{entry.name}' is a {type(wanted).__name__}, and networks compute tensors only.")
    named = {entry.name: array for entry, array in zip(case.model.graph.input, operands, strict=False)}
    fixed = dict(_fixed(named, form))
    kept = {entry.name for entry, wanted in zip(case.model.graph.output, expected, strict=True) if np.size(wanted)}
    model = _with_constants(case.model, fixed, kept, folded=form == "folded")
    path = folder / "case.onnx"
    path.write_bytes(model.SerializeToString())
    module = FRONTEND.read(path, ImportOptions(), offers)
    module.verify()
    feeds = {name: as_float(np.asarray(array)) for name, array in named.items() if name not in fixed}
    if form == "folded":
        feeds[ZERO] = np.zeros(1, np.float32)
    interpreter = Interpreter(module)
    results = interpreter.run({name: array for name, array in feeds.items() if name in interpreter.inputs})
    for entry, wanted in zip(case.model.graph.output, expected, strict=True):
        name = f"{entry.name}{ZERO}" if form == "folded" else entry.name
        if name not in results and not np.size(wanted):
            continue
        problem = _difference(entry.name, results[name], np.asarray(wanted), case)
        if problem:
            return problem
    return ""


def as_float(array: Array) -> Array:
    """Any tensor as computed networks hold it."""
    with np.errstate(all="ignore"):
        return array.astype(np.float32)


def _fixed(named: Mapping[str, Any], form: str) -> Iterator[tuple[str, Array]]:
    for index, (name, given) in enumerate(named.items()):
        if not isinstance(given, (np.ndarray, np.generic)):
            raise Unsupported(f"operand '{name}' is a {type(given).__name__}, and networks compute tensors only.")
        array = np.asarray(given)
        chosen = {
            "inputs": False,
            "scalars": array.ndim == 0,
            "short": index > 0 and array.ndim <= 1,
            "first": index > 0,
            "folded": True,
        }[form]
        if chosen or not array.size:
            yield name, array


def _with_constants(
    model: onnx.ModelProto, fixed: Mapping[str, Array], kept: Collection[str], folded: bool
) -> onnx.ModelProto:
    result = onnx.ModelProto()
    result.CopyFrom(model)
    graph = result.graph
    remaining = [entry for entry in graph.input if entry.name not in fixed]
    types = {entry.name: entry.type.tensor_type.elem_type for entry in graph.input}
    del graph.input[:]
    graph.input.extend(remaining)
    for name, array in fixed.items():
        tensor = numpy_helper.from_array(array, name)
        tensor.data_type = types[name]
        graph.initializer.append(tensor)
    outputs = [entry for entry in graph.output if entry.name in kept or not kept]
    del graph.output[:]
    graph.output.extend(outputs)
    if folded:
        _meet_zero(graph)
    return result


def _meet_zero(graph: onnx.GraphProto) -> None:
    """Outputs become themselves, as floats, plus an input."""
    graph.input.append(helper.make_tensor_value_info(ZERO, TensorProto.FLOAT, (1,)))
    outputs = list(graph.output)
    del graph.output[:]
    for entry in outputs:
        cast, total = f"{entry.name}{ZERO}_cast", f"{entry.name}{ZERO}"
        graph.node.append(helper.make_node("Cast", [entry.name], [cast], to=TensorProto.FLOAT))
        graph.node.append(helper.make_node("Add", [cast, ZERO], [total]))
        graph.output.append(helper.make_tensor_value_info(total, TensorProto.FLOAT, None))


def _difference(name: str, found: Array, expected: Array, case: Case) -> str:
    if found.shape != expected.shape and not (expected.shape == () and found.shape == (1,)):
        return f"'{name}' has shape {found.shape}, expected {expected.shape}"
    found = found.reshape(expected.shape)
    if expected.dtype.kind in "iub":
        wrong = int(np.count_nonzero(found.astype(np.float64) != expected.astype(np.float64)))
        return f"'{name}': {wrong} of {expected.size} integers differ" if wrong else ""
    with np.errstate(all="ignore"):
        stored = found.astype(expected.dtype).astype(np.float64)
    try:
        np.testing.assert_allclose(stored, expected.astype(np.float64), rtol=case.rtol, atol=case.atol)
    except AssertionError as error:
        return f"'{name}': {' '.join(str(error).split())[:200]}"
    return ""
