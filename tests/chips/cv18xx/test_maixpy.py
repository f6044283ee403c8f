"""The folder of a classifier for boards with MaixPy describes it in MaixPy's form."""

from __future__ import annotations

import configparser
from pathlib import Path

import numpy as np
import pytest

from tests.chips.command_line import tpuc
from tests.docs.test_commands import classifier
from tests.families import each

pytestmark = pytest.mark.chip("cv181x")
NAMES = ("tench, Tinca tinca", "goldfish", "white shark")
CASES = {
    "floats": ((), ((103.94, 116.78, 123.68), (0.017, 0.017, 0.017))),
    "bytes": (("--fuse-preprocess",), ((0, 0, 0), (1, 1, 1))),
}
"""Options, and the mean and scale that are left to MaixPy."""


def bundled(folder: Path, *more: str | Path) -> dict[str, str]:
    classifier(folder / "net.onnx", classes=3)
    said = ("--chip", "cv181x", "--quantize", "bf16", "--mean", "103.94,116.78,123.68", "--scale", "0.017")
    to = ("-o", folder / "net.cvimodel", "--bundle", folder / "out")
    done = tpuc("compile", folder / "net.onnx", *said, *more, *to)
    assert done.returncode == 0, done.stderr
    found = (path for path in (folder / "out").iterdir() if path.name == "labels.txt" or path.suffix == ".mud")
    return {path.name: path.read_text("utf-8") for path in found}


@each("case", CASES)
def test_what_the_file_leaves_to_the_runtime_is_described(case: str, tmp_path: Path) -> None:
    more, (mean, scale) = CASES[case]
    (tmp_path / "names.txt").write_text("\n".join(NAMES), "utf-8")
    found = bundled(tmp_path, "--labels", tmp_path / "names.txt", *more)
    assert found["labels.txt"].splitlines() == list(NAMES)
    mud = configparser.ConfigParser()
    mud.read_string(found["net.mud"])
    assert dict(mud["basic"]) == {"type": "cvimodel", "model": "net.cvimodel"}
    extra = dict(mud["extra"])
    for wanted, name in ((mean, "mean"), (scale, "scale")):
        stated = [np.float32(value) for value in extra.pop(name).split(", ")]
        assert stated == [np.float32(value) for value in wanted]
    assert extra == {"model_type": "classifier", "input_type": "bgr", "labels": "labels.txt"}


def test_networks_without_names_of_classes_are_not_described(tmp_path: Path) -> None:
    assert bundled(tmp_path) == {}
