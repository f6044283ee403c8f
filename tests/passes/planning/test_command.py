"""`tpuc plan`: networks and lists of buffers, pools in TVM's spelling, C source; and planners for compilations."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tpuc.registry import Registry
from tpuc_driver.cli import main

from tests.families import each

ROOT = Path(__file__).resolve().parents[3]
DIGITS = ROOT / "examples" / "digits" / "digits.onnx"


@pytest.fixture(scope="module")
def digits(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("digits") / "digits.mlir"
    assert main(["transform", "--model-name=digits", f"--model-def={DIGITS}", f"--mlir={path}"]) == 0
    return path


def plan(capsys: pytest.CaptureFixture[str], *arguments: str | Path) -> Any:
    capsys.readouterr()
    assert main(["plan", *map(str, arguments), "--json"]) == 0
    return json.loads(capsys.readouterr().out)


def test_a_network_is_planned(digits: Path, capsys: pytest.CaptureFixture[str]) -> None:
    values = plan(capsys, digits)["digits"]
    (pool,) = values["workspace"]["pools"]
    # 16 and 32 feature maps of 8 x 8 floats are live at once, nothing else is larger.
    assert (pool["peak_bytes"], pool["bound_bytes"]) == (48 * 64 * 4, 48 * 64 * 4)
    (pool,) = values["parameter"]["pools"]
    assert pool["peak_bytes"] == 14_378 * 4


def test_the_command_of_the_rfc(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    arguments = [
        "--executor=aot", "--output-format=mlf", "--target=accel,c",
        "--usmp-workspace-pools=dtcm,sram", "--usmp-parameter-pools=itcm,flash",
        "--usmp-workspace-pool-dtcm=", "target=accel:rw;size=5000",
        "--usmp-workspace-pool-sram=target=c,accel",
        "--usmp-parameter-pool-itcm=", "target=accel;size=20000",
        "--usmp-parameter-pool-flash=target=c,accel",
    ]  # fmt: skip
    values = plan(capsys, digits, *arguments, "--output-c", tmp_path / "c")["digits"]
    peaks = {pool["name"]: pool["peak_bytes"] for kind in values.values() for pool in kind["pools"]}
    assert 0 < peaks["dtcm"] <= 5000
    assert 0 < peaks["itcm"] <= 20000
    header = (tmp_path / "c" / "digits_metadata.h").read_text()
    for name, kind in (("dtcm", "WORKSPACE"), ("sram", "WORKSPACE"), ("itcm", "PARAMETER"), ("flash", "PARAMETER")):
        assert f"#define TVM_DIGITS_{name.upper()}_{kind}_BUFFER_SIZE {peaks[name]}\n" in header


def test_a_dump_is_planned_again(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = plan(capsys, digits, "--dump", tmp_path / "list.json")["digits"]
    again = plan(capsys, tmp_path / "list.json", "--planner", "exact")
    assert {pool["name"]: pool["peak_bytes"] for pool in again["pools"]} == {
        pool["name"]: pool["peak_bytes"] for kind in whole.values() for pool in kind["pools"]
    }
    assert len(again["buffers"]) == sum(len(kind["buffers"]) for kind in whole.values())


def test_networks_share_a_workspace(digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.mlir"
    assert main(["transform", "--model-name=other", f"--model-def={DIGITS}", f"--mlir={other}"]) == 0
    capsys.readouterr()
    assert main(["plan", str(digits), str(other), "--usmp-workspace-pools=sram"]) == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert last == "pool 'sram' shared by networks that never run at once: 12,288 B"


@each(
    ("arguments", "code", "sentence"),
    [
        ([], 2, "nothing to plan; give a .mlir or .json file."),
        (["x.mlir", "--usmp-pools=a"], 2, "no such option '--usmp-pools'"),
        (["x.mlir", "--usmp-workspace-pool-a"], 2, "--usmp-workspace-pool-a needs a description such as"),
        (["DIGITS", "--planner", "luck"], 2, "no memory planner named 'luck'"),
        (
            ["DIGITS", "--usmp-workspace-pools=a", "--usmp-workspace-pool-a=size=8k"],
            1,
            (
                "pool 'a' of 8192 bytes is too small for its 6 buffers, which take 12288 bytes (no plan needs less); "
                "enlarge it by 4096 bytes or give its buffers another pool to fall back on"
            ),
        ),
        (["DIGITS", "DIGITS", "--dump", "LIST"], 2, "--dump writes the buffers of one network; give a single file."),
        (["LIST"], 1, "is not a list of buffers (KeyError: 'pools'); it needs 'pools' with names"),
        (["LIST", "--usmp-workspace-pools=a"], 2, "is a buffer list with its own pools; pass it alone"),
    ],
)
def test_what_is_wrong_is_one_sentence(
    arguments: list[str], code: int, sentence: str, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "list.json").write_text("{}")
    places = {"DIGITS": str(digits), "LIST": str(tmp_path / "list.json")}
    capsys.readouterr()
    assert main(["plan", *(places.get(word, word) for word in arguments)]) == code
    error = capsys.readouterr().err
    assert sentence in error
    assert error.count("\n") == 1


CHIPS = [pair for pair in (("bm1684x", "f32"), ("cv183x", "bf16")) if Registry().has("tpuc.chips", pair[0])]


@each(("chip", "mode"), CHIPS)
def test_compilations_take_any_planner(
    chip: str, mode: str, digits: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    peaks: dict[str, int] = {}
    for planner in ("greedy", "hill-climb{moves=50}", "exact", "reference-count"):
        file, listing = tmp_path / "digits.out", tmp_path / "plan.json"
        arguments = ["--mlir", digits, "--chip", chip, "--quantize", mode, "--model", file]
        assert main(["deploy", *map(str, arguments), "--planner", planner, "--memory-plan", str(listing)]) == 0
        written = json.loads(listing.read_text())
        assert written["planner"] == planner.partition("{")[0]
        peaks[planner] = next(pool["peak_bytes"] for pool in written["pools"] if pool["name"] == "activations")
    assert peaks["greedy"] == peaks["hill-climb{moves=50}"] == peaks["exact"] <= peaks["reference-count"]
    assert main(["deploy", *map(str, arguments), "--planner", "luck"]) == 2
    assert "no memory planner named 'luck'" in capsys.readouterr().err
