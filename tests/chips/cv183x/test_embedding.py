"""Rows of long tables by token numbers: a function of the runtime looks them up, without being asked for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc.errors import TpucError, UsageError
from tpuc_driver.session import Session

from tests.families import each

Array = NDArray[Any]
ROWS, WIDTH, LENGTH = 700, 24, 10
CHIPS = ("cv183x", "cv181x")


def write_text(path: Path, *, rows: int = ROWS, masked: bool = False, shaped: bool = False, wide: bool = False) -> Path:
    """Token numbers choose rows, which are normalized and multiplied. `masked`: a comparison reads the numbers too;
    `shaped`: a reshape comes first; `wide`: each row is a matrix.
    """
    random = np.random.default_rng(3)
    row = (4, WIDTH // 4) if wide else (WIDTH,)
    weights = {
        "table": random.normal(size=(rows, *row)).astype(np.float32),
        "w": random.normal(size=(WIDTH, 8)).astype(np.float32),
        "pad": np.array(0, np.int64),
        "flat": np.array([LENGTH], np.int64),
        "whole": np.array([LENGTH, WIDTH], np.int64),
        "gamma": np.ones(WIDTH, np.float32),
        "beta": np.zeros(WIDTH, np.float32),
    }
    nodes = [
        helper.make_node("Reshape", ["ids", "flat"], ["places"]),
        helper.make_node("Gather", ["table", "places" if shaped else "ids"], ["x"]),
        helper.make_node("Reshape", ["x", "whole"], ["f"]),
        helper.make_node("LayerNormalization", ["f", "gamma", "beta"], ["n"], axis=-1),
        helper.make_node("MatMul", ["n", "w"], ["y"]),
    ]
    if masked:
        nodes += [
            helper.make_node("Equal", ["ids", "pad"], ["e"]),
            helper.make_node("Cast", ["e"], ["m"], to=TensorProto.FLOAT),
        ]
    graph = helper.make_graph(
        nodes if shaped else nodes[1:],
        "text",
        [helper.make_tensor_value_info("ids", TensorProto.INT64, [1, LENGTH])],
        [onnx.ValueInfoProto(name=name) for name in (["y", "m"] if masked else ["y"])],
        [numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def token_numbers(rows: int = ROWS) -> Array:
    """With the first and the last row."""
    numbers = np.random.default_rng(5).integers(0, rows, (1, LENGTH))
    numbers[0, :2] = 0, rows - 1
    return numbers


FORMS: dict[str, dict[str, Any]] = {
    "plain": {},
    "shaped": {"shaped": True},
    "matrices": {"wide": True},
    "long": {"rows": 70_000},
    "of 257 rows": {"rows": 257},
}


@pytest.mark.parametrize("chip", CHIPS)
@each("case", FORMS)
def test_rows_are_those_of_onnx_runtime(chip: str, case: str, tmp_path: Path) -> None:
    path = write_text(tmp_path / "text.onnx", **FORMS[case])
    session = Session(chip=chip, quantize="bf16")
    data = session.build(session.transform(path)).data
    loaded = session.chip.load(data)
    assert [str(one.element) for one in loaded.inputs] == ["si32"]
    ids = token_numbers(FORMS[case].get("rows", ROWS))
    (got,) = loaded.run({"ids": ids}).values()
    (wanted,) = onnxruntime.InferenceSession(str(path)).run(None, {"ids": ids})
    noise = float(np.square(got.reshape(wanted.shape) - wanted).sum() / np.square(wanted).sum())
    assert noise < 1e-4, noise  # bf16 has 8 bits: a chain of four roundings of 2 ** -9 each


def test_a_number_beyond_the_table(tmp_path: Path) -> None:
    session = Session(chip="cv181x", quantize="bf16")
    loaded = session.chip.load(session.build(session.transform(write_text(tmp_path / "text.onnx"))).data)
    for wrong in (-1, ROWS):
        ids = token_numbers()
        ids[0, 3] = wrong
        with pytest.raises(UsageError, match=rf"^there is no row {wrong} in a table of {ROWS}; indices start at 0"):
            loaded.run({"ids": ids})


def test_numbers_that_are_read_twice(tmp_path: Path) -> None:
    """What other ops compute of the numbers comes from tables: a comparison, exactly."""
    session, path = Session(chip="cv181x", quantize="bf16"), write_text(tmp_path / "text.onnx", masked=True)
    loaded = session.chip.load(session.build(session.transform(path)).data)
    ids = token_numbers()
    _, mask = loaded.run({"ids": ids}).values()
    _, wanted = onnxruntime.InferenceSession(str(path)).run(None, {"ids": ids})
    assert np.array_equal(mask.reshape(wanted.shape), wanted)


def test_int8_with_samples(tmp_path: Path) -> None:
    """Calibration, the check of the compiled file, and numbers of any integer type."""
    path = write_text(tmp_path / "text.onnx")
    samples = tmp_path / "samples"
    samples.mkdir()
    for seed in range(12):
        np.save(samples / f"{seed}.npy", np.random.default_rng(seed).integers(0, ROWS, (1, LENGTH)))
    session = Session(chip="cv181x", quantize="int8")
    target = tmp_path / "text.cvimodel"
    report = session.compile(path, target, dataset=samples)
    assert report.accuracy is None or report.accuracy
    ids = token_numbers()
    (wanted,) = onnxruntime.InferenceSession(str(path)).run(None, {"ids": ids})
    for kind in (np.int64, np.int32, np.uint16):
        (got,) = session.chip.load(target.read_bytes()).run({"ids": ids.astype(kind)}).values()
        noise = float(np.square(got.reshape(wanted.shape) - wanted).sum() / np.square(wanted).sum())
        assert noise < 1e-2, noise  # 20 dB, less than int8 has of rows that are normalized
    with pytest.raises(TpucError):
        session.chip.load(target.read_bytes()).run({"ids": ids + 0.5})
