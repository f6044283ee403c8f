"""Random networks of masked scores, many in one file, and how far a compiled one is from ONNX Runtime."""

from __future__ import annotations

import tempfile
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
import onnxruntime  # pyright: ignore[reportMissingTypeStubs]
import tpuc
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc import Remark

Array: TypeAlias = NDArray[Any]
Arrays: TypeAlias = dict[str, Array]

LOWEST = float(np.finfo(np.float32).min)
HIDES = (LOWEST, -1e9, -10000.0, -65504.0, -1000.0, -np.inf)
FORMS = (
    "one_minus",
    "times_minus",
    "constant",
    "causal",
    "input",
    "two_inputs",
    "where",
    "where_bool",
    "where_constant",
    "blend",
    "lengths",
    "both",
)
ENDS = ("Sigmoid", "Unfused", "MaxPool", "Softmax", "Softmax", "Softmax", "LogSoftmax", "ReduceMax", "Attend")
HIDDEN = -40.0
"""What a logarithm or a maximum may be where everything is hidden."""
NOTHING, LITTLE = 1e-12, 0.01
"""Float32 gives hidden places shares below the first; more than the second, a step of a byte, shows them."""
DEPTH = 8
_KINDS: Mapping[str, tuple[int, type[Any]]] = {
    "float32": (TensorProto.FLOAT, np.float32),
    "bool": (TensorProto.BOOL, np.bool_),
    "int64": (TensorProto.INT64, np.int64),
}


@dataclass(frozen=True)
class Case:
    """One way to mask: scores ``[batch, heads, rows, columns]`` or without batch."""

    number: int
    form: str
    hide: float
    end: str
    dims: tuple[int, ...]
    mask_dims: tuple[int, ...]
    axis: int
    kind: str
    scale_after: bool
    factor: float
    empty: bool

    @property
    def name(self) -> str:
        return f"y{self.number}"

    @property
    def is_input(self) -> bool:
        return self.form not in ("constant", "causal", "where_constant")

    def shown(self) -> str:
        return (
            f"{self.form} {self.hide:g} {self.end} {self.dims} mask {self.mask_dims} axis {self.axis} {self.kind} "
            f"factor {self.factor:g} {'after' if self.scale_after else 'before'}{' with empty rows' * self.empty}"
        )


def draw(rng: np.random.Generator, number: int, chip: str) -> Case:
    """A case; rows that are hidden as a whole never with -inf, which is NaN, and on CV18xx only by numbers beside which
    float32 has no scores either.
    """
    form = str(rng.choice(FORMS))
    hides = HIDES if form not in ("one_minus", "times_minus", "two_inputs", "blend") else HIDES[:-1]
    hide = float(rng.choice(hides))
    rank = int(rng.integers(3, 5))
    columns = int(rng.integers(3, 17))
    rows = columns if form == "causal" else int(rng.integers(2, 13))
    heads = int(rng.integers(1, 5))
    dims = ((1, heads, rows, columns), (heads, rows, columns))[rank == 3]
    axis = -2 if form not in ("causal", "both", "lengths") and rng.random() < 0.15 else -1
    keep = [True if index == rank + axis else bool(rng.random() < 0.5) for index in range(rank)]
    mask_dims = dims[-2:] if form == "causal" else tuple(d if k else 1 for d, k in zip(dims, keep, strict=True))
    if mask_dims[0] == 1 and len(mask_dims) > 2 and rng.random() < 0.3:
        mask_dims = mask_dims[1:]
    kinds = tuple(_KINDS)
    if form in ("where_bool", "both"):
        kinds = ("bool",)
    elif form in ("lengths", "input", "two_inputs"):
        kinds = ("float32",)
    return Case(
        number,
        form,
        hide,
        str(rng.choice(ENDS)) if axis == -1 else str(rng.choice(ENDS[:-1])),
        dims,
        mask_dims,
        axis,
        str(rng.choice(kinds)),
        bool(rng.random() < 0.25) and np.isfinite(hide) and form != "two_inputs",
        float(rng.choice([0.125, 0.3, 0.5])),
        bool(rng.random() < 0.2)
        and np.isfinite(hide)
        and form not in ("causal", "both")
        and (hide < -1e8 or not chip.startswith("cv")),
    )


