"""Our MLIR text beside the vendor's: their files read and printed alike, our prints read by their tool."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from tpuc.ir.text import parse_module, print_module
from tpuc_driver.cli import main
from tpuc_testing.equality import first_difference

from tests.core.ir.test_text import unknown

pytestmark = pytest.mark.interop

SAMPLES = (
    "blazeface_bm1684x_f16_final",
    "blazeface_origin",
    "resnet8",
    "resnet8_bm1684x_f32_tpu",
    "resnet8_bm1684x_int8_sym_final",
    "resnet8_bm1684x_int8_sym_tpu",
    "resnet8_cv183x_bf16_final",
    "resnet8_cv183x_int8_sym_final",
    "resnet8_cv183x_int8_sym_tpu",
    "resnet8_origin",
)
MAP = "affine_map<(d0, d1, d2, d3) -> (d0, d1, d2, d3)>"


@pytest.fixture(scope="session")
def tpuc_opt(oracle_dir: Path) -> Path:
    """The vendor's optimizer."""
    tool = Path(os.environ.get("PEER") or Path.home() / ".cache" / "tpuc-peer") / "bin" / "tpuc-opt"
    if not tool.exists():
        pytest.skip(f"no {tool}: run {oracle_dir.name}/setup.sh")
    return tool


def reprinted(tool: Path, path: Path) -> str:
    """What the vendor's tool prints after reading a file."""
    command = [str(tool), str(path), "--allow-unregistered-dialect", "--mlir-print-debuginfo"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    assert done.returncode == 0, done.stderr[:2000]
    return done.stdout


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_of_the_vendor_needs_no_weights(
    oracle_dir: Path, name: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """Their npz is not there: text is read, verified and printed, and passes run that look at no weight."""
    source = oracle_dir / "samples" / f"{name}.mlir"
    assert main(["opt", str(source), "--verify-each"]) == 0
    assert capsys.readouterr().out.count("\n") > 50
    target = tmp_path / "n.mlir"
    assert main(["opt", str(source), "--pass", "strip-casts", "--pass", "scale-channels", "-o", str(target)]) == 0
    assert "no such npz; the text is written without weights." in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["n.mlir"]


@pytest.mark.parametrize("name", SAMPLES)
def test_a_file_of_the_vendor_prints_as_it_is(oracle_dir: Path, name: str) -> None:
    text = (oracle_dir / "samples" / f"{name}.mlir").read_text()
    module = parse_module(text, unknown, name)
    printed = print_module(module)
    assert first_difference(module, parse_module(printed, unknown)) is None
    # The one thing that we write differently: affine maps stand where they are used.
    expected = text.replace(f"#map = {MAP}\n", "").replace("= #map,", f"= {MAP},")
    assert printed.rstrip("\n") == expected.rstrip("\n")


@pytest.mark.parametrize("name", SAMPLES)
def test_the_vendor_reads_our_print_as_it_reads_its_own(
    oracle_dir: Path, tpuc_opt: Path, tmp_path: Path, name: str
) -> None:
    """Its tool also drops what it thinks unused, so it reads both."""
    theirs = oracle_dir / "samples" / f"{name}.mlir"
    ours = tmp_path / "printed.mlir"
    ours.write_text(print_module(parse_module(theirs.read_text(), unknown, name)))
    assert reprinted(tpuc_opt, ours) == reprinted(tpuc_opt, theirs)


LITERALS = """\
t.a = 1.234567 : f64, t.b = 0.69999999999999996 : f64, t.c = 3.000000e-01 : f64, t.d = 0x41D26580B4800000 : f64, \
t.e = 1.2345677999999999E-5 : f64, t.f = 9.99999974E-6 : f32, t.g = 0x7FC00000 : f32, t.h = 9.997550e-02 : f16, \
t.i = "a\\22b\\\\c\\0A", t.j = [1 : i32, 2.000000e+00 : f32, unit, "x", @sym, @a::@b, i32, {y, z = 1 : i64}], \
t.k = array<i32>, t.l = array<i1: true, false>, t.m = array<f32: 1.000000e+00, 0.699999988>, \
t.n = (i32, tuple<i32, f32>) -> (f32, f32), t.o = @"odd name", t.p = tensor<2x!quant.any<i8:f32>>, t.q, \
t.r = tensor<2x3x!quant.uniform<i8:f32:1, {0.69999999999999996:3,1.000000e-01,2.000000e+200:-2}>>"""


def test_literals_read_and_print_as_the_vendor_writes_them(tpuc_opt: Path, tmp_path: Path) -> None:
    state = 'module.chip = "ALL", module.platform = "ONNX", module.state = "TOP_F32", module.top_run_mode = "STATIC"'
    line = f'module @m attributes {{{state}, module.weight_file = "m_top_f32_all_weight.npz", {LITERALS}}} {{'
    printed = print_module(parse_module(f"{line}\n}}", unknown))
    assert line in printed.splitlines()
    path = tmp_path / "literals.mlir"
    path.write_text(printed)
    assert line in reprinted(tpuc_opt, path).splitlines()
