"""A run says which output is NaN or infinite, and which op made it so."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc_driver.session import Session
from tpuc_ops import top

from tests.families import each
from tests.passes.graphs import Network


def network(folder: Path) -> Path:
    """Two outputs, `log(x) + 1` and `exp(x) * exp(x)`, each behind one more op."""
    net = Network(1, 4)
    one = net.build.weight("one", np.ones((1, 4), np.float32))
    logarithm = net.op(top.Add(), net.op(top.Log(), net.input), one)
    large = net.op(top.Exp(), net.input)
    product = net.op(top.Relu(), net.op(top.Mul(), large, large))
    path = folder / "net.mlir"
    Session().save(net.finish(net.op(top.Relu(), logarithm), product), path)
    return path


def said_of(path: Path, folder: Path, values: list[float]) -> list[str]:
    np.save(folder / "x.npy", np.array([values, values], np.float32).reshape(2, 1, 4))
    said: list[str] = []
    Session(remark=said.append).run(path, [folder / "x.npy"])
    return [text.replace(str(folder / "x.npy"), "x.npy") for text in said if text.startswith("output '")]


@each(
    ("values", "sentences"),
    [
        ([1.0, 2.0, 3.0, 4.0], []),
        ([1.0, -2.0, -3.0, 4.0], ["output 'v6' has 2 NaN of 4 values for x.npy; NaN in f32 since op 'v1' (top.Log)"]),
        ([1.0, 0.0, 3.0, 60.0], ["output 'v5' has 1 infinite of 4 values for x.npy; infinite in f32 since op 'v4'"]),
    ],
)
def test_the_op_is_named(tmp_path: Path, values: list[float], sentences: list[str]) -> None:
    said = said_of(network(tmp_path), tmp_path, values)
    assert [one for one in sentences if not any(text.startswith(one) for text in said)] == [], said
    assert len(said) == len(sentences)


@pytest.mark.chip("bm1684x")
def test_compiled_files_say_how_to_find_out(tmp_path: Path) -> None:
    work = tmp_path / "work"
    session = Session(chip="bm1684x", quantize="f16", work_dir=work)
    session.deploy(session.load(network(tmp_path)), tmp_path / "net.bmodel")
    values = [1.0, 2.0, 3.0, 10.0]  # exp(10)^2 is beyond f16
    (text,) = said_of(tmp_path / "net.bmodel", tmp_path, values)
    way_out = "to see which op made them so, compile with --work-dir DIR and run the last .mlir file in it"
    assert text == f"output 'v5' has 1 infinite of 4 values for x.npy; {way_out}"
    (last,) = work.glob("*tpu*.mlir")
    (text,) = said_of(last, tmp_path, values)
    assert "infinite in f16 since op 'v4' (tpu." in text
