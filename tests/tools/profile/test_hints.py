"""`tpuc profile --hints` shows only savings that a compilation reaches."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tpuc_driver.cli import main

from tests.docs.test_commands import classifier, pictures


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
    assert {"--quant-input", "--quant-output", "--quantize-table"} == set(hints)
    for option in ("--quant-output",):
        other = str(tmp_path / f"other{option}.bmodel")
        table = ["--calibration-table", str(tmp_path / "work" / "net_cali_table")]
        assert main([*given[:6], *given[-2:], *table, option, "-o", other]) == 0
        cycles = profiled(other)["cycles"]
        assert (hints[option]["cycles"], hints[option]["saved"]) == (cycles, found["cycles"] - cycles)
    assert main(["profile", other, "--hints", work]) == 2
    assert "has no other--quant-output.bmodel.json; give the --work-dir of" in capsys.readouterr().err
    Path(work, "other--quant-output.bmodel.json").write_text(Path(work, "net.bmodel.json").read_text())
    assert main(["profile", other, "--hints", work]) == 2
    assert "hints are for files compiled without --quant-input, --quantize-table, --opt" in capsys.readouterr().err
