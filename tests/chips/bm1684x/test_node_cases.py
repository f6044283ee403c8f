"""The `onnx` package's own cases of ops that choose, compare and order, on the simulator."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import numpy_helper
from tpuc_driver.session import Session

from tests.families import each
from tests.frontends.onnx.backend import Case, cases_of

QUICK = ("GatherElements", "ScatterND", "Where", "TopK", "CumSum", "Pad")
OPERATORS = (
    *QUICK,
    *(
        "Gather",
        "GatherND",
        "ScatterElements",
        "Equal",
        "Greater",
        "GreaterOrEqual",
        "Less",
        "LessOrEqual",
        "And",
        "Or",
    ),
    *("Xor", "Not", "ArgMax", "ArgMin", "Trilu", "Mod", "BitwiseAnd", "BitwiseOr", "BitwiseXor", "BitShift", "Pow"),
    *("Slice", "Tile", "Expand", "Sum", "Max", "MatMul", "ReduceProd", "Concat", "OneHot"),
)
_LARGE = ("i32_2d", "ui64_bcast_3v1d")
NOT_ON_CHIP = {
    "test_equal_string": "text",
    "test_equal_string_broadcast": "text",
    "test_triu_zero": "no elements",
    "test_tril_zero": "no elements",
    "test_slice_start_out_of_bounds": "no elements",
    "test_reduce_prod_empty_set": "no elements",
    **{f"test_bitwise_{op}_{kind}": "numbers beyond 2**24" for op in ("and", "or", "xor") for kind in _LARGE},
    "test_mod_float_edge_cases_fmod_0_float16": "infinite divisors",
    "test_mod_float_edge_cases_fmod_0_float32": "infinite divisors",
    "test_mod_float_edge_cases_fmod_0_float64": "infinite divisors",
}
CONSTANT = {
    "Expand": 1,
    "Tile": 1,
    "TopK": 1,
    "Slice": 1,
    "Pad": 1,
    "Trilu": 1,
    "CumSum": 1,
    "OneHot": 1,
    "ReduceProd": 1,
}
"""Operators whose operands from this one on say the shape of the result."""


def _with_constants(case: Case) -> tuple[onnx.ModelProto, dict[str, np.ndarray]]:
    """The model with operands that must be constant as initializers, and the others."""
    model = onnx.ModelProto()
    model.CopyFrom(case.model)
    first = CONSTANT.get(case.op_type, 99)
    inputs: dict[str, np.ndarray] = {}
    kept: list[onnx.ValueInfoProto] = []
    for index, (entry, given) in enumerate(zip(model.graph.input, case.data_sets[0][0], strict=True)):
        array = np.asarray(given)
        if index >= first:
            tensor = numpy_helper.from_array(array, entry.name)
            tensor.data_type = entry.type.tensor_type.elem_type
            model.graph.initializer.append(tensor)
        else:
            inputs[entry.name] = array.astype(np.float32)
            kept.append(entry)
    del model.graph.input[:]
    model.graph.input.extend(kept)
    return model, inputs


@each("operator", [pytest.param(name, marks=() if name in QUICK else pytest.mark.slow) for name in OPERATORS])
def test_the_simulator_gives_what_onnx_expects(operator: str, tmp_path: Path) -> None:
    count = 0
    session = Session(chip="bm1684x", quantize="f32")
    for case in cases_of(operator):
        if case.name in NOT_ON_CHIP or len(case.model.graph.node) != 1:
            continue
        model, inputs = _with_constants(case)
        path = tmp_path / "case.onnx"
        path.write_bytes(model.SerializeToString())
        data = session.build(session.transform(path)).data
        loaded = session.chip.load(data)
        found = loaded.run({info.name: inputs[info.name].reshape(info.shape) for info in loaded.inputs})
        for entry, expected in zip(model.graph.output, case.data_sets[0][1], strict=True):
            wanted = np.asarray(expected).astype(np.float64)
            got = found[entry.name].reshape(wanted.shape)
            if np.asarray(expected).dtype.kind in "iub" and operator != "Pow":  # powers come from logarithms
                assert np.array_equal(got, wanted), case.name
            else:
                np.testing.assert_allclose(got, wanted, max(case.rtol, 1e-4), max(case.atol, 1e-6), err_msg=case.name)
        count += 1
    assert count