@dataclass
class Masked:
    """A network of cases, its samples, and what ONNX Runtime makes of them."""

    cases: Sequence[Case]
    seed: int
    nodes: list[onnx.NodeProto] = field(default_factory=list[onnx.NodeProto])
    constants: Arrays = field(default_factory=dict[str, Array])
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list[onnx.ValueInfoProto])

    def __post_init__(self) -> None:
        self.rng = np.random.default_rng(self.seed)
        for case in self.cases:
            self._add(case)

    @property
    def model(self) -> bytes:
        outputs = [helper.make_tensor_value_info(case.name, TensorProto.FLOAT, None) for case in self.cases]
        weights = [numpy_helper.from_array(array, name) for name, array in self.constants.items()]
        graph = helper.make_graph(self.nodes, "masked", self.inputs, outputs, weights)
        opset = [helper.make_opsetid("", 17)]
        return helper.make_model(graph, opset_imports=opset, ir_version=9).SerializeToString()

    def sample(self) -> Arrays:
        """Random scores and masks."""
        result: Arrays = {}
        for case in self.cases:
            n = case.number
            result[f"x{n}"] = self.rng.standard_normal((*case.dims[:-1], DEPTH)).astype(np.float32)
            if case.form in ("input", "two_inputs"):
                for index in range(1 + (case.form == "two_inputs")):
                    result[f"m{n}_{index}"] = np.where(self._shown(case), 0.0, case.hide).astype(np.float32)
            elif case.form == "lengths":
                least = 0 if case.empty else 1
                result[f"m{n}"] = np.full(
                    (1,) * len(case.dims), self.rng.integers(least, case.dims[-1] + 1), np.float32
                )
            elif case.is_input:
                result[f"m{n}"] = self._shown(case).astype(_KINDS[case.kind][1])
        return result

    def want(self, samples: Sequence[Arrays]) -> list[Arrays]:
        session: Any = onnxruntime.InferenceSession(self.model, providers=["CPUExecutionProvider"])
        names = [case.name for case in self.cases]
        run = session.run
        return [dict(zip(names, run(names, sample), strict=True)) for sample in samples]

    def _shown(self, case: Case) -> Array:
        """Where scores count: at least at one place along the axis, or at none where the case has empty rows. Two
        masks leave one place in common.
        """
        shown = self.rng.random(case.mask_dims) < 0.6
        rank = len(case.mask_dims)
        index = [slice(None)] * rank
        index[case.axis] = slice(0, 1)
        shown[tuple(index)] = True
        if case.empty and case.form != "two_inputs":
            empty = self.rng.random(np.delete(case.mask_dims, rank + case.axis)) < 0.3
            shown &= ~np.expand_dims(empty, rank + case.axis)
        return shown

    def _node(self, op: str, operands: Sequence[str], result: str, **attributes: Any) -> str:
        self.nodes.append(helper.make_node(op, list(operands), [result], **attributes))
        return result

    def _constant(self, name: str, array: Any, dtype: type[Any] = np.float32) -> str:
        self.constants[name] = np.asarray(array, dtype)
        return name

    def _input(self, name: str, kind: str, dims: Sequence[int]) -> str:
        self.inputs.append(helper.make_tensor_value_info(name, _KINDS[kind][0], dims))
        return name

    def _add(self, case: Case) -> None:
        n = case.number
        x = self._input(f"x{n}", "float32", (*case.dims[:-1], DEPTH))
        right = self.rng.standard_normal((DEPTH, case.dims[-1])) * 0.8 / case.factor
        scores = self._node("MatMul", [x, self._constant(f"w{n}", right)], f"s{n}")
        if not case.scale_after:
            scores = self._node("Mul", [scores, self._constant(f"f{n}", case.factor)], f"t{n}")
        masked = self._masked(case, scores)
        if case.scale_after:
            masked = self._node("Mul", [masked, self._constant(f"f{n}", case.factor)], f"t{n}")
        if case.end == "Sigmoid":
            self._node("Sigmoid", [masked], case.name)
        elif case.end == "Unfused":
            largest = self._node("ReduceMax", [masked], f"l{n}", axes=[case.axis], keepdims=1)
            below = self._node("Exp", [self._node("Sub", [masked, largest], f"u{n}")], f"e{n}")
            total = self._node("ReduceSum", [below, self._constant(f"a{n}", [case.axis], np.int64)], f"r{n}")
            self._node("Div", [below, total], case.name)
        elif case.end == "MaxPool":
            if len(case.dims) == 3:
                masked = self._node("Unsqueeze", [masked, self._constant(f"a{n}", [0], np.int64)], f"i{n}")
            self._node("GlobalMaxPool", [masked], case.name)
        elif case.end == "ReduceMax":
            self._node("ReduceMax", [masked], case.name, axes=[case.axis], keepdims=1)
        elif case.end == "Attend":
            values = self.rng.standard_normal((case.dims[-1], DEPTH))
            shares = self._node("Softmax", [masked], f"p{n}", axis=case.axis)
            self._node("MatMul", [shares, self._constant(f"v{n}", values)], case.name)
        else:
            self._node(case.end, [masked], case.name, axis=case.axis)

    def _masked(self, case: Case, scores: str) -> str:
        n, result = case.number, f"h{case.number}"
        if case.form in ("constant", "causal"):
            shown = np.tri(*case.mask_dims, dtype=bool) if case.form == "causal" else self._shown(case)
            return self._node("Add", [scores, self._constant(f"m{n}", np.where(shown, 0.0, case.hide))], result)
        if case.form == "where_constant":
            shown = self._constant(f"m{n}", self._shown(case), np.bool_)
            return self._node("Where", [shown, scores, self._constant(f"c{n}", case.hide)], result)
        if case.form == "lengths":
            rest = self._input(f"m{n}", "float32", (1,) * len(case.dims))
            places = self._constant(f"k{n}", np.arange(case.dims[-1]))
            shown = self._node("Less", [places, rest], f"b{n}")
            return self._node("Where", [shown, scores, self._constant(f"c{n}", case.hide)], result)
        if case.form == "both":
            mask = self._input(f"m{n}", "bool", case.mask_dims)
            causal = self._constant(f"k{n}", np.tri(*case.dims[-2:], k=1), np.bool_)
            shown = self._node("And", [mask, causal], f"b{n}")
            return self._node("Where", [shown, scores, self._constant(f"c{n}", case.hide)], result)
        if case.form in ("input", "two_inputs"):
            for index in range(1 + (case.form == "two_inputs")):
                mask = self._input(f"m{n}_{index}", "float32", case.mask_dims)
                scores = self._node("Add", [scores, mask], f"{result}_{index}")
            return scores
        mask = self._input(f"m{n}", case.kind, case.mask_dims)
        if case.form.startswith("where"):
            shown = mask if case.kind == "bool" else self._node("Cast", [mask], f"b{n}", to=TensorProto.BOOL)
            if n % 2:
                hidden = self._node("Not", [shown], f"o{n}")
                return self._node("Where", [hidden, self._constant(f"c{n}", case.hide), scores], result)
            return self._node("Where", [shown, scores, self._constant(f"c{n}", case.hide)], result)
        number = mask if case.kind == "float32" else self._node("Cast", [mask], f"b{n}", to=TensorProto.FLOAT)
        if case.form == "blend":
            scores = self._node("Mul", [scores, number], f"g{n}")
        if case.form in ("one_minus", "blend"):
            turned = self._node("Sub", [self._constant(f"one{n}", 1.0), number], f"o{n}")
            hiding = self._node("Mul", [turned, self._constant(f"c{n}", case.hide)], f"d{n}")
            return self._node("Add", [scores, hiding], result)
        turned = self._node("Sub", [number, self._constant(f"one{n}", 1.0)], f"o{n}")
        hiding = self._node("Mul", [turned, self._constant(f"c{n}", case.hide)], f"d{n}")
        return self._node("Sub", [scores, hiding], result)


