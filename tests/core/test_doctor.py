"""`tpuc doctor` and `tpuc.doctor()`: what is installed, what is missing and the command that brings it."""

from __future__ import annotations

import importlib.metadata
import json
import os
import sys
from typing import Any

import numpy as np
import pytest
from tpuc.registry import Offer, Registry
from tpuc_driver import diagnosis

from tests.core.cli import CommandLine
from tests.families import each


class Installed:
    """A distribution as `importlib.metadata` gives it."""

    version = "0.3"
    requires = ("numpy>=2.0", "no-such-thing>=1", "no-such-extra[a,b]>=2; extra == 'acme'", "pip; extra == 'tools'")

    def __init__(self, direct: dict[str, Any] | None = None) -> None:
        self.direct = direct

    def read_text(self, name: str) -> str | None:
        return json.dumps(self.direct) if self.direct is not None and name == "direct_url.json" else None


@pytest.fixture
def installed(monkeypatch: pytest.MonkeyPatch) -> Installed:
    found = Installed()
    real = importlib.metadata.distribution
    monkeypatch.setattr(importlib.metadata, "distribution", lambda name: found if name == "tpuc" else real(name))
    return found


def test_it_says_what_is_missing_and_how_to_get_it(installed: Installed) -> None:
    found = diagnosis.doctor(Registry(offers=()))
    assert [(one.name, one.version) for one in found.packages] == [("numpy", np.__version__), ("no-such-thing", "")]
    assert found.problems == ("tpuc needs the package no-such-thing, which is missing: pip install no-such-thing",)
    assert [(one.name, one.is_complete) for one in found.extras] == [("acme", False), ("tools", True)]
    lines = found.text().splitlines()
    assert "extra 'acme': no-such-extra not installed -> pip install \"tpuc[acme]\"" in lines
    assert f"extra 'tools': pip {importlib.metadata.version('pip')}" in lines
    assert lines[-1].startswith("PROBLEM: tpuc needs the package no-such-thing")
    assert repr(found) == found.text()


@each(
    ("direct", "command"),
    [
        ({"url": "file:///my%20code/tpuc", "dir_info": {"editable": True}}, 'pip install -e "/my code/tpuc[acme]"'),
        ({"url": "file:///code/tpuc", "dir_info": {}}, 'pip install "/code/tpuc[acme]"'),
        ({"url": "https://example.org/tpuc.whl", "archive_info": {}}, 'pip install "tpuc[acme]"'),
    ],
)
def test_a_checkout_is_named_where_the_package_came_from_one(
    direct: dict[str, Any], command: str, installed: Installed
) -> None:
    installed.direct = direct
    assert diagnosis.doctor(Registry(offers=())).extras[0].install == command


def test_a_broken_plugin_is_a_problem() -> None:
    broken = Offer("tpuc.chips", "acme", "acme-chips", "0.3", "no_such_module:CHIP")
    found = diagnosis.doctor(Registry(offers=(broken,)))
    assert found.plugins == {"chip": ["acme"]}
    assert len(found.problems) == 1
    assert "acme-chips 0.3" in found.problems[0]


def test_this_installation_is_whole() -> None:
    found = diagnosis.doctor()
    assert found.problems == ()
    assert found.version == importlib.metadata.version("tpuc")
    assert sys.executable in found.python
    assert found.cores == len(os.sched_getaffinity(0))
    assert found.memory_bytes is None or found.free_bytes is None or 0 < found.free_bytes <= found.memory_bytes
    assert {"numpy", "onnx", "click"} <= {one.name for one in found.packages}
    assert {"torch", "litert", "caffe"} <= {one.name for one in found.extras}
    assert "bm1684x" in found.plugins["chip"]


def test_the_command_tells_and_fails_where_something_is_broken(tpuc: CommandLine) -> None:
    outcome = tpuc("doctor")
    assert outcome.code == 0, outcome.out
    assert outcome.out.splitlines()[-1] == "no problems"
    tpuc.install(Offer("tpuc.chips", "acme", "acme-chips", "0.3", "no_such_module:CHIP"))
    outcome = tpuc("doctor", "--json")
    assert outcome.code == 1
    assert json.loads(outcome.out)["plugins"] == {"chip": ["acme"]}
