"""Output files appear whole or not at all."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import BinaryIO

import pytest
from tpuc.files import CannotWrite, check_writable, file_stem, write_all, write_atomic

from tests.families import each


@each("content", [b"abc", "abc", bytearray(b"abc"), memoryview(b"abc")], ids=lambda c: type(c).__name__)
def test_content_is_written(tmp_path: Path, content: bytes | str) -> None:
    write_atomic(tmp_path / "out.bin", content)
    assert (tmp_path / "out.bin").read_bytes() == b"abc"
    assert [path.name for path in tmp_path.iterdir()] == ["out.bin"]


def test_a_function_writes_to_the_open_file(tmp_path: Path) -> None:
    write_atomic(tmp_path / "out.bin", lambda stream: stream.write(b"from a function"))
    assert (tmp_path / "out.bin").read_bytes() == b"from a function"


def test_the_old_file_is_there_until_the_new_one_is_complete(tmp_path: Path) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")

    def fill(stream: BinaryIO) -> None:
        stream.write(b"new")
        assert target.read_bytes() == b"old"

    write_atomic(target, fill)
    assert target.read_bytes() == b"new"


@each("error", [ValueError("a bug"), KeyboardInterrupt()], ids=lambda e: type(e).__name__)
def test_a_failure_leaves_nothing_new(tmp_path: Path, error: BaseException) -> None:
    target = tmp_path / "out.bin"
    target.write_bytes(b"old")

    def fill(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise error

    with pytest.raises(type(error)):
        write_atomic(target, fill)
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {"out.bin": b"old"}


def test_a_full_disk_is_a_sentence_and_leaves_nothing(tmp_path: Path) -> None:
    def fill(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(CannotWrite) as caught:
        write_atomic(tmp_path / "out.bin", fill)
    assert str(caught.value) == (
        f"{tmp_path / 'out.bin'}: cannot be written: No space left on device. "
        "Free some space there or choose another place."
    )
    assert list(tmp_path.iterdir()) == []


def test_a_refusal_about_another_file_is_passed_on(tmp_path: Path) -> None:
    def fill(_: BinaryIO) -> None:
        (tmp_path / "missing.npz").open("rb")

    with pytest.raises(FileNotFoundError, match=r"missing\.npz"):
        write_atomic(tmp_path / "out.bin", fill)
    assert list(tmp_path.iterdir()) == []


def test_a_full_device_is_a_sentence() -> None:
    if not Path("/dev/full").exists():
        pytest.skip("needs /dev/full")
    with pytest.raises(CannotWrite, match=r"^/dev/full: cannot be written: No space left on device\. Free some space"):
        write_atomic("/dev/full", b"x" * 100_000)


def test_a_device_is_written_in_place() -> None:
    write_atomic(os.devnull, b"gone")
    assert not Path(os.devnull).is_file()


def test_a_link_keeps_pointing_where_it_did(tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    link = tmp_path / "out.bin"
    link.symlink_to(tmp_path / "elsewhere" / "real.bin")
    write_atomic(link, b"abc")
    assert link.is_symlink()
    assert (tmp_path / "elsewhere" / "real.bin").read_bytes() == b"abc"


def test_a_place_that_cannot_be_written_is_explained_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    no, file = tmp_path / "no", tmp_path / "file"
    sentences = {
        tmp_path: f"{tmp_path}: cannot be written: it is a folder. Name a file inside it.",
        no / "x": f"{no / 'x'}: cannot be written: there is no folder '{no}'. Create it first.",
        file / "x": f"{file / 'x'}: cannot be written: '{file}' is not a folder. Choose another place.",
    }
    for path, sentence in sentences.items():
        for attempt in (check_writable, lambda path: write_atomic(path, b"")):
            with pytest.raises(CannotWrite) as caught:
                attempt(path)
            assert str(caught.value) == sentence


def test_a_folder_without_permission_is_explained(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_: False)  # root may write everywhere, so chmod proves nothing
    with pytest.raises(CannotWrite) as caught:
        write_atomic(tmp_path / "x", b"")
    assert str(caught.value) == (
        f"{tmp_path / 'x'}: cannot be written: permission denied. Choose a place that you may use."
    )


def test_names_of_networks_stay_inside_their_folder(tmp_path: Path) -> None:
    for name in (
        "../OUT/pwned",
        "/etc/passwd",
        "..",
        ".hidden",
        "a\\b",
        "C:x",
        "x\0y",
        "x\ny",
        "",
        "é" * 400,
        "\ud800",
    ):
        stem = file_stem(name)
        path = tmp_path / f"{stem}_bm1684x_int8_sym_final.mlir"
        assert path.resolve().parent == tmp_path.resolve(), name
        assert not stem.startswith(".")
        path.write_bytes(b"")
    for name in ("resnet50", "yolov5s-v6.1", "net 2 (é)"):
        assert file_stem(name) == name


def test_files_that_belong_together_appear_all_or_not_at_all(tmp_path: Path) -> None:
    def fill(stream: BinaryIO) -> None:
        stream.write(b"half")
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    there = tmp_path / "there"
    there.mkdir()
    (there / "a").write_bytes(b"old")
    new = tmp_path / "new" / "inner"
    files = {there / "a": b"new", new / "b": b"b", new / "c": fill}
    sentence = r"c: cannot be written: No space left on device\. Free some space there or choose another place\."
    with pytest.raises(CannotWrite, match=sentence):
        write_all(files)
    assert {path.name: path.read_bytes() for path in there.iterdir()} == {"a": b"old"}
    assert [path.name for path in tmp_path.iterdir()] == ["there"]
    write_all({there / "a": b"new", new / "b": "b"})
    assert [path.read_bytes() for path in (there / "a", new / "b")] == [b"new", b"b"]
    assert [path.name for path in new.iterdir()] == ["b"]


def test_devices_among_files_are_written_in_place(tmp_path: Path) -> None:
    write_all({Path(os.devnull): b"x", tmp_path / "a": b"a"})
    assert not Path(os.devnull).is_file()
