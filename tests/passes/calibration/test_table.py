"""The calibration table: TPU-MLIR's files are read, ours are reproducible, and damage is named with its line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tpuc.api import CalibrationError
from tpuc_quantize.tables import table
from tpuc_quantize.tables.table import CalibrationTable, TensorThreshold

from tests.families import each

PEER = """\
# mlir version: v1.30.2-20260831 cali version 1.0
# genetated time: 2026-11-20 13:23:15.046553
# quantization threshold calculation method: ['kl']
# histogram number: 2048
# sample number: 32
###
# tune number: 5
###
# op_name    threshold    min    max
input_1 255.0000000 0.0000000 255.0000000
model_conv2d_Relu 7.0349574 -0.0000000 7.0349574
/layer.1/Conv_output_0 1e-05 -13.5506725 13.1800270

#asym_op
model_conv2d_Relu
#int4_th
input_1 200.0000000 -228.5714286 200.0000000
"""


def test_reads_a_table_of_the_peer() -> None:
    parsed = table.parse_table(PEER)
    assert parsed.entries == {
        "input_1": TensorThreshold(255.0, 0.0, 255.0),
        "model_conv2d_Relu": TensorThreshold(7.0349574, 0.0, 7.0349574),
        "/layer.1/Conv_output_0": TensorThreshold(1e-5, -13.5506725, 13.180027),
    }
    assert next(iter(parsed.entries)) == "input_1"
    assert parsed.remarks[2:4] == ("quantization threshold calculation method: ['kl']", "histogram number: 2048")
    assert parsed.remarks[-1] == "tune number: 5"
    assert parsed.sections["asym_op"] == ("model_conv2d_Relu",)
    assert parsed.sections["int4_th"] == ("input_1 200.0000000 -228.5714286 200.0000000",)


def test_reads_the_lines_of_the_seed() -> None:
    text = "#直方图数目: 2048\n#op_name      threshold      min      max\nimages 1.0000080 0.0000000 1.0000080\n"
    text += "124_Mul 38.1586478 -0.2784646 97.6811752\n"
    parsed = table.parse_table(text)
    assert parsed.entries["124_Mul"] == TensorThreshold(38.1586478, -0.2784646, 97.6811752)
    assert parsed.remarks == ("直方图数目: 2048",)


@each(
    ("line", "reason"),
    [
        (
            "122_conv56.4281803 -102.5830231 97.6811752",
            "3 fields in '122_conv56.4281803 -102.5830231 97.6811752', expected 4: a space may be missing",
        ),
        (
            "122_conv56.4281803 - 102.5830231 97.6811752",
            (
                "'-' is not a number in '122_conv56.4281803 - 102.5830231 97.6811752': a space may be missing, or one "
                "too many"
            ),
        ),
        ("conv1 1.0 2.0", "3 fields in 'conv1 1.0 2.0', expected 4: a space may be missing"),
        ("conv1 1.0 -1.0 x", "'x' is not a number in 'conv1 1.0 -1.0 x': a space may be missing, or one too many"),
        ("conv1 nan -1.0 1.0", "'conv1' has a value that is not finite"),
        ("conv1 -1.0 -1.0 1.0", "'conv1' has the negative threshold -1"),
        ("conv1 1.0 2.0 1.0", "'conv1' has its minimum 2 above its maximum 1"),
    ],
)
def test_names_file_line_reason_and_way_out(tmp_path: Path, line: str, reason: str) -> None:
    file = tmp_path / "net_cali_table"
    file.write_text(f"# op_name threshold min max\ngood 1.0 -1.0 1.0\n{line}\n")
    way_out = "Write 'op_name threshold min max', or make the table again with 'tpuc calibrate'."
    with pytest.raises(CalibrationError, match=re.escape(f"{file}:3: {reason}. {way_out}") + "$"):
        table.read_table(file)


def test_refuses_what_is_no_table(tmp_path: Path) -> None:
    empty, binary = tmp_path / "empty", tmp_path / "binary"
    empty.write_text("# only remarks\n")
    binary.write_bytes(b"\xff\xfe\x00")
    for file, reason in (
        (empty, "no line 'op_name threshold min max' in it. Make it again"),
        (binary, "is not a text file (byte 0). Make a calibration table with 'tpuc calibrate'."),
        (tmp_path / "missing", "cannot be read: No such file or directory. Check the path."),
    ):
        with pytest.raises(CalibrationError, match=re.escape(f"{file}: {reason}")):
            table.read_table(file)
    with pytest.raises(CalibrationError, match=r"table:2: 'a' is in the table twice\. Delete one of the lines\."):
        table.parse_table("a 1 0 1\na 1 0 1\n", "table")


def test_writes_seven_decimals_and_no_time_of_its_own() -> None:
    entries = {"input 1": TensorThreshold(1.00000804, 0.0, 2 / 3), "b": TensorThreshold(5.0, -5.0, 4.0)}
    remarks = table.make_remarks(("kld",), 2048, 100, 10)
    assert table.format_table(CalibrationTable(entries, remarks, {"asym_op": ("b",)})) == (
        "# quantization threshold calculation method: ['kld']\n"
        "# histogram number: 2048\n"
        "# sample number: 100\n"
        "# tune number: 10\n"
        "###\n"
        "# op_name    threshold    min    max\n"
        "input 1 1.0000080 0.0000000 0.6666667\n"
        "b 5.0000000 -5.0000000 4.0000000\n"
        "\n"
        "#asym_op\n"
        "b\n"
    )
    # 1712707259 is 2024-04-10 00:00:59 UTC (`date -u -d @1712707259`)
    assert table.make_remarks(("kld",), 2048, 100, 10, 1712707259)[0] == "generated time: 2024-04-10 00:00:59"


@each("name", ["", "#conv", "two\nlines", " conv", "a  b"])
def test_refuses_names_that_would_not_come_back(name: str) -> None:
    with pytest.raises(CalibrationError, match=r"cannot be written to a calibration table\. Rename it in the model\."):
        table.format_table(CalibrationTable({name: TensorThreshold(1, 0, 1)}))


SEVEN_DECIMALS = st.integers(-(10**10), 10**10).map(lambda n: n / 10**7)
ENTRIES = st.tuples(SEVEN_DECIMALS, SEVEN_DECIMALS, SEVEN_DECIMALS).map(
    lambda v: TensorThreshold(abs(v[0]), min(v[1:]), max(v[1:]))
)


@given(st.dictionaries(st.text("abc/_:;.0123456789-", min_size=1), ENTRIES, min_size=1))
def test_what_is_written_is_read_back(entries: dict[str, TensorThreshold]) -> None:
    written = CalibrationTable(entries, table.make_remarks(("max",), 2048, 1, 0), {"asym_op": tuple(entries)})
    assert table.parse_table(table.format_table(written)) == written
