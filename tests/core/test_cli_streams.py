"""What the command line prints does nothing to a terminal, and closed descriptors are nobody's internal error."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import onnx
import pytest
from onnx.helper import make_graph, make_model, make_node, make_opsetid, make_tensor_value_info
from tpuc_driver.cli import main
from tpuc_driver.cli.app import App
from tpuc_driver.cli.streams import Remarks, Shown, shown_streams

from tests.families import each

COMMAND = (sys.executable, "-m", "tpuc")
EVIL = "\x1b[31m\r\x07\u202e\x9b2J\u2028\udcff"
LINES = "a\n\nb"


def network(folder: Path, middle: str) -> None:
    x, y = (f"{end}{middle}{end}" for end in "xy")
    ends = [make_tensor_value_info(name, 1, (1, 4, 4, 4)) for name in (x, y)]
    graph = make_graph([make_node("Relu", [x], [y], name=f"n{middle}n")], f"g{middle}g", ends[:1], ends[1:])
    onnx.save(make_model(graph, opset_imports=[make_opsetid("", 17)], ir_version=9), folder / "net.onnx")
    np.savez(folder / "in.npz", **{x: np.ones((1, 4, 4, 4), np.float32)})


def test_control_characters_are_escapes_and_lines_stay() -> None:
    raw = io.StringIO()
    Shown(raw).write(f"a\tb\n{EVIL}ä日")
    assert raw.getvalue() == "a\tb\n\\x1b[31m\\r\\x07\\u202e\\x9b2J\\u2028\\udcffä日"


def test_what_an_encoding_does_not_have_is_an_escape() -> None:
    raw = io.TextIOWrapper(io.BytesIO(), encoding="ascii")
    Shown(raw).write("ä→")
    assert raw.buffer.getvalue() == b"\\xe4\\u2192"  # pyright: ignore[reportAttributeAccessIssue]


def test_json_stays_json(capsys: pytest.CaptureFixture[str]) -> None:
    with shown_streams():
        App().result_json({"name": EVIL + LINES})
    out = capsys.readouterr().out
    assert json.loads(out) == {"name": EVIL + LINES}
    assert out.isascii()


def test_without_stdout_the_work_is_done_and_the_exit_code_says_that_nobody_read(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "stdout", None)
    monkeypatch.setattr(sys, "stderr", None)
    assert main(["--version"]) == 1
    assert main(["nonsense"]) == 2


def test_remarks_that_nobody_reads_stop_nothing() -> None:
    read, write = os.pipe()
    os.close(read)
    with open(write, "w", encoding="utf-8") as raw:  # noqa: PTH123 # a descriptor, no path
        remarks = Remarks(raw)
        click.echo("one", file=remarks)
        click.echo("two", file=remarks)
        assert remarks.raw is None


ENDS = {
    "no stdout": (">&-", (1,)),
    "no stderr": ("2>&-", (0,)),
    "no stdin": ("<&-", (0,)),
    "none": ("<&- >&- 2>&-", (1,)),
    "a reader that ended": ("| true", (0, 141)),
    "a full disk": (">/dev/full", (1,)),
    "full disks": (">/dev/full 2>/dev/full", (1,)),
}


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
def test_closed_descriptors_in_every_order(tmp_path: Path) -> None:
    network(tmp_path, "")
    lines: list[str] = []
    for words, _ in ENDS.values():
        compile_net = "compile net.onnx --chip bm1684x --quantize f16 -o out.bmodel"
        program = f"{' '.join(COMMAND)} {compile_net if words.startswith('<&- ') else '--version'}"
        lines.append(f"{{ {program}; echo $? >&9; }} {words}" if "|" in words else f"{program} {words}; echo $? >&9")
    script = "exec 9>codes\n" + "\n".join(lines)
    told = subprocess.run(["bash", "-c", script], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert "internal error" not in told.stderr
    assert "Traceback" not in told.stderr
    assert "Exception" not in told.stderr
    codes = map(int, (tmp_path / "codes").read_text().split())
    assert [name for (name, (_, right)), code in zip(ENDS.items(), codes, strict=True) if code not in right] == []
    assert (tmp_path / "out.bmodel").stat().st_size > 1000, "what a descriptor shows is no part of a file"


COMMANDS = (
    "compile net.onnx --chip bm1684x --quantize f16 -o o.bmodel -v --work-dir w --report r.json",
    "compile net.onnx --chip cv181x --quantize bf16 -o o.cvimodel",
    "compile net.onnx --chip c -o folder",
    "run net.onnx in.npz",
    "run o.bmodel in.npz -o o.npz",
    "profile o.bmodel",
    "profile o.bmodel --json",
    "disasm o.bmodel",
    "disasm o.cvimodel",
    "check net.onnx --chip bm1684x --quantize f16",
    "transform --model-name net --model-def net.onnx --mlir n.mlir --test-input in.npz",
    "opt n.mlir --pass canonicalize",
    "npz statistic in.npz",
    "npz compare in.npz in.npz",
    "compile net.onnx --chip bm1684x --output-names nope -o o.bmodel",
)


@each("name", [EVIL[:-1], LINES], ids=["control characters", "line breaks"])
def test_names_of_a_network_act_on_no_terminal(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said: list[dict[str, tuple[int, int, int]]] = []
    for kind, middle in (("plain", "A"), ("odd", name)):
        folder = tmp_path / kind
        folder.mkdir()
        monkeypatch.chdir(folder)
        network(folder, middle)
        codes: dict[str, tuple[int, int, int]] = {}
        for command in COMMANDS:
            capsys.readouterr()
            code = main(command.split())
            out, err = capsys.readouterr()
            assert all(char in "\t\n" or char.isprintable() for char in out + err), command
            assert "internal error" not in err, (command, err)
            codes[command] = code, out.count("\n"), err.count("\n")
        said.append(codes)
    assert said[0] == said[1]


ODD = "w\udcff"


def test_names_of_files_that_are_no_text(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    network(tmp_path, "")
    try:
        Path(f"{ODD}.onnx").write_bytes(Path("net.onnx").read_bytes())
    except OSError:
        pytest.skip("the file system takes UTF-8 alone")
    Path(f"{ODD}.npz").write_bytes(Path("in.npz").read_bytes())
    wrong: list[tuple[list[str], int, str]] = []
    for command in (
        "compile net.onnx --chip bm1684x --quantize f16 -o @.bmodel --work-dir @ --report @.json --bundle @-bundle",
        "compile @.onnx --chip bm1684x --quantize f16 --report @.html -o @.bmodel --work-dir @-work",
        "compile @.onnx --chip c -o @-c",
        "profile @.bmodel --html @-profile.html",
        "report @.bmodel --work-dir @-work -o @.html",
        "transform --model-name @ --model-def @.onnx --mlir @.mlir --test-input @.npz --test-result @-r.npz",
        "deploy --mlir @.mlir --chip bm1684x --quantize f16 --model @.bmodel",
        "run @.bmodel @.npz -o @-o.npz",
        "run @-c @.npz",
        "opt @.mlir --pass canonicalize -o @-opt.mlir",
        "plan @.mlir",
        "disasm @.bmodel",
        "check @.onnx --chip bm1684x --quantize f16 --json",
    ):
        arguments = [word.replace("@", ODD) for word in command.split()]
        code = main(arguments)
        out, err = capsys.readouterr()
        if code or "internal error" in err or "\udcff" in out + err:
            wrong.append((arguments, code, err))
    assert wrong == []
    for page in (f"{ODD}-profile.html", f"{ODD}.html"):  # under that very name, and text
        assert "<title>w\\udcff.bmodel" in Path(page).read_text("utf-8")
    assert "no such file" in (main(["run", f"{ODD}x.onnx", "in.npz"]), capsys.readouterr().err)[1]
