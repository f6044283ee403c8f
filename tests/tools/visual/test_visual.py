"""`tpuc visual`: what is drawn, what is said of tensors, and the server."""

from __future__ import annotations

import re
import socket
import socketserver
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from tpuc.api import TpucError, UsageError
from tpuc_driver.cli import main
from tpuc_visual.graph import Layer
from tpuc_visual.page import Networks, render
from tpuc_visual.rows import aligned
from tpuc_visual.server import Visual, is_private, make_server
from tpuc_visual.similarity import Alike

from tests.families import each

TOP = """#loc1 = loc("x")
module @net attributes {module.chip = "ALL", module.platform = "ONNX", module.state = "TOP_F32"} {
  func.func @main(%arg0: tensor<1x4xf32> loc("x")) -> tensor<1x4xf32> {
    %0 = "top.Input"(%arg0) : (tensor<1x4xf32>) -> tensor<1x4xf32> loc(#loc1)
    %1 = "top.Relu"(%0) : (tensor<1x4xf32>) -> tensor<1x4xf32> loc(#loc2)
    %2 = "top.Add"(%0, %1) : (tensor<1x4xf32>, tensor<1x4xf32>) -> tensor<1x4xf32> loc(#loc3)
    return %2 : tensor<1x4xf32>
  } loc(unknown)
} loc(unknown)
#loc2 = loc("r")
#loc3 = loc("y")
"""


def layer(name: str, *operands: str, op: str = "top.Add") -> Layer:
    return Layer(name, op, "1x4", "f32", operands, ())


A, B, C, D = layer("a"), layer("b", "a"), layer("c", "b"), layer("d", "a", "c")


# Rows


def test_layers_of_one_name_are_beside_each_other() -> None:
    cast, other = layer("b_i8", "a"), layer("c", "b_i8")
    assert aligned([A, B, C, D], [A, cast, other]) == [(A, A), (None, cast), (B, None), (C, other), (D, None)]
    assert aligned([A, B], [B, A]) == [(A, None), (B, B), (None, A)]  # another order
    assert aligned([], []) == []


# The page


class Cells(HTMLParser):
    """The text of every cell of the body, row by row; unclosed tags and outside resources fail."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self._open: list[str] = []
        self.feed(text)
        assert self._open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert not {"src", "href"} & {name for name, _ in attrs}
        if tag in ("meta", "input"):
            return
        self._open.append(tag)
        if tag == "tr":
            self.rows.append([])
        if tag == "td":
            self.rows[-1].append("")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "td" in self._open:
            self.rows[-1][-1] += data


def rows_of(page: str) -> list[list[str]]:
    return [row for row in Cells(page).rows if row]


def alike(decibels: float) -> Alike:
    return Alike(0.5, 0.25, decibels, (0.0, 1.0), (-0.5, 2.0))


def test_the_page_says_what_is_known_of_each_tensor() -> None:
    cast = layer("<b>&", "a", op="tpu.Cast")
    page = render(Networks("f.mlir", "q.mlir", [A, C], [A, cast, C], {"a": alike(float("inf")), "c": alike(12.25)}))
    rows = rows_of(page)
    assert [row[3:] for row in rows] == [["0.500000", "0.2500", "equal"], ["NA"] * 3, ["0.500000", "0.2500", "12.2"]]
    assert rows[1][:3] == ["<b>& 1x4", "", "tpu.Cast"]
    assert rows[2][:3] == ["c 1x4", "top.Add", "top.Add"]
    assert '"ranges": ["0", "1", "-0.5", "2"]' in page
    assert "2 tensors compared, 1 are not in the float network (NA); the least similar is c with 12.2 dB" in page
    assert page.count("<rect ") == 2
    assert 'id="run"' not in page


def test_before_anything_ran_the_page_has_a_button() -> None:
    page = render(Networks("f.mlir", "@ROWS@", [A], [A]))
    assert [row[3:] for row in rows_of(page)] == [["", "", ""]]
    assert '<button id="run">' in page
    assert "not run yet" in page
    assert "<title>f.mlir and @ROWS@</title>" in page


# The command


@pytest.fixture
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A TOP module, the same with another layer in it, and a sample."""
    folder = tmp_path_factory.mktemp("visual")
    (folder / "f.mlir").write_text(TOP, "utf-8")
    (folder / "q.mlir").write_text(TOP.replace('"top.Relu"(%0)', '"top.Abs"(%0)').replace('"r"', '"s"'), "utf-8")
    sample: NDArray[np.float32] = np.array([[1, 2, 3, -4]], np.float32)
    np.savez(folder / "x.npz", x=sample)
    return folder / "f.mlir", folder / "q.mlir", folder / "x.npz"


