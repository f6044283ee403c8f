"""Errors and remarks of the Python interface name keyword arguments, never options of the command line."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, get_type_hints

import numpy as np
import pytest
import tpuc
from PIL import Image
from tpuc_driver.facade.network import CompileOptions, LoadOptions, Network, load
from tpuc_driver.facade.wording import KEYWORDS, RENAMED, for_python

from tests.contract.tree import CORE, PLUGINS

OPTION = re.compile(r"(?<![\w-])--[a-z]")


def test_each_keyword_is_one_of_the_interface() -> None:
    functions = [load, tpuc.load_compiled, Network.run, Network.quantize, Network.compile, tpuc.CompiledNetwork.profile]
    known = {name for one in functions for name in inspect.signature(one).parameters}
    known |= set(get_type_hints(CompileOptions)) | set(get_type_hints(LoadOptions))
    assert known >= KEYWORDS
    assert known >= set(RENAMED.values())


@pytest.mark.parametrize(
    ("said", "spoken"),
    [
        ("give samples with --dataset or --data-list.", "give samples with samples."),
        ("or a table with --calibration-table", "or a table with table"),
        ("add --chip NAME", "add chip=NAME"),
        ("--quantize int8 uses them", "mode int8 uses them"),
        ("Choose another --pixel-format.", 'Choose another preprocess["pixel_format"].'),
        ("Add --scale 1 for 0 to 255", 'Add preprocess["scale"] = 1 for 0 to 255'),
        ("--mean 0.4,0.5 is", 'preprocess["mean"] = (0.4, 0.5) is'),
        ("leave out --aligned-input", "leave out boundary.aligned_input"),
        ("with --dim batch=1.", "with dims batch=1."),
        ("add --trust if you trust it", "add trust=True if you trust it"),
        ("type `tpuc qtable --help`", "type `tpuc qtable --help`"),
        ("compile with --work-dir DIR", "compile with --work-dir DIR of the command line"),
        ("a--b and x --- y", "a--b and x --- y"),
    ],
)
def test_an_option_becomes_what_says_it_in_python(said: str, spoken: str) -> None:
    assert for_python(said) == spoken


def sentences() -> Iterator[str]:
    """Texts in the code that name an option, commands and their parameters aside."""
    for path in sorted([*CORE.rglob("*.py"), *PLUGINS.rglob("*.py")]):
        if "/cli/" in path.as_posix() or path.name.endswith("command.py") or "/tpuc_new/packages/" in path.as_posix():
            continue
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if " --" in text or '"--' in text else ():
            for one in ast.iter_child_nodes(node) if isinstance(node, ast.Call | ast.JoinedStr) else ():
                if isinstance(one, ast.Constant) and isinstance(one.value, str) and OPTION.search(one.value):
                    yield one.value if " " in one.value else ""  # others are words of commands


def test_no_sentence_keeps_a_bare_option() -> None:
    kept = {
        text
        for text in sentences()
        if OPTION.search(re.sub(r"`[^`]*`|--\S+.* of the command line", "", for_python(text)))
    }
    assert not kept


@pytest.mark.filterwarnings("ignore")
def test_errors_of_calls_speak_python(digits_onnx: Path, tmp_path: Path) -> None:
    picture = tmp_path / "a.png"
    Image.new("RGB", (8, 8)).save(picture)
    pictures = np.zeros((20, 1, 1, 8, 8), np.float32)
    network = tpuc.load(digits_onnx)
    calls: list[tuple[Callable[[], Any], str]] = [
        (lambda: network.run(picture), "preprocess=PRESET"),
        (lambda: network.quantize(tmp_path / "a.png"), "preprocess=PRESET"),
        (lambda: network.quantize(pictures, input_num=-1), "input_num=-1 is negative"),
        (lambda: network.compile("bm1684x", mode="f16", min_accuracy="99%"), "give samples"),
        (lambda: network.compile("bm1684x", mode="f16", min_agreement=0.9), "give samples"),
        (lambda: network.compile("bm1684x", mode="f16", runtime_version="x"), "runtime_version"),
        (lambda: network.compile("bm1684x", mode="f16", cpu_ops=("Nothing",)), "cpu_ops"),
        (lambda: tpuc.load(digits_onnx, preprocess={"mean": (0.5,)}), r'preprocess\["mean"\]'),
        (lambda: tpuc.load(digits_onnx, preprocess={"std": (0.5,), "scale": (1.0,)}), r'preprocess\["std"\]'),
        (lambda: tpuc.load(digits_onnx, output_names=("nowhere",)), "output_names"),
        (lambda: tpuc.load(digits_onnx, fixed_inputs={"nowhere": 1}), "fixed_inputs"),
        (lambda: tpuc.load(digits_onnx, dims={"nowhere": 1}), "dims"),
        (lambda: network.compile("bm1684x", mode="f16").bundle(picture), r"is a file, but bundle\(\) writes a folder"),
    ]
    for call, wanted in calls:
        with pytest.raises(tpuc.TpucError) as caught:
            call()
        assert re.search(wanted, str(caught.value)), caught.value
        assert not OPTION.search(str(caught.value)), caught.value


def test_remarks_speak_python(digits_onnx: Path) -> None:
    with pytest.warns(tpuc.Remark, match=r'^preprocess\["mean"\] = 0\.5 preprocess\["std"\] = 0\.25 is for pixels'):
        tpuc.load(digits_onnx, preprocess={"mean": (0.5,), "std": (0.25,)})
