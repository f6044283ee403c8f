"""The JSON Schemas describe what commands write: every file that is written fits, and damaged ones do not."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from tpuc_driver.cli import main
from tpuc_driver.schemas import NAMES, schema

DIGITS = Path(__file__).resolve().parents[2] / "examples" / "digits"
TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}
KNOWN = {
    *("$schema", "title", "description", "type", "properties", "required", "items", "anyOf", "enum", "const"),
    *("minimum", "maximum", "additionalProperties"),
}


def faults(value: Any, rules: Mapping[str, Any], place: str = "$") -> Iterator[str]:
    """Where a value breaks the rules of a schema with these words of the language."""
    assert not rules.keys() - KNOWN, rules.keys() - KNOWN
    if "anyOf" in rules and all([*faults(value, one, place)] for one in rules["anyOf"]):
        yield f"{place}: fits none of {len(rules['anyOf'])}"
    named = rules.get("type", list(TYPES))
    wanted = [named] if isinstance(named, str) else named
    kinds = {"boolean"} & {*wanted} if isinstance(value, bool) else wanted
    if not any(isinstance(value, TYPES[one]) for one in kinds):
        yield f"{place}: {type(value).__name__}, not {wanted}"
        return
    if value not in rules.get("enum", [value]) or value != rules.get("const", value):
        yield f"{place}: {value!r}"
    if isinstance(value, int | float) and not rules.get("minimum", value) <= value <= rules.get("maximum", value):
        yield f"{place}: {value} is out of range"
    if isinstance(value, dict):
        yield from (f"{place}: no {name}" for name in rules.get("required", ()) if name not in value)
        for name, one in value.items():
            inner = rules.get("properties", {}).get(name, rules.get("additionalProperties", {}))
            yield from faults(one, inner, f"{place}.{name}")
    if isinstance(value, list) and "items" in rules:
        for number, one in enumerate(value):
            yield from faults(one, rules["items"], f"{place}[{number}]")


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[str, Any]]:
    """What commands write, by the names of the schemas."""
    folder = tmp_path_factory.mktemp("schemas")
    common = ["compile", str(DIGITS / "digits.onnx"), "--quantize"]
    images = ["--dataset", str(DIGITS / "digits_calib.npz"), "--input-num", "20"]
    found: list[tuple[str, Any]] = []
    for chip, mode, more in (
        ("bm1684x", "int8", [*images, "--test-input", str(DIGITS / "digits_calib.npz")]),
        ("bm1684x", "f16", ["--mean", "1,", "--scale", "2,", "--pixel-format", "gray"]),
        ("cv181x", "int8", images),
        ("c", "f32", []),
    ):
        place = folder / f"{chip}-{mode}"
        place.mkdir()
        outputs = [
            "--report",
            str(place / "r.json"),
            "--memory-plan",
            str(place / "p.json"),
            "--bundle",
            str(place / "b"),
        ]
        suffix = {"bm1684x": ".bmodel", "cv181x": ".cvimodel", "c": ".tar"}[chip]
        assert main([*common, mode, "--chip", chip, *more, *outputs, "-o", str(place / f"net{suffix}")]) == 0
        for name, path in (("report", "r.json"), ("memory-plan", "p.json"), ("network", "b/network.json")):
            if (place / path).exists():
                found.append((name, json.loads((place / path).read_text("utf-8"))))
    return found


@pytest.mark.chip("bm1684x")
@pytest.mark.chip("cv181x")
@pytest.mark.chip("c")
def test_what_commands_write_fits(written: list[tuple[str, Any]]) -> None:
    assert {name for name, _ in written} == {"report", "memory-plan", "network"}
    wrong = [f"{name}{fault}" for name, value in written for fault in faults(value, schema(name))]
    assert wrong == []


@pytest.mark.chip("bm1684x")
@pytest.mark.chip("cv181x")
@pytest.mark.chip("c")
def test_damaged_files_do_not_fit(written: list[tuple[str, Any]]) -> None:
    missed: list[str] = []
    for name, value in written[:3]:
        for key in schema(name)["required"]:
            without, wrong = copy.deepcopy(value), copy.deepcopy(value)
            del without[key]
            wrong[key] = {"of": [None]} if not isinstance(value[key], dict) and value[key] is not None else 1.5
            missed += [f"{name}: without {key}"] if not [*faults(without, schema(name))] else []
            is_free = key in ("postprocess", "accuracy") and isinstance(wrong[key], dict)
            is_number = key in ("cycles", "milliseconds") and value[key] is None
            missed += (
                [f"{name}: {key} {wrong[key]}"]
                if not [*faults(wrong, schema(name))] and not (is_free or is_number)
                else []
            )
    assert missed == []


def test_settings_of_a_project() -> None:
    rules = schema("tpuc-toml")
    good = {
        "with": ["acme"],
        "compile": {"quantize": "int8", "mean": [1.0, 2.0]},
        "pipelines": {"top-optimize": ["canonicalize"]},
    }
    assert [*faults(good, rules)] == []
    assert [*faults({"compile": 3}, rules)] == ["$.compile: int, not ['object']"]
    assert [*faults({"pipelines": {"lower": [1]}}, rules)] == ["$.pipelines.lower[0]: int, not ['string']"]
    assert {"quantize", "dataset", "chip"} <= rules["properties"]["compile"]["properties"].keys()


def test_every_schema_says_what_it_is_for() -> None:
    for name in NAMES:
        found = schema(name)
        assert found["$schema"] == "https://json-schema.org/draft/2020-12/schema"
        assert found["title"]
        assert found["description"].endswith(".")