def arguments(files: Sequence[Path]) -> list[str]:
    return ["visual", f"--fp32_mlir={files[0]}", f"--quant_mlir={files[1]}", f"--input={files[2]}"]


def test_a_page_in_a_file(files: tuple[Path, Path, Path], tmp_path: Path) -> None:
    """The last value is x + relu(x) = 2, 4, 6, -4 against x + abs(x) = 2, 4, 6, 0: the error is 16 of 72, 6.53 dB."""
    target = tmp_path / "page.html"
    assert main([*arguments(files), "-o", str(target)]) == 0
    rows = {row[0].split()[0]: row for row in rows_of(target.read_text("utf-8"))}
    assert rows["x"][5] == "equal"
    assert rows["r"][3:] == ["", "", ""]
    assert rows["s"][3:] == ["NA"] * 3
    assert rows["y"][5] == "6.5"
    first = target.read_bytes()
    assert main([*(one.replace("fp32_mlir", "f32-mlir") for one in arguments(files)), "-o", str(target)]) == 0
    assert target.read_bytes() == first


@each(
    ("change", "said"),
    [
        (
            {'loc("x")': 'loc("p")', '"r"': '"q"', '"y"': '"z"'},
            "take different inputs; give a TOP module and a module lowered from it",
        ),
        ({"module @net": "modul @net"}, "q.mlir:"),
    ],
)
def test_modules_that_do_not_belong_together(
    change: dict[str, str],
    said: str,
    files: tuple[Path, Path, Path],
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = TOP
    for old, new in change.items():
        text = text.replace(old, new)
    files[1].write_text(text, "utf-8")
    assert main([*arguments(files), "-o", str(tmp_path / "page.html")]) != 0
    out = capsys.readouterr().err
    assert said in out
    assert len(out.splitlines()) == 1
    assert not (tmp_path / "page.html").exists()


# The server


class Asked:
    """A comparison that counts how often it was asked for, and may refuse."""

    def __init__(self) -> None:
        self.times = 0
        self.refusal = ""

    def __call__(self) -> dict[str, Alike]:
        self.times += 1
        if self.refusal:
            raise TpucError(self.refusal)
        return {"a": alike(20.0)}


@pytest.fixture
def asked() -> Asked:
    return Asked()


@pytest.fixture
def address(asked: Asked) -> Iterator[str]:
    server = make_server(Visual(Networks("f", "q", [A], [A]), asked), "127.0.0.1", 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


def get(address: str, *, post: bool = False) -> str:
    request = urllib.request.Request(address, data=b"" if post else None, method="POST" if post else "GET")
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.read().decode("utf-8")


def test_the_server_runs_the_networks_once_when_told_to(address: str, asked: Asked) -> None:
    assert "not run yet" in get(f"{address}/")
    assert asked.times == 0
    assert get(f"{address}/run", post=True) == "done"
    assert "1 tensors compared" in get(f"{address}/index.html?x")
    get(f"{address}/run", post=True)
    assert asked.times == 1


def test_the_server_answers_other_questions_with_a_sentence(address: str, asked: Asked) -> None:
    asked.refusal = "x.npz: no input 'a'"
    with pytest.raises(urllib.error.HTTPError, match="500") as refused:
        get(f"{address}/run", post=True)
    with refused.value as answer:
        assert answer.read() == b"x.npz: no input 'a'"
    for path, post in (("/etc/passwd", False), ("/other", True)):
        with pytest.raises(urllib.error.HTTPError, match="404") as missing:
            get(f"{address}{path}", post=post)
        missing.value.close()


def ask(address: str, text: str) -> str:
    """The status line of the answer to a request that is written out."""
    host, _, port = address.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=10) as connection:
        connection.sendall(text.replace("\n", "\r\n").encode() + b"\r\n\r\n")
        return connection.makefile("rb").read().decode()


def test_the_server_answers_to_its_own_names_alone(address: str) -> None:
    """A page elsewhere whose name leads to this machine (DNS rebinding) gets nothing."""
    port = address.rpartition(":")[2]
    for host in (f"127.0.0.1:{port}", f"localhost:{port}", "localhost", f"LOCALHOST:{port}", "[::1]:80"):
        assert ask(address, f"GET / HTTP/1.0\nHost: {host}").startswith("HTTP/1.0 200"), host
    for host in (f"evil.example:{port}", "localhost.evil.example", "10.0.0.1", "", "[::1", "a b"):
        answer = ask(address, f"GET / HTTP/1.0\nHost: {host}")
        assert answer.startswith("HTTP/1.0 403"), host
        assert "Unknown host name; use the address that `tpuc visual` printed." in answer
    assert ask(address, "GET / HTTP/1.0").startswith("HTTP/1.0 403")
    assert ask(address, "GET / HTTP/1.0\nHost: localhost\nHost: localhost").startswith("HTTP/1.0 403")


def test_only_the_page_itself_may_run_the_networks(address: str, asked: Asked) -> None:
    own = address.removeprefix("http://")
    for header in (
        "Origin: http://evil.example",
        "Origin: null",
        f"Origin: https://{own}",
        "Origin: http://localhost:1",
        "Sec-Fetch-Site: cross-site",
        f"Origin: {address}\nSec-Fetch-Site: same-site",
        f"Origin: {address}\nOrigin: http://evil.example",
    ):
        answer = ask(address, f"POST /run HTTP/1.0\nHost: {own}\n{header}")
        assert answer.startswith("HTTP/1.0 403"), header
        assert "Only this server's own page can request this." in answer
    assert ask(address, "POST /run HTTP/1.0\nHost: evil.example").startswith("HTTP/1.0 403")
    assert asked.times == 0
    answer = ask(address, f"POST /run HTTP/1.0\nHost: {own}\nOrigin: {address}\nSec-Fetch-Site: same-origin")
    assert answer.endswith("done")


def test_a_server_for_others_goes_by_addresses_and_the_names_of_the_machine(asked: Asked) -> None:
    server = make_server(Visual(Networks("f", "q", [A], [A]), asked), "0.0.0.0", 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    address = f"http://127.0.0.1:{server.server_port}"
    try:
        for host in ("192.168.7.7:80", socket.gethostname(), "localhost"):
            assert ask(address, f"GET / HTTP/1.0\nHost: {host}").startswith("HTTP/1.0 200"), host
        assert ask(address, "GET / HTTP/1.0\nHost: evil.example").startswith("HTTP/1.0 403")
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_pages_come_with_a_policy_and_errors_are_plain_text(address: str) -> None:
    page = ask(address, "GET / HTTP/1.0\nHost: localhost")
    head, _, body = page.partition("\r\n\r\n")
    policy = re.search(r"Content-Security-Policy: (.*)\r", head)
    assert policy is not None
    assert policy.group(1).endswith("frame-ancestors 'none'")
    assert "Content-Security-Policy" in body
    assert "unsafe" not in page
    assert 'style="' not in body
    assert not re.search(r" on\w+=", body)
    refused = ask(address, "NONSENSE <script> HTTP/1.0\nHost: localhost")
    assert "Content-Type: text/plain" in refused
    assert "<html" not in refused


def test_a_reader_who_goes_away_is_no_error(address: str, asked: Asked, capfd: pytest.CaptureFixture[str]) -> None:
    host, _, port = address.removeprefix("http://").rpartition(":")
    for _ in range(5):
        connection = socket.create_connection((host, int(port)), timeout=10)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))  # close by a reset
        connection.sendall(b"GET / HTTP/1.0\r\nHost: localhost\r\n\r\n")
        connection.close()
    assert "not run yet" in get(f"{address}/")
    assert capfd.readouterr().err == ""


