"""A stranger's function of TpuLang: called by its name, evaluated, and compiled for a chip that has no cell for it."""

from __future__ import annotations

from collections.abc import Iterator
from importlib import import_module

import numpy as np
import pytest
import tpuc_lang as tl
from tpuc.interpreter import Interpreter
from tpuc.registry import Registry
from tpuc_driver.session import Session
from tpuc_lang.graph import DTYPES
from tpuc_testing.values import build_exposed

from tests.third_party.conftest import Compiled

DATA = {"x": np.linspace(-3, 3, 60, dtype=np.float32).reshape(1, 3, 4, 5)}


@pytest.fixture(autouse=True)
def network(registry: Registry, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(import_module("tpuc_lang.custom"), "_registry", lambda: registry)
    tl.deinit()
    tl.init("BM1684X")
    yield
    tl.deinit()


def test_it_means_what_its_package_says() -> None:
    x = tl.Tensor(DATA["x"].shape, "x")
    (y,) = tl.custom([x], "gelu7", ["float16"], ["y"], {"factor": 2})
    assert (y.name, y.dtype, y.shape) == ("y", "float16", x.shape)
    module = tl.compile("net", [x], [tl.relu(y)], no_save=True)
    (found,) = Interpreter(module).run(DATA).values()
    wanted = np.clip(2 * DATA["x"], 0, 7) + np.clip(2 * DATA["x"], -2, 0) / 8
    np.testing.assert_allclose(found, np.maximum(wanted, 0), rtol=1e-6)


@pytest.mark.chip("bm1684x")
def test_it_compiles(registry: Registry) -> None:
    x = tl.Tensor(DATA["x"].shape, "x")
    (y,) = tl.custom([x], "gelu7", ["float32"])
    module = tl.compile("net", [x], [y], no_save=True)
    session = Session(registry, chip="bm1684x", quantize="f32")
    assert Compiled(session, *build_exposed(session, module)).compare(DATA) == 0


def test_sentences() -> None:
    x = tl.Tensor([4], "x")
    for call, wanted in (
        (
            lambda: tl.custom([x], "gelu8", ["float32"]),
            "custom 'gelu8': there is no such function, there are gelu7; install the package that has it.",
        ),
        (
            lambda: tl.custom([x, x], "gelu7", ["float32"]),
            "custom 'gelu7': it takes one tensor, these are 2.",
        ),
        (
            lambda: tl.custom([x], "gelu7", ["float32"] * 2),
            "custom 'gelu7': it returns 1 tensors; give one dtype for each.",
        ),
        (
            lambda: tl.custom([x], "gelu7", ["float8"]),
            f"custom 'gelu7': dtype 'float8' is not known; use one of {', '.join(DTYPES)}.",
        ),
    ):
        with pytest.raises(tl.LangError) as caught:
            call()
        assert str(caught.value) == wanted
