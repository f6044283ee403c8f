"""From a network to a folder of C and an archive of it, what runs of them, and what is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tpuc.api import CorruptFile, TpucError, Unsupported
from tpuc.interpreter import Interpreter
from tpuc_c.chip import CHIP
from tpuc_c.storage import packed, unpacked
from tpuc_driver.cli import main
from tpuc_driver.session import Session
from tpuc_ops import tpu
from tpuc_testing.kernel_conformance import Sample, compile_kernels

from tests.chips.c.programs import COMPILERS, DIGITS, FLOAT, build, compile_digits, needs_compiler, needs_lowerings, run
from tests.passes.test_stated_on_chips import residual, steps_off
from tests.turns import first_few


def images() -> tuple[np.ndarray, np.ndarray]:
    with np.load(DIGITS / "digits_eval.npz") as data:
        return data["x"].astype(np.float32).reshape(-1, 1, 1, 8, 8), data["y"]


@needs_lowerings
@pytest.mark.parametrize("mode", [None, FLOAT], ids=["int8", "f32"])
def test_two_compilations_write_the_same_bytes(mode: tuple[str, ...] | None, tmp_path: Path) -> None:
    for name in ("one.tar", "two.tar", "folder"):
        compile_digits(tmp_path / name, mode=mode)
    assert (tmp_path / "one.tar").read_bytes() == (tmp_path / "two.tar").read_bytes()
    assert CHIP.archive(tmp_path / "folder") == (tmp_path / "one.tar").read_bytes()
    written = {path.name for path in (tmp_path / "folder").iterdir()}
    assert {"digits_lib0.c", "digits_operators.c", "digits_metadata.h", "main.c", "Makefile"} <= written


@needs_lowerings
@needs_compiler
@pytest.mark.parametrize("mode", [None, pytest.param(FLOAT, marks=pytest.mark.slow)], ids=["int8", "f32"])
def test_archive_and_folder_run_and_know_the_digits(mode: tuple[str, ...] | None, tmp_path: Path) -> None:
    x, labels = images()
    np.savez(tmp_path / "x.npz", image=x)
    for name in ("digits.tar", "digits"):
        compile_digits(tmp_path / name, mode=mode)
        (scores,) = Session().run(tmp_path / name, (tmp_path / "x.npz",)).values()
        assert (scores.reshape(len(labels), -1).argmax(axis=1) == labels).sum() >= 196  # 198 in float


@needs_lowerings
@needs_compiler
@pytest.mark.parametrize("name", first_few(COMPILERS, 1))
def test_the_program_of_the_example_gives_the_evaluation(name: str, tmp_path: Path) -> None:
    """With the outputs as they are stored, every bit; the program takes many samples, one behind the other."""
    whole = ("--output-names", "flat", "--quant-output")
    compile_digits(tmp_path / "net", *whole, "--work-dir", str(tmp_path / "work"))
    module = Session().load(next((tmp_path / "work").glob("*_final.mlir")))
    program = build(tmp_path / "net", ("digits_lib0.c", "digits_operators.c", "main.c"), "-O3", name=name)
    x, _ = images()
    evaluation = Interpreter(module)
    results = [next(iter(evaluation.run({"image": one}).values())) for one in x[:20]]
    assert results[0].dtype.itemsize == 1
    assert run(program, x[:20].tobytes()) == b"".join(one.tobytes() for one in results)


@needs_lowerings
def test_no_function_allocates_and_no_library_but_the_mathematical_one_is_used(tmp_path: Path) -> None:
    compile_digits(tmp_path / "net")
    for path in (tmp_path / "net").glob("*.[ch]"):
        text = path.read_text()
        assert "alloc" not in text.replace("malloc", "alloc"), path.name
        known = {"math.h", "stddef.h", "stdint.h", "string.h"}
        included = {line.split("<")[1].rstrip(">") for line in text.splitlines() if line.startswith("#include <")}
        parts_of_compilers = {
            "tpuc_x86.h": {"immintrin.h"},
            "tpuc_arm.h": {"arm_acle.h", "arm_mve.h", "arm_neon.h"},
        }
        own = {"main.c": {"stdio.h"}, **parts_of_compilers}
        assert included <= known | own.get(path.name, set())


def test_an_op_without_a_function_is_refused_with_its_name() -> None:
    op = tpu.Depth2Space(block_h=2, block_w=2, is_CRD=False, is_inversed=False)
    with pytest.raises(Unsupported, match="on c: no installed package has a kernel for it"):
        compile_kernels({"blocks": Sample(op, [np.zeros((1, 8, 2, 2), np.float32)])}, "c")


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--usmp-workspace-pool-a"], "--usmp-workspace-pool-a needs a description such as"),
        (["--usmp-workspace-pool-a=size=1", "--usmp-workspace-pool-a=size=2"], "is given twice; keep one."),
        (["--target=accel"], "no chip to compile for; add --chip NAME"),
    ],
)
def test_wrong_options_are_refused(arguments: list[str], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["compile", str(DIGITS / "digits.onnx"), "-o", "out", *arguments]) == 2
    assert sentence in capsys.readouterr().err


def test_a_file_in_the_place_of_the_folder_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "net").write_text("")
    assert main(["compile", str(DIGITS / "digits.onnx"), "--chip", "c", "-o", str(tmp_path / "net")]) == 2
    assert "is a file, but chip 'c' writes a folder; choose another name." in capsys.readouterr().err


@needs_lowerings
def test_there_is_no_timing_model(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    compile_digits(tmp_path / "net.tar")
    assert "predicted" not in capsys.readouterr().out
    assert main(["profile", str(tmp_path / "net.tar")]) != 0
    assert "has no timing model" in capsys.readouterr().err


@needs_lowerings
def test_damaged_archives_are_refused(tmp_path: Path) -> None:
    compile_digits(tmp_path / "net.tar")
    data = (tmp_path / "net.tar").read_bytes()
    files = unpacked(data, "net.tar")
    assert packed(files) == data
    for length in (0, 100, 700, len(data) // 2):
        with pytest.raises(CorruptFile):
            CHIP.load(data[:length])
    for name in ("metadata.json", "main.c"):
        with pytest.raises(CorruptFile, match=name.replace(".", r"\.")):
            CHIP.load(packed({key: value for key, value in files.items() if key != name}))
    with pytest.raises(CorruptFile, match="format version 9"):
        CHIP.load(packed({**files, "metadata.json": files["metadata.json"].replace(b'"version": 1', b'"version": 9')}))


def test_what_has_no_meaning_for_source_is_refused() -> None:
    with pytest.raises(Unsupported, match="no instructions"):
        CHIP.assembler()
    with pytest.raises(TpucError, match=r"there is no metadata\.json in it"):
        CHIP.archive(DIGITS)


@needs_lowerings
@needs_compiler
@pytest.mark.parametrize("kind", first_few([np.int8, np.uint8], 1))
def test_networks_that_come_quantized_give_what_the_runtime_gives(kind: type[np.integer[Any]], tmp_path: Path) -> None:
    """Unsigned filters have nine bits without their zero point, also those of one channel each."""
    off = steps_off("c", residual(tmp_path, kind), 0.08)
    # A sum of two scales is rounded in whole numbers of 22 bits: nearer to a half than that, it may be the other.
    assert (off < 1e-3).mean() > 0.99
    assert off.max() < 1.01
