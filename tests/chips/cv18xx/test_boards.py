"""Which files boards and runtimes take, in the sentences that users see."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest
from tpuc.registry import Registry
from tpuc_cv18.container import CviModel
from tpuc_cv18xx.boards import DUO64
from tpuc_cv18xx.chip import CV180X

from tests.chips.command_line import tpuc
from tests.chips.cv18xx import NAMES
from tests.families import each

DIGITS = Path(__file__).resolve().parents[3] / "examples" / "digits" / "digits.onnx"
GOLDENS = Path(__file__).parent / "goldens"
KIB, MIB = 1 << 10, 1 << 20
BOARDS = {
    "duo64": ("cv180x", 26.80078125),
    "duo256": ("cv181x", 75),
    "recamera": ("cv181x", 50),
    "licheerv-nano": ("cv181x", 48),
    "maixcam": ("cv181x", 128),
}


def _net20(chip: str) -> Path:
    """A file of the vendor's compiler."""
    return GOLDENS / chip / f"net20_{chip}_int8.cvimodel"


def _with_activations(path: Path, size: int) -> Path:
    """The file of CV180x, which allocates that many bytes more."""
    model = CviModel.from_bytes(_net20("cv180x").read_bytes(), CV180X)
    (program,) = model.programs
    program = replace(program, private_bytes=program.private_bytes + size)
    path.write_bytes(replace(model, programs=(program,)).to_bytes())
    return path


