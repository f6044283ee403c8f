"""Several networks, or one network for several shapes, in one compiled file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from numpy.typing import NDArray
from tpuc.errors import TpucError, Unsupported, UsageError
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_driver.session.combining import combine, extract

from tests.families import each
from tests.frontends.onnx.networks import network, node

SUFFIXES = {"bm1684x": ".bmodel", "cv183x": ".cvimodel"}
SMALL, LARGE = ((1, 3, 8, 8),), ((4, 3, 8, 8),)  # planes of one size: filters may be folded by rows
CHIPS = [pytest.param(name, marks=pytest.mark.chip(name)) for name in SUFFIXES]


def write(path: Path, seed: int = 0, extent: int | str = "h") -> Path:
    """A convolution of pictures of any size, and ten scores."""
    random = np.random.default_rng(seed)
    nodes = [
        node("Conv", "x w", "c", pads=[1, 1, 1, 1]),
        node("Relu", "c", "r"),
        node("GlobalAveragePool", "r", "p"),
        node("Flatten", "p", "f"),
        node("Gemm", "f g", "scores"),
    ]
    weights = {"w": random.normal(size=(64, 3, 3, 3)).astype(np.float32), "g": random.normal(size=(64, 10))}
    model = network(nodes, {"x": ("n", 3, extent, extent)}, ["scores"], {k: np.float32(v) for k, v in weights.items()})
    onnx.save(model, path)
    return path


def values(shape: tuple[int, ...]) -> NDArray[np.float32]:
    return np.random.default_rng(sum(shape)).normal(size=shape).astype(np.float32)


@pytest.mark.chip("bm1684x")
def test_networks_are_combined_and_come_out_as_they_went_in(tmp_path: Path) -> None:
    session = Session(chip="bm1684x")
    files = [tmp_path / "one.bmodel", tmp_path / "other.bmodel"]
    for seed, file in enumerate(files):
        preprocess = {"mean": (3.0,)} if seed else None
        session.compile(
            write(tmp_path / "n.onnx", seed), file, model_name=file.stem, input_shapes=SMALL, preprocess=preprocess
        )
    both = tmp_path / "both.bmodel"
    combine([session.opened(file) for file in files], both)
    np.save(tmp_path / "x.npy", values(SMALL[0]))
    for file in files:
        (got,) = session.run_each(both, [tmp_path / "x.npy"], network=file.stem)
        assert np.array_equal(got.outputs["scores"], session.run(file, [tmp_path / "x.npy"])["scores"])
    with pytest.raises(UsageError) as error:
        session.run(both, [tmp_path / "x.npy"])
    assert str(error.value) == (
        f"{both} contains several networks: one 1x3x8x8, other 1x3x8x8; choose one with --network NAME."
    )
    with pytest.raises(UsageError, match=r"contains no network 'third'; choose one of one 1x3x8x8, other 1x3x8x8\."):
        list(session.run_each(both, [tmp_path / "x.npy"], network="third"))
    apart = extract(session.opened(both), tmp_path / "apart")
    assert [path.name for path in apart] == ["one.bmodel", "other.bmodel"]
    assert [path.read_bytes() for path in apart] == [file.read_bytes() for file in files]


@pytest.mark.chip("bm1684x")
def test_files_that_cannot_be_combined(tmp_path: Path) -> None:
    session = Session(chip="bm1684x")
    file = tmp_path / "one.bmodel"
    session.compile(write(tmp_path / "one.onnx"), file, input_shapes=SMALL)
    with pytest.raises(
        UsageError, match="two networks have the name 'one' and the input shapes 1x3x8x8; compile one of them under"
    ):
        combine([session.opened(file)] * 2, tmp_path / "both.bmodel")
    assert not (tmp_path / "both.bmodel").exists()
    foreign = tmp_path / "foreign.bmodel"
    foreign.write_bytes(file.read_bytes().replace(b"2.2+tpuc", b"2.2+ours") + b"more")
    with pytest.raises(Unsupported, match=r"foreign\.bmodel: this file was written by another compiler; combine and"):
        extract(session.opened(foreign), tmp_path / "apart")


@pytest.mark.parametrize("chip", CHIPS)
def test_one_network_for_several_shapes_has_its_weights_once(chip: str, tmp_path: Path) -> None:
    session = Session(chip=chip, quantize="int8")
    net, suffix = write(tmp_path / "net.onnx"), SUFFIXES[chip]
    np.save(tmp_path / "samples.npy", values((8, *SMALL[0])))
    module = session.transform(net, input_shapes=SMALL)
    session.calibrate(module, dataset=tmp_path / "samples.npy").write(tmp_path / "table")
    table = tmp_path / "table"
    one, both = tmp_path / f"one{suffix}", tmp_path / f"both{suffix}"
    reports = session.compile_shapes(net, both, [SMALL, LARGE], calibration_table=table)
    assert [report.inputs[0].shape for report in reports] == [SMALL[0], LARGE[0]]
    apart = 0
    for shapes in (SMALL, LARGE):
        session.compile(net, one, calibration_table=table, input_shapes=shapes)
        apart += one.stat().st_size
        np.save(tmp_path / "x.npy", values(shapes[0]))
        wanted, got = (session.run(path, [tmp_path / "x.npy"]) for path in (one, both))
        assert wanted.keys() == got.keys()
        for name, array in got.items():
            assert np.array_equal(array, wanted[name])
    assert {entry.shapes for entry in session.opened(both).entries} == {SMALL, LARGE}
    assert both.stat().st_size < apart - 0.8 * session.open(one)[1].memory["weights"]
    for path in extract(session.opened(both), tmp_path / "apart"):
        session.open(path)[1].check()


@pytest.mark.chip("cv183x")
def test_files_with_one_place_for_weights_take_no_others(tmp_path: Path) -> None:
    session = Session(chip="cv183x")
    files = [tmp_path / "one.cvimodel", tmp_path / "other.cvimodel"]
    for seed, file in enumerate(files):
        session.compile(write(tmp_path / f"{file.stem}.onnx", seed), file, input_shapes=SMALL)
    with pytest.raises(Unsupported, match="the weights of 'other' differ, and a cvimodel holds one set"):
        combine([session.opened(file) for file in files], tmp_path / "both.cvimodel")


@pytest.mark.chip("bm1684x")
def test_the_commands(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    net, both = str(write(tmp_path / "net.onnx")), str(tmp_path / "both.bmodel")
    shapes = ("--input-shapes", "1,3,8,8", "--input-shapes", "2,3,8,8")
    assert main(["compile", net, "--chip", "bm1684x", *shapes, "-o", both]) == 0
    other = str(write(tmp_path / "other.onnx", 1))
    assert main(["compile", other, "--chip", "bm1684x", "--input-shapes", "1,3,8,8", "-o", f"{both}.bmodel"]) == 0
    capsys.readouterr()
    whole = str(tmp_path / "whole.bmodel")
    assert main(["combine", both, f"{both}.bmodel", "-o", whole]) == 0
    assert capsys.readouterr().out == "net 2x3x8x8\nnet 1x3x8x8\nother 1x3x8x8\n"
    assert main(["extract", whole, "-o", str(tmp_path / "apart")]) == 0
    names = [Path(line).name for line in capsys.readouterr().out.splitlines()]
    assert names == ["net_2x3x8x8.bmodel", "net_1x3x8x8.bmodel", "other.bmodel"]
    assert main(["combine", both, "-o", whole]) == 2
    assert capsys.readouterr().err == "tpuc: nothing to combine; give at least two compiled files.\n"


@each("chip", CHIPS)
def test_several_batches_are_shapes_of_one_network(chip: str, tmp_path: Path) -> None:
    both = tmp_path / f"both{SUFFIXES[chip]}"
    said = ("--chip", chip, "--batch", "1,4,1", "--input-shapes", "1,3,8,8", "-o", str(both))
    assert main(["compile", str(write(tmp_path / "net.onnx")), *said]) == 0
    session = Session()
    assert {entry.shapes for entry in session.opened(both).entries} == {((1, 3, 8, 8),), ((4, 3, 8, 8),)}
    samples = values((4, 3, 8, 8))
    np.savez(tmp_path / "four.npz", x=samples)
    np.savez(tmp_path / "one.npz", x=samples[2:3])
    four, one = (session.run(both, [tmp_path / f"{name}.npz"]) for name in ("four", "one"))
    for name, array in one.items():
        assert np.array_equal(array[0], four[name][2])


@pytest.mark.chip("c")
def test_a_chip_whose_files_hold_one_network(tmp_path: Path) -> None:
    session = Session(chip="c")
    with pytest.raises(
        TpucError, match="files for chip 'c' hold one network each and cannot be combined; keep them separate"
    ):
        session.compile_shapes(write(tmp_path / "net.onnx"), tmp_path / "net.tar", [SMALL, LARGE])
