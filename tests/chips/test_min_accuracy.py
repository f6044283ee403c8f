"""A promise of accuracy: layers that integers ruin are kept in float; where that is not enough nothing is written."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from onnx import TensorProto, helper, numpy_helper
from tpuc_driver.session import Session

from tests.chips.command_line import tpuc

CHIPS = [
    pytest.param("cv183x", marks=pytest.mark.chip("cv183x")),
    pytest.param("bm1684x", marks=[pytest.mark.chip("bm1684x"), pytest.mark.slow]),
]
INPUTS, HIDDEN, WIDTH, CLASSES, SAMPLES = 128, 512, 16, 10, 60
SMALL = 32, 64
"""Inputs and hidden values where only sentences count."""
LOUD, SHARE = 1000.0, 3.0
RUINED = ("wide", "mixed", "y")
"""Ops around values whose first number is a thousand times the others, and says about as much as they together: a table
that rounds the others away loses half, and so does one that cuts it off.
"""


def network(folder: Path, inputs: int = INPUTS, hidden: int = HIDDEN) -> Path:
    """Two usual layers; then numbers of two sizes through a sum, so that no rescaling of filters evens them out."""
    random = np.random.default_rng(3)
    wide = random.normal(size=(WIDTH, WIDTH)) / 4
    wide[:, 0] *= LOUD
    last = random.normal(size=(WIDTH, CLASSES))
    last[0] *= SHARE / LOUD
    constants = {
        "w1": random.normal(size=(inputs, hidden)) / inputs**0.5,
        "w2": random.normal(size=(hidden, WIDTH)) / hidden**0.5,
        "w3": wide,
        "w4": last,
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["first"]),
        helper.make_node("Relu", ["first"], ["first_relu"]),
        helper.make_node("MatMul", ["first_relu", "w2"], ["second"]),
        helper.make_node("MatMul", ["second", "w3"], ["wide"]),
        helper.make_node("Add", ["wide", "second"], ["mixed"]),
        helper.make_node("MatMul", ["mixed", "w4"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "ruined",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, inputs))],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, (1, CLASSES))],
        [numpy_helper.from_array(value.astype(np.float32), name) for name, value in constants.items()],
    )
    path = folder / "net.onnx"
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    path.write_bytes(model.SerializeToString())
    return path


def exact(path: Path, x: NDArray[Any]) -> NDArray[Any]:
    """The outputs by numpy."""
    w1, w2, w3, w4 = (numpy_helper.to_array(one).astype(np.float64) for one in onnx.load(path).graph.initializer)
    second = np.maximum(x @ w1, 0) @ w2
    return (second @ w3 + second) @ w4


def samples(path: Path, inputs: int = INPUTS) -> tuple[Path, NDArray[Any]]:
    """Labeled samples beside a network: those of many that it is surest of, so that rounding alone turns none."""
    x = np.random.default_rng(4).normal(size=(10 * SAMPLES, inputs)).astype(np.float32)
    outputs = exact(path, x)
    best, second = np.sort(outputs, axis=1)[:, :-3:-1].T
    x = x[np.sort(np.argsort(second - best)[:SAMPLES])]
    wanted = exact(path, x).argmax(axis=1)
    np.savez(path.with_name("x.npz"), x=x.reshape(SAMPLES, 1, inputs))
    np.savez(path.with_name("labeled.npz"), x=x.reshape(SAMPLES, 1, inputs), y=wanted)
    return path.with_name("x.npz"), wanted


def kept(chip: str, model: Path, wanted: NDArray[Any], data: Path) -> float:
    """The share of samples of which the simulator says the class that was wanted."""
    (got,) = Session(chip=chip).run(model, [data]).values()
    got = got.reshape(SAMPLES, CLASSES)
    return float((got.argmax(axis=1) == wanted).mean())


@pytest.mark.parametrize("chip", CHIPS)
def test_what_integers_ruin_is_found_and_kept_in_float(chip: str, tmp_path: Path) -> None:
    path = network(tmp_path)
    data, wanted = samples(path)
    model = tmp_path / ("net.bmodel" if chip == "bm1684x" else "net.cvimodel")
    session = Session(chip=chip, quantize="int8")
    session.compile(path, model, dataset=data)
    assert kept(chip, model, wanted, data) < 0.9
    report = session.compile(path, model, dataset=data, min_accuracy="0.99", accept_point_estimate=True)
    assert kept(chip, model, wanted, data) >= 0.99
    cost = report.accuracy
    assert cost is not None
    assert cost.floats == RUINED
    assert cost.before < 0.9
    assert (cost.figure, cost.held_out, cost.cycles) == (1.0, 1.0, report.cycles)
    assert f"3 ops in {cost.float_mode} (wide, mixed, y); {report.cycles:,} cycles" in report.text()
    assert report.to_json()["accuracy"]["trials"] == cost.trials <= 40


@pytest.mark.slow
@pytest.mark.chip("bm1684x")
def test_the_search_is_the_same_every_time(tmp_path: Path) -> None:
    """The search knows no chip, so one of them tells."""
    path = network(tmp_path)
    data, _ = samples(path)
    files = [tmp_path / "first.bmodel", tmp_path / "second.bmodel"]
    for file in files:
        session = Session(chip="bm1684x", quantize="int8")
        session.compile(path, file, dataset=data, min_accuracy="0.99", accept_point_estimate=True)
    first, second = (file.read_bytes() for file in files)
    assert first == second


@pytest.mark.chip("bm1684x")
def test_what_cannot_be_kept_is_not_written(tmp_path: Path) -> None:
    path = network(tmp_path)
    data, _ = samples(path)
    model = tmp_path / "net.bmodel"
    usual = ("compile", path, "--chip", "bm1684x", "--quantize", "int8", "--dataset", data, "-o", model)
    done = tpuc(*usual, "--min-accuracy", "0.99", "--max-trials", "2", "--accept-point-estimate")
    assert done.returncode == 1
    said = done.stderr.splitlines()[-1]
    assert re.match(r"tpuc: net: no network reaches --min-accuracy 0\.99; best: share of pr", said)
    assert re.search(
        r"float 0\.\d{4} on 48 samples \(float 1\.0000, before 0\.\d{4}\) with [a-z ]+, no op in float", said
    )
    assert re.search(r"; [\d,]+ cycles, [+-]\d+\.\d% of [\d,]+; 2 networks tried\. Lower it, raise --max-", said)
    assert said.endswith("--max-trials 2, or give more representative samples")
    assert not model.exists()


PREDICTIONS = "share of predictions as in float"
FEW = (
    "net: --min-accuracy {} needs at least {} held-out samples; {} of 60 were held out. Give {} samples, ask for less, "
    "or add --accept-point-estimate to go by the figure on these."
)
ALL = (
    "net: no number of samples shows --min-accuracy 1; ask for less, or add --accept-point-estimate to go by the "
    "figure on the samples alone."
)
WRONG = [
    (("0.99",), "--min-accuracy needs samples to measure on; give --dataset or --data-list."),
    (
        ("101%", "--dataset", "x.npz"),
        f"net: --min-accuracy 101% is above the accuracy of the float network ({PREDICTIONS} 1.0000). Lower it.",
    ),
    (
        ("most", "--dataset", "x.npz"),
        "--min-accuracy most is not a number; give a figure such as 0.99, or 99% for a share of the float network's.",
    ),
    (
        ("98%", "--dataset", "x.npz"),
        FEW.format("98%", 189, 30, 378),
    ),
    (
        ("1", "--dataset", "x.npz"),
        ALL,
    ),
    (
        ("99%", "--dataset", "x.npz", "--measure", "labels{dataset=labeled.npz}"),
        FEW.format("99%", 381, 20, 762),
    ),
    (
        ("1", "--dataset", "x.npz", "--measure", "luck"),
        "no measure of accuracy named 'luck'. Installed: decisions, labels.",
    ),
    (
        ("0.5", "--dataset", "x.npz", "--measure", "labels{dataset=labeled.npz,figure=top-7}"),
        "metric 'top-k' has no figure 'top-7'; choose one of top-1, top-5.",
    ),
]


@pytest.mark.chip("bm1684x")
def test_what_was_asked_wrongly_is_said(tmp_path: Path) -> None:
    samples(network(tmp_path, *SMALL), SMALL[0])
    usual = ("compile", "net.onnx", "--chip", "bm1684x", "--quantize", "int8", "-o", "net.bmodel", "--min-accuracy")
    for arguments, sentence in WRONG:
        done = tpuc(*usual, *arguments, cwd=tmp_path)
        assert done.returncode in (1, 2)
        assert done.stderr.splitlines()[-1] == f"tpuc: {sentence}"
        assert not (tmp_path / "net.bmodel").exists()


@pytest.mark.slow  # the same search by another measure
@pytest.mark.chip("bm1684x")
def test_a_figure_of_labeled_data_counts_where_it_is_asked_for(tmp_path: Path) -> None:
    path = network(tmp_path)
    data, wanted = samples(path)
    labeled = tmp_path / "labeled.npz"
    with np.load(labeled) as arrays:
        x, y = arrays["x"], arrays["y"].copy()
    y[::4] = (y[::4] + 1) % CLASSES  # the float network is right on three of four
    np.savez(labeled, x=x, y=y)
    model = tmp_path / "net.bmodel"
    session = Session(chip="bm1684x", quantize="int8")
    report = session.compile(
        path,
        model,
        dataset=data,
        min_accuracy="99%",
        accept_point_estimate=True,
        measure=f"labels{{dataset={labeled}}}",
    )
    cost = report.accuracy
    assert cost is not None
    assert (cost.measure, cost.samples, cost.held_out_samples) == ("top-1", 40, 20)
    right = wanted == y
    held_out = np.arange(SAMPLES) % 3 == 2
    assert cost.exact == pytest.approx(right[~held_out].mean())
    assert cost.figure >= 0.99 * cost.exact > cost.before
    got = next(iter(Session().run(model, [data]).values())).reshape(SAMPLES, CLASSES).argmax(axis=1)
    assert (got == y)[held_out].mean() >= 0.99 * right[held_out].mean()