class TestBoards:
    @each("name", BOARDS)
    def test_a_board_has_a_chip_and_memory(self, name: str) -> None:
        chip, mib = BOARDS[name]
        board = Registry().get("tpuc.boards", name)
        assert (board.chip, board.device_bytes) == (chip, mib * MIB)
        done = tpuc("check", _net20(chip), "--board", name)
        assert done.returncode == 0, done.stdout
        # The vendor's tool says 0.07 MB of this file.
        assert re.search(
            r"are legal, quant on the processor in about [\d.]+ ms \(estimated\); it uses (69|7[0-6]) KiB of ",
            done.stdout,
        )
        assert f" KiB of the {mib:.2f} MiB of {board.title}: weights 48 KiB, commands " in done.stdout

    def test_a_file_for_another_chip(self) -> None:
        done = tpuc("check", _net20("cv181x"), "--board", "duo64")
        assert done.returncode == 1
        assert done.stdout.splitlines()[0] == (
            "the network: Milk-V Duo (64 MB) has a cv180x, but the file is compiled for cv181x. Compile it with --chip "
            "cv180x."
        )
        done = tpuc("check", DIGITS, "--board", "duo64", "--chip", "bm1684x")
        assert done.returncode == 1
        assert done.stdout.startswith(
            "the network: Milk-V Duo (64 MB) has a cv180x, but the file is compiled for bm1684x."
        )

    def test_a_file_that_is_too_large(self, tmp_path: Path) -> None:
        small = _with_activations(tmp_path / "small.cvimodel", 26 * MIB)
        assert tpuc("check", small, "--board", "duo64").returncode == 0
        done = tpuc("check", _with_activations(tmp_path / "large.cvimodel", 27 * MIB), "--board", "duo64")
        assert done.returncode == 1
        assert done.stdout.startswith(
            "the network: Milk-V Duo (64 MB) reserves 26.80 MiB for networks, but this one needs 27.07 MiB "
            "(weights 48 KiB, commands "
        )
        assert "Use a smaller network or fewer bits, or reserve more memory: it is ION_SIZE in memmap.py" in done.stdout

    def test_compiling_for_a_board_takes_its_chip(self, tmp_path: Path) -> None:
        done = tpuc("compile", DIGITS, "--board", "duo64", "--quantize", "bf16", "-o", tmp_path / "digits.cvimodel")
        assert done.returncode == 0, done.stderr
        by_chip = tmp_path / "by_chip.cvimodel"
        assert tpuc("compile", DIGITS, "--chip", "cv180x", "--quantize", "bf16", "-o", by_chip).returncode == 0
        assert (tmp_path / "digits.cvimodel").read_bytes() == by_chip.read_bytes()
        done = tpuc("compile", DIGITS, "--board", "duo64", "--chip", "cv181x", "-o", tmp_path / "other.cvimodel")
        assert (done.returncode, done.stderr) == (
            2,
            "tpuc: --board duo64 has a cv180x, not --chip cv181x; leave out --chip.\n",
        )

    def test_what_a_board_cannot_hold_is_not_written(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("tpuc_cv18xx.boards.DUO64", replace(DUO64, device_bytes=20 * KIB))
        file = tmp_path / "digits.cvimodel"
        done = tpuc("compile", DIGITS, "--board", "duo64", "--quantize", "bf16", "-o", file)
        assert done.returncode == 1
        assert re.search(
            r"^tpuc: \S+digits\.cvimodel: Milk-V Duo \(64 MB\) reserves 20 KiB for networks, but this one needs "
            r"\d+ KiB \(weights \d+ KiB, .*\); take a smaller network or fewer bits, or reserve more: it is ION_SIZE ",
            done.stderr,
            re.MULTILINE,
        ), done.stderr
        assert not file.exists()

    def test_a_network_that_is_too_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """On a board with 20 KiB."""
        monkeypatch.setattr("tpuc_cv18xx.boards.DUO64", replace(DUO64, device_bytes=20 * KIB))
        done = tpuc("check", DIGITS, "--board", "duo64", "--json")
        result = json.loads(done.stdout)
        assert done.returncode == 1
        assert (result["chip"], result["mode"], result["board_bytes"]) == ("cv180x", "bf16", 20 * KIB)
        assert result["device_bytes"]["inputs and outputs"] == 4 * (8 * 8 + 10)
        (finding,) = result["findings"]
        assert (finding["stage"], finding["nodes"]) == ("board", [])
        assert finding["reason"].startswith(
            "Milk-V Duo (64 MB) reserves 20 KiB for networks, but this one needs 32 KiB (weights "
        )

    def test_an_unknown_board_is_refused_with_those_that_are_known(self) -> None:
        done = tpuc("check", DIGITS, "--board", "duo65")
        assert done.returncode == 2
        assert done.stderr == (
            "tpuc: no board named 'duo65'. Did you mean 'duo64'? Installed: duo256, duo64, licheerv-nano, maixcam, "
            "recamera.\n"
        )


class TestRuntimes:
    @each("chip", [*NAMES, "cv183x"])
    def test_a_file_states_the_version_of_the_runtime(self, chip: str, tmp_path: Path) -> None:
        stated: dict[str, bytes] = {}
        for version in ("1.3", "1.4", "1.9", "2.0"):
            path = tmp_path / f"{version}.cvimodel"
            options = ("--chip", chip, "--quantize", "bf16", "--runtime-version", version, "-o", path)
            done = tpuc("compile", DIGITS, *options)
            assert done.returncode == 0, done.stderr
            stated[version] = path.read_bytes()
        assert stated["1.3"][12:14] == b"\1\3"
        assert stated["1.4"][12:14] == b"\1\4"
        assert stated["1.4"] == stated["1.9"] == stated["2.0"]
        assert tpuc("check", tmp_path / "1.3.cvimodel", "--runtime-version", "1.3").returncode == 0

    def test_a_file_that_is_newer_than_the_runtime(self) -> None:
        done = tpuc("check", _net20("cv181x"), "--runtime-version", "1.3.0")
        assert done.returncode == 1
        assert done.stdout.splitlines()[0] == (
            "the network: cvimodel(1.4) is not supported in runtime(1.3). Compile it with --runtime-version 1.3.0, or "
            "install a newer runtime."
        )
        for version in ("1.4", "1.5", "2.0"):
            assert tpuc("check", _net20("cv181x"), "--runtime-version", version).returncode == 0

    def test_a_runtime_that_is_too_old_for_any_file(self) -> None:
        for command in (("compile", "-o", "missing.cvimodel"), ("check",)):
            done = tpuc(*command, DIGITS, "--chip", "cv181x", "--runtime-version", "1.2")
            assert done.returncode == 1
            assert done.stderr == (
                "tpuc: runtime 1.2 cannot load files of this compiler: their layout of activations needs version 1.3; "
                "install a newer libcviruntime.so on the board\n"
            )

    def test_what_is_no_version(self) -> None:
        done = tpuc("check", DIGITS, "--chip", "cv181x", "--runtime-version", "new")
        assert done.returncode == 2
        assert done.stderr == (
            "tpuc: --runtime-version: 'new' is not a version; write it as 1.4, as the vendor's programs print it in "
            "'Cvitek Runtime (1.4.0)'.\n"
        )

    @pytest.mark.chip("bm1684x")
    def test_a_chip_without_versions(self) -> None:
        done = tpuc("check", DIGITS, "--chip", "bm1684x", "--runtime-version", "1.4")
        assert done.returncode == 2
        assert done.stderr == ("tpuc: files of chip 'bm1684x' have no runtime version; leave out --runtime-version.\n")


def test_a_network_needs_a_chip_or_a_board() -> None:
    done = tpuc("check", DIGITS)
    assert done.returncode == 2
    assert done.stderr == "tpuc: no chip is chosen; add --chip NAME or --board NAME.\n"
