"""Networks that ONNX Runtime's quantizer wrote, in every command that takes a network, a module or a compiled file."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tpuc.api import Chip, ChipDescription
from tpuc.registry import Registry
from tpuc_driver.cli import main

from tests.families import each
from tests.frontends.onnx.networks import run_onnx
from tests.frontends.quantized.networks import FORMS, by_onnxruntime, quantized, samples

REGISTRY = Registry()
INSTALLED: list[Chip] = [REGISTRY.get("tpuc.chips", name) for name in REGISTRY.names("tpuc.chips")]
CHIPS: list[ChipDescription] = [chip.description for chip in INSTALLED if chip.profiles]
"""Those with a timing model, which reports are read for."""
EVERY_CHIP = pytest.mark.parametrize("chip", CHIPS, ids=[chip.name for chip in CHIPS])
QUICK_CHIPS = ("bm1684x", "cv183x")
"""One of each family."""
CHIPS_IN_TURN = pytest.mark.parametrize(
    "chip",
    [pytest.param(chip, id=chip.name, marks=() if chip.name in QUICK_CHIPS else pytest.mark.slow) for chip in CHIPS],
)
COUNT = 12


@dataclass(frozen=True)
class Files:
    """A network, the TOP module of it, samples in one file and the first of them alone."""

    folder: Path
    network: Path
    top: Path
    data: Path
    sample: Path
    x: NDArray[np.float32]
    step: float
    """Of the output."""


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    folder = tmp_path_factory.mktemp("quantized")
    network = quantized(folder, FORMS["u8s8-tensor"], 13)
    x = np.concatenate(samples(COUNT, seed=5))
    labels = [int(np.argmax(by_onnxruntime(network, row[None]))) for row in x]
    np.savez(folder / "data.npz", x=x, y=np.array(labels))
    np.save(folder / "sample.npy", x[:1])
    top = folder / "top" / "net.mlir"
    top.parent.mkdir()
    assert main(["transform", "--model-name=net", f"--model-def={network}", f"--mlir={top}"]) == 0
    return Files(folder, network, top, folder / "data.npz", folder / "sample.npy", x, _step(network))


def _step(network: Path) -> float:
    (scale,) = (one for one in onnx.load(network).graph.initializer if one.name == "y_scale")
    return float(onnx.numpy_helper.to_array(scale))


@dataclass(frozen=True)
class Compiled:
    """What a chip makes of the network."""

    chip: ChipDescription
    model: Path
    tpu: Path
    report: dict[str, Any]


@pytest.fixture(scope="module", params=CHIPS, ids=[chip.name for chip in CHIPS])
def compiled(files: Files, request: pytest.FixtureRequest) -> Compiled:
    chip: ChipDescription = request.param
    folder = files.folder / chip.name
    folder.mkdir()
    model, report = folder / f"net{chip.suffix}", folder / "report.json"
    arguments = ["--chip", chip.name, f"--test-input={files.sample}", f"--work-dir={folder}", f"--report={report}"]
    assert main(["deploy", "--mlir", str(files.top), *arguments, "-o", str(model)]) == 0
    (tpu,) = folder.glob("*_tpu.mlir")
    return Compiled(chip, model, tpu, json.loads(report.read_text()))


def said(capture: pytest.CaptureFixture[str], *arguments: Path | str, code: int = 0) -> tuple[str, str]:
    """What a command says, and what it remarks."""
    capture.readouterr()
    assert main([str(one) for one in arguments]) == code
    out, err = capture.readouterr()
    assert "Traceback" not in err
    assert "internal error" not in err
    return out, err


@each("form", FORMS)
def test_transform_compares_integers_with_integers(
    form: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    network, data, values = quantized(tmp_path, FORMS[form], 13), tmp_path / "x.npy", tmp_path / "values.npz"
    (x,) = samples(1, seed=5)
    np.save(data, x)
    arguments = [f"--model-def={network}", f"--mlir={tmp_path / 'n.mlir'}", f"--test-input={data}"]
    out, _ = said(capsys, "transform", "--model-name=n", *arguments, f"--test-result={values}")
    model = onnx.load(network)
    casts = [node.output[0] for node in model.graph.node if node.op_type == "QuantizeLinear"]
    del model.graph.output[:]
    model.graph.output.extend([onnx.ValueInfoProto(name=name) for name in [*casts, "y"]])
    wanted = run_onnx(model, {"x": x})
    with np.load(values) as results:
        common = [name for name in wanted if name in results.files]
        integers = [name for name in common if wanted[name].dtype.kind in "iu"]
        assert len(integers) >= 10
        for name in integers:
            assert results[name].dtype == wanted[name].dtype
            apart = np.abs(results[name].astype(int) - wanted[name].astype(int))
            assert apart.max() <= 1  # a sum in another order may lie on the other side of a tie
            assert (apart > 0).mean() <= 0.2
    assert f"{len(common)} tensors" in out
    assert f"{len(common)} of integers that differ by one step at most" in out  # `y` is what integers mean


@each("form", ["network", "module"])
def test_run_gives_the_values_of_onnxruntime(form: str, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    output = files.folder / "out.npz"
    model = files.network if form == "network" else files.top
    said(capsys, "run", "--model", model, "--input", files.data, "-o", output)
    wanted = np.stack([by_onnxruntime(files.network, row[None]) for row in files.x])
    with np.load(output) as results:
        got = results["y"]
    assert np.abs(got - wanted).max() <= 2.001 * files.step


def test_compiled_files_give_nearly_those_values(
    files: Files, compiled: Compiled, capsys: pytest.CaptureFixture[str]
) -> None:
    output = files.folder / "compiled.npz"
    said(capsys, "run", "--model", compiled.model, "--input", files.data, "-o", output)
    wanted = np.concatenate([by_onnxruntime(files.network, row[None]) for row in files.x])
    with np.load(output) as results:
        got = results[results.files[0]].reshape(wanted.shape)
    # On CV183x the average beside its padding is symmetric, and so is what it is made of; the last value is bf16.
    most = 2.001 if compiled.report["mode"] == "int8-asym" else 3.501
    assert np.abs(got - wanted).max() <= most * files.step
    assert compiled.report["mode"] == ("int8-asym" if "int8-asym" in compiled.chip.modes else "int8")


def test_eval_agrees_with_onnxruntime(files: Files, compiled: Compiled, capsys: pytest.CaptureFixture[str]) -> None:
    """The labels are the classes that ONNX Runtime finds."""
    out, _ = said(capsys, "eval", files.network, files.top, compiled.model, "--dataset", files.data, "--json")
    network, top, chip = json.loads(out)["models"]
    assert network["figures"]["top-1"] >= 1 - 1 / COUNT
    assert top["agreement"] == {"same top-1": 1.0}
    assert chip["figures"]["top-1"] >= 1 - 2 / COUNT


def test_profile_counts_its_commands(compiled: Compiled, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, "profile", compiled.model)
    cycles = int(re.search(r": ([\d,]+) cycles", out).group(1).replace(",", ""))  # pyright: ignore[reportOptionalMemberAccess]  # it says so, or the test fails
    assert cycles == compiled.report["cycles"]
    assert said(capsys, "disasm", compiled.model)[0].count("\n") > 10


def test_compare_says_what_integers_mean(files: Files, compiled: Compiled, capsys: pytest.CaptureFixture[str]) -> None:
    out, err = said(capsys, "compare", files.top, compiled.tpu, "--input", files.data, "--json")
    assert "is already quantized: its integers are compared by the real values they represent" in err
    layers = json.loads(out)
    assert layers[-1]["layer"] == "y"
    assert len(layers) >= 12
    assert all(layer["cosine"] > 0.999 for layer in layers)
    assert all(layer["remedy"] is None for layer in layers)
    assert "raise its thresholds" not in said(capsys, "compare", files.top, compiled.tpu, "--input", files.data)[0]


def test_visual_shows_what_integers_mean(files: Files, compiled: Compiled, capsys: pytest.CaptureFixture[str]) -> None:
    page = files.folder / "page.html"
    modules = ["--f32-mlir", files.top, "--quant-mlir", compiled.tpu]
    said(capsys, "visual", *modules, "--input", files.sample, "-o", page)
    text = page.read_text(encoding="utf-8")
    found = re.search(r"(\d+) tensors compared, .* the least similar is \S+ with (\S+) dB", text)
    assert found is not None
    assert int(found.group(1)) >= 12
    assert float(found.group(2)) >= 30  # 3 % of the values: stored bytes taken for numbers give 0


@CHIPS_IN_TURN
def test_check_finds_nothing_in_the_way(
    chip: ChipDescription, files: Files, capsys: pytest.CaptureFixture[str]
) -> None:
    out, err = said(capsys, "check", files.network, "--chip", chip.name)
    mode = "int8-asym" if "int8-asym" in chip.modes else "int8"
    assert re.fullmatch(rf"quantized\.onnx on {chip.name} in {mode}: all \d+ ops can be computed\n", out)
    assert "alone" not in err  # what single ops remark is nothing that users know


@CHIPS_IN_TURN
def test_reduce_has_nothing_to_do(chip: ChipDescription, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    left = files.folder / "left.onnx"
    _, err = said(capsys, "reduce", files.network, "--chip", chip.name, "-o", left, code=2)
    assert err == f"tpuc: {files.network}does not fail; nothing to reduce.\n"
    assert not left.exists()


@EVERY_CHIP
def test_matrix_has_a_row_for_the_ops_of_integers(chip: ChipDescription, capsys: pytest.CaptureFixture[str]) -> None:
    out, _ = said(capsys, "matrix", "--chip", chip.name, "--json")
    rows = json.loads(out)["lowerings"]
    mode = "int8-asym" if "int8-asym" in chip.modes else "int8"
    for op in ("Conv", "Add", "Mul", "MaxPool", "Sigmoid", "Concat", "AvgPool", "MatMul"):
        assert rows[f"top.{op}"][mode] is not None


def test_calibration_is_not_needed(files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    table = files.folder / "table"
    _, err = said(capsys, "calibrate", files.top, "--dataset", files.data, "-o", table, code=1)
    assert err == "tpuc: net is already quantized and needs no calibration; compile it without a table\n"
    assert not list(files.folder.glob("table*"))


@EVERY_CHIP
def test_there_are_no_layers_to_choose(chip: ChipDescription, files: Files, capsys: pytest.CaptureFixture[str]) -> None:
    table, result = files.folder / "ranges", files.folder / "qtable"
    table.write_text("# op_name threshold min max\nx 1 -1 1\ny 9 -9 9\n")
    arguments = ["--chip", chip.name, "--calibration-table", table, "--dataset", files.data, "-o", result]
    _, err = said(capsys, "qtable", files.top, *arguments, code=2)
    assert err == (
        "tpuc: net is already quantized and keeps its integers, so there are no layers to choose; compile it without "
        "--quantize-table.\n"
    )
    assert not result.exists()
