"""`tpuc profile --hints` shows only savings that a compilation reaches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api.evaluation import Interpreter
from tpuc_driver.cli import main
from tpuc_ops import top
from tpuc_profile.batches import for_samples

from tests.docs.test_commands import classifier, pictures
from tests.passes.graphs import Network


@pytest.mark.chip("bm1684x")
def test_hints_are_what_a_compilation_saves(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    classifier(tmp_path / "net.onnx", (1, 3, 64, 64), 1000)
    pictures(tmp_path / "images", 6)
    given = ["compile", str(tmp_path / "net.onnx"), "--chip", "bm1684x", "--quantize", "int8"]
    given += ["--dataset", str(tmp_path / "images"), "--preprocess", "imagenet-torch"]
    file, work = str(tmp_path / "net.bmodel"), str(tmp_path / "work")
    assert main([*given, "--work-dir", work, "-o", file]) == 0

    def profiled(file: str, *more: str) -> dict[str, Any]:
        capsys.readouterr()
        assert main(["profile", file, "--json", *more]) == 0
        return json.loads(capsys.readouterr().out)

    found = profiled(file, "--hints", work)
    hints = {hint["option"]: hint for hint in found["hints"]}
    assert {"--quant-input", "--quant-output", "--quantize-table", "--batch 4"} == set(hints)
    for option, samples in (("--quant-output", 1), ("--batch 4", 4)):
        other = str(tmp_path / f"other{option}.bmodel")
        table = ["--calibration-table", str(tmp_path / "work" / "net_cali_table")]
        assert main([*given[:6], *given[-2:], *table, *option.split(), "-o", other]) == 0
        cycles = -(-profiled(other)["cycles"] // samples)
        assert (hints[option]["cycles"], hints[option]["saved"]) == (cycles, found["cycles"] - cycles)
    other = str(tmp_path / "other--quant-output.bmodel")
    assert main(["profile", other, "--hints", work]) == 2
    assert "has no other--quant-output.bmodel.json; give the --work-dir of" in capsys.readouterr().err
    Path(work, "other--quant-output.bmodel.json").write_text(Path(work, "net.bmodel.json").read_text())
    assert main(["profile", other, "--hints", work]) == 2
    assert "hints are for files compiled without --quant-input, --quantize-table, --opt" in capsys.readouterr().err


def test_networks_are_rebuilt_for_several_samples_or_not_at_all() -> None:
    """As the front end imports them with `--batch`; not where an op mixes samples."""
    net = Network(1, 3, 8, 8)
    flat = net.op(top.Reshape(shape=(1, 192)), net.op(top.Relu(), net.input))
    module = net.finish(flat)
    several = for_samples(module, 4)
    assert several is not None
    assert [value.tensor.dims for value in several.main.outputs] == [(4, 192)]
    assert [value.tensor.dims for value in module.main.outputs] == [(1, 192)]
    x = np.random.default_rng(1).normal(size=(4, 3, 8, 8)).astype(np.float32)
    (got,) = Interpreter(several).run({net.input.name: x}).values()
    singly = [next(iter(Interpreter(module).run({net.input.name: one[None]}).values())) for one in x]
    assert (got == np.concatenate(singly)).all()
    mixing = Network(1, 3, 8, 8)
    assert for_samples(mixing.finish(mixing.op(top.Permute(order=(1, 0, 2, 3)), mixing.input)), 4) is None
    whole = Network(1, 3, 8, 8)
    assert for_samples(whole.finish(whole.op(top.Reshape(shape=(-1,)), whole.input)), 4) is None
