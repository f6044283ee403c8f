"""A network is read and computes what it should; a bad one is one sentence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tpuc.api import Unsupported
from tpuc.api.evaluation import Interpreter
from tpuc_driver.api.host import Session


def test_a_file_becomes_a_module(tmp_path: Path) -> None:
    path = tmp_path / "net.chain"
    path.write_text("input x 1x1x2x2\nmaxpool 2\nrelu\n", encoding="utf-8")
    module = Session().transform(path)
    for values, largest in (([1, -2, 3, 0], 3), ([-1, -2, -3, -4], 0)):
        x = np.array(values, np.float32).reshape(1, 1, 2, 2)
        assert Interpreter(module).run({"x": x})["relu_3"].tolist() == [[[[largest]]]]


def test_an_unknown_word_is_one_sentence(tmp_path: Path) -> None:
    path = tmp_path / "net.chain"
    path.write_text("input x 1x4\nrelo\n", encoding="utf-8")
    with pytest.raises(Unsupported, match=r"line 2: no op 'relo'"):
        Session().transform(path)
