"""What a quantized network says of itself in Python: the figures of the commands, as tables and pages."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tpuc
from tpuc_driver.cli import main
from tpuc_driver.facade.tables import Page, Table

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
CHIP = "bm1684x"
DATA = np.load(DIGITS / "digits_eval.npz")
IMAGES, LABELS = DATA["x"][:40], DATA["y"][:40]


@pytest.fixture(scope="module")
def quantized() -> tpuc.QuantizedNetwork:
    samples = np.load(DIGITS / "digits_calib.npz")["x"]
    return tpuc.load(DIGITS / "digits.onnx").quantize(samples, tune_num=1, bias_num=1)


def test_a_chip_is_named_once(quantized: tpuc.QuantizedNetwork, tmp_path: Path) -> None:
    fresh = quantized.network.quantize(table=quantized.save_table(tmp_path / "table"))
    with pytest.raises(tpuc.TpucError, match=r"no chip is chosen; give chip='NAME', or compile for one first\. Chips:"):
        fresh.run(IMAGES[0])
    wanted = fresh.compile(CHIP).run(IMAGES[0])["probabilities"]
    np.testing.assert_array_equal(fresh.run(IMAGES[0])["probabilities"], wanted)


def test_the_error_of_layers(quantized: tpuc.QuantizedNetwork) -> None:
    table = quantized.compare(IMAGES, chip=CHIP)
    rows = table.to_dicts()
    assert [row["layer"] for row in rows][:2] == ["relu1", "relu2"]
    assert all(0.99 < row["cosine"] <= 1 for row in rows)
    assert len(table) == len(rows) == len(table.data)
    assert {type(value) for row in rows for value in row.values()} <= {str, float, int, type(None)}


def test_accuracy_of_arrays_pairs_and_files_is_that_of_the_command(
    quantized: tpuc.QuantizedNetwork, tmp_path: Path, capsys: Any
) -> None:
    model = quantized.compile(CHIP).save(tmp_path / "digits.bmodel")
    np.savez(tmp_path / "labeled.npz", x=IMAGES, y=LABELS)
    main(["eval", str(DIGITS / "digits.onnx"), str(model), str(tmp_path / "labeled.npz"), "--json"])
    wanted = json.loads(capsys.readouterr().out)["models"][1]["figures"]["top-1"]
    forms = [
        (IMAGES, LABELS),
        (zip(IMAGES, LABELS, strict=True), None),
        (((IMAGES[at : at + 8], LABELS[at : at + 8]) for at in range(0, 40, 8)), None),
        (tmp_path / "labeled.npz", None),
    ]
    for samples, labels in forms:
        table = quantized.evaluate(samples, labels, chip=CHIP)
        rows = table.to_dicts()
        assert [row["model"] for row in rows] == ["float", f"int8 on {CHIP}"]
        assert rows[1]["figures.top-1"] == wanted
        assert table.title == "top-k on 40 samples"
    for sentence, samples, labels in (
        ("no labels; give the class index of every sample as labels=ARRAY.", IMAGES, None),
        ("item 1 is not a pair (sample, label); give pairs, or labels=ARRAY.", iter(IMAGES), None),
        ("a file or folder of samples already has labels; leave out labels.", tmp_path, LABELS),
        ("an iterable already gives a label with each sample; leave out labels.", iter(IMAGES), LABELS),
        ("the iterable of samples is empty; a generator can be used once only.", iter(()), None),
    ):
        with pytest.raises(tpuc.TpucError) as refused:
            quantized.evaluate(samples, labels, chip=CHIP)
        assert refused.value.sentence() == sentence


def test_pages_are_those_of_the_commands(quantized: tpuc.QuantizedNetwork, tmp_path: Path) -> None:
    report = quantized.report(IMAGES, chip=CHIP, input_num=4)
    visual = quantized.visual(IMAGES[0], chip=CHIP)
    for name, page in (("digits_report", report), ("digits_visual", visual)):
        assert page.name == name
        assert page.html.lower().startswith("<!doctype html>")
        assert page.save(tmp_path / f"{name}.html").read_text(encoding="utf-8") == page.html
        assert page._repr_html_().startswith('<iframe srcdoc="&lt;!')
    assert "4 samples" in report.html


def test_what_a_chip_cannot_do_is_a_table(quantized: tpuc.QuantizedNetwork) -> None:
    table = quantized.check(chip=CHIP)
    assert (len(table), table.title) == (0, "digits on bm1684x in int8: all 8 ops can be computed")
    assert table.data["supported"] is True
    assert "all 8 ops can be computed" in table._repr_html_()


def test_a_module_file_is_checked_too(tmp_path: Path, capsys: Any) -> None:
    path = tpuc.load(DIGITS / "digits.onnx").save(tmp_path / "digits.mlir")
    assert main(["check", str(path), "--chip", CHIP, "--quantize", "int8"]) == 0
    assert "all 8 ops can be computed" in capsys.readouterr().out
    assert main(["check", str(path), "--chip", CHIP, "--batch", "2"]) == 1
    assert "is a module, which already contains these settings. Leave out --batch." in capsys.readouterr().out


def test_tables_are_escaped_and_aligned() -> None:
    table = Table("1 < 2", ({"a<b": 0.5, "n": None}, {"a<b": [1], "n": "<i>"}))
    cells = [[cell.text for cell in row] for row in ET.fromstring(table._repr_html_()).iter("tr")]
    assert cells == [["a<b", "n"], ["0.5", "-"], ["[1]", "<i>"]]
    assert repr(table) == "a<b  n\n0.5  -\n[1]  <i>\n1 < 2"
    assert table[0]["a<b"] == 0.5
    assert repr(Page("p", "<p>")) == "p: a page of 3 characters; write it with .save('p.html')"