def error(case: Case, got: Array, want: Array) -> float:
    """How far a result is off: shares as they are, others as parts of the largest; infinite where hidden places show
    or something is NaN.
    """
    got = np.asarray(got, np.float64).reshape(want.shape)
    far = case.end in ("LogSoftmax", "ReduceMax", "MaxPool")
    hidden = want < HIDDEN if far else (want < NOTHING) & (case.end not in ("Attend", "Sigmoid"))
    if np.isnan(got).any() or (got[hidden] > (HIDDEN if far else LITTLE)).any():
        return float("inf")
    largest = np.abs(want[~hidden]).max(initial=1.0) if far else 1.0
    return float(np.abs(got[~hidden] - want[~hidden]).max(initial=0.0) / largest)


def errors(network: Masked, chip: str, mode: str, tests: int = 3, calibrations: int = 32) -> list[tuple[Case, float]]:
    """The worst error of every case on some samples."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", Remark)  # of masks that show everything, and of bounds of bf16
        return _errors(network, chip, mode, tests, calibrations)


def _errors(network: Masked, chip: str, mode: str, tests: int, calibrations: int) -> list[tuple[Case, float]]:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "masked.onnx"
        path.write_bytes(network.model)
        loaded = tpuc.load(path)
    if mode == "int8":
        rows = [network.sample() for _ in range(calibrations)]
        stacked = {name: np.stack([row[name] for row in rows]) for name in rows[0]}
        compiled = loaded.quantize(stacked).compile(chip)
    else:
        compiled = loaded.compile(chip, mode=mode)
    samples = [network.sample() for _ in range(tests)]
    names = [info.name for info in compiled.outputs]
    worst = dict.fromkeys(range(len(network.cases)), 0.0)
    for sample, want in zip(samples, network.want(samples), strict=True):
        got = compiled.run(sample)
        for index, (case, name) in enumerate(zip(network.cases, names, strict=True)):
            worst[index] = max(worst[index], error(case, got[name], want[case.name]))
    return [(case, worst[index]) for index, case in enumerate(network.cases)]
