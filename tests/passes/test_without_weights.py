"""Modules whose npz is not there: text, verification and passes work until the data of a weight is asked for."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from tpuc.interpreter import Interpreter
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_ops import top

from tests.families import each
from tests.passes.graphs import Network


def _written(folder: Path, *, folds: bool = False) -> tuple[str, Path]:
    """The text of a module, and the path of its npz, which is taken away."""
    net = Network(1, 3, 4, 5)
    weight = net.weight(2, 3, 1, 1)
    if folds:
        weight = net.op(top.Relu(), weight)
    x = net.op(top.Conv(kernel_shape=(1, 1)), net.input, weight, net.none)
    x = net.op(top.Permute(order=(0, 2, 3, 1)), net.op(top.Permute(order=(0, 3, 1, 2)), x))
    module = net.finish(net.op(top.Relu(), net.op(top.Add(), x, x)))
    Session().save(module, folder / "net.mlir")
    (folder / "net_weight.npz").rename(folder / "taken_away.npz")
    return (folder / "net.mlir").read_text("utf-8"), folder / "net_weight.npz"


def _opt(folder: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    capsys.readouterr()
    code = main(["opt", str(folder / "net.mlir"), *arguments])
    return code, *capsys.readouterr()


def test_text_is_read_verified_and_printed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, _ = _written(tmp_path)
    assert _opt(tmp_path, capsys, "--verify-each") == (0, text, "")


@each("name", ["canonicalize", "fold-constants", "count-flops", "strip-casts"])
def test_passes_that_need_no_weight_run(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _written(tmp_path)
    code, out, _ = _opt(tmp_path, capsys, "--pass", name, "--verify-each")
    assert code == 0
    assert ('"top.Permute"' in out) != (name == "canonicalize")


def test_the_pipeline_gives_what_it_gives_with_weights(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, weights = _written(tmp_path)
    without = _opt(tmp_path, capsys, "--pipeline", "top-optimize")
    (tmp_path / "taken_away.npz").rename(weights)
    assert _opt(tmp_path, capsys, "--pipeline", "top-optimize") == without


def test_text_is_written_alone_with_a_remark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, weights = _written(tmp_path)
    target = tmp_path / "other" / "new.mlir"
    target.parent.mkdir()
    code, _, said = _opt(tmp_path, capsys, "--pass", "canonicalize", "-o", str(target))
    assert (code, said) == (0, f"{weights}: no such npz; the text is written without weights.\n")
    assert [path.name for path in target.parent.iterdir()] == ["new.mlir"]
    (tmp_path / "taken_away.npz").rename(target.parent / weights.name)  # the text still says which npz it wants
    x = np.ones((1, 3, 4, 5), np.float32)
    assert Interpreter(Session().load(target)).run({"v0": x})


def test_what_needs_a_weight_asks_for_the_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, weights = _written(tmp_path, folds=True)
    target = tmp_path / "new.mlir"
    code, out, said = _opt(tmp_path, capsys, "--pass", "fold-constants", "-o", str(target))
    sentence = f"tpuc: {weights}: no such npz; the weight file belongs next to its .mlir file\n"
    assert (code, out, said) == (1, "", sentence)
    assert not target.exists()


@pytest.mark.chip("bm1684x")
@each("name", ["count-flops", "canonicalize"])
def test_shapes_that_are_not_known_are_named(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text, _ = _written(tmp_path)
    result = re.search(r'"top.Conv".*', text)
    assert result is not None
    unknown = result[0].replace("-> tensor<1x2x4x5xf32>", "-> tensor<*xf32>")
    (tmp_path / "net.mlir").write_text(
        text.replace(result[0], unknown).replace("(tensor<1x2x4x5xf32>)", "(tensor<*xf32>)", 1)
    )
    code, _, said = _opt(tmp_path, capsys, "--pass", name, "--chip", "bm1684x")
    assert code == 1
    assert re.fullmatch(
        rf"tpuc: op 'v\d' \(top\.Conv\): its result has the shape \*, and pass '{name}' needs static shapes\. "
        r"Write the module with its shapes, as `tpuc transform` does\.\n",
        said,
    )


def test_new_arrays_need_no_file(tmp_path: Path) -> None:
    """Nor do questions about names; the file joins in when one of its own is wanted."""
    _, path = _written(tmp_path)
    module = Session().load(tmp_path / "net.mlir")
    module.weights["new"] = np.ones(2, np.float32)
    assert "new" in module.weights
    assert "w1" not in module.weights
    assert module.weights["new"].tolist() == [1, 1]
    assert not module.weights.is_loaded
    (tmp_path / "taken_away.npz").rename(path)
    assert list(module.weights) == ["w1", "new"]