def test_a_fault_of_ours_is_still_told(address: str, asked: Asked, capfd: pytest.CaptureFixture[str]) -> None:
    server = make_server(Visual(Networks("f", "q", [A], [A]), asked), "127.0.0.1", 0)
    try:
        raise ZeroDivisionError("ours")
    except ZeroDivisionError:
        server.handle_error(None, ("127.0.0.1", 1))  # pyright: ignore[reportArgumentType]
    finally:
        server.server_close()
    assert "ZeroDivisionError: ours" in capfd.readouterr().err


@each(("host", "private"), [("127.0.0.1", True), ("localhost", True), ("::1", True), ("0.0.0.0", False)])
def test_who_else_may_come_in(host: str, private: bool) -> None:
    assert is_private(host) is private


def test_the_command_says_that_others_can_come_in(
    files: tuple[Path, Path, Path], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(self: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(socketserver.BaseServer, "serve_forever", stop)
    assert main([*arguments(files), "--manual-run", "--port=0", "--host=0.0.0.0"]) == 0
    assert (
        "--host 0.0.0.0: other machines can see and run the networks; leave it out to allow this machine only"
        in capsys.readouterr().err
    )
    assert main([*arguments(files), "--manual-run", "--port=0"]) == 0
    assert "other machines" not in capsys.readouterr().err


def test_a_port_that_is_taken_is_a_sentence(address: str) -> None:
    port = int(address.rpartition(":")[2])
    with pytest.raises(UsageError, match=rf"port {port} on 127\.0\.0\.1 is in use; choose another with --port"):
        make_server(Visual(Networks("f", "q", [], []), Asked()), "127.0.0.1", port)
    with pytest.raises(UsageError, match="port 70000 does not exist; choose --port between 1 and 65535"):
        make_server(Visual(Networks("f", "q", [], []), Asked()), "127.0.0.1", 70000)
