"""Option values are read from text and from tpuc.toml."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import click
import pytest
from tpuc_driver.cli.values import INTEGERS, MODE, NAMES, NUMBER, NUMBERS, PATHS, POSITIVE, SHAPES

from tests.families import each


@each(
    ("type", "value", "expected"),
    [
        (NUMBERS, "0.9, 0.7", (0.9, 0.7)),
        (NUMBERS, "[103.939,116.779]", (103.939, 116.779)),
        (NUMBERS, [0.9, 1], (0.9, 1.0)),
        (NUMBERS, 0.5, (0.5,)),
        (NUMBER, "-0.5", -0.5),
        (NUMBER, 3, 3.0),
        (INTEGERS, "224,256", (224, 256)),
        (NAMES, "conv_1, relu[7]", ("conv_1", "relu[7]")),
        (NAMES, ["a,b"], ("a,b",)),
        (PATHS, "a.npy,b.npy", (Path("a.npy"), Path("b.npy"))),
        (SHAPES, "[[1,3,224,224]]", ((1, 3, 224, 224),)),
        (SHAPES, "[[1,3,8,8], [1,10]]", ((1, 3, 8, 8), (1, 10))),
        (SHAPES, "[1,3],[2]", ((1, 3), (2,))),
        (SHAPES, "[1,3]", ((1, 3),)),
        (SHAPES, "1,3", ((1, 3),)),
        (SHAPES, "[[1,576],[],[2,1]]", ((1, 576), (), (2, 1))),
        (SHAPES, "[[]]", ((),)),
        (SHAPES, "[]", ()),
        (SHAPES, [[1, 3], [2]], ((1, 3), (2,))),
        (MODE, "INT8", "int8"),
        (MODE, "int8_asym", "int8-asym"),
    ],
)
def test_values_are_read(type: click.ParamType[Any], value: Any, expected: Any) -> None:
    assert type.convert(value, None, None) == expected


@pytest.mark.parametrize(
    ("type", "value", "sentence"),
    [
        (NUMBERS, "0.9,x", "'0.9,x' is not a list of numbers such as 0.9,0.7."),
        (NUMBERS, "nan,nan", "'nan,nan' is not a list of numbers such as 0.9,0.7."),
        (NUMBERS, "0.9,inf", "'0.9,inf' is not a list of numbers such as 0.9,0.7."),
        (NUMBERS, "-1e999,0", "'-1e999,0' is not a list of numbers such as 0.9,0.7."),
        (NUMBER, "nan", "'nan' is not a number such as 0.9."),
        (NUMBER, "Infinity", "'Infinity' is not a number such as 0.9."),
        (NUMBER, "high", "'high' is not a number such as 0.9."),
        (INTEGERS, "1.5", "'1.5' is not a list of whole numbers such as 224,224."),
        (SHAPES, "[[1,?,3]]", "'[[1,?,3]]' is not a list of shapes such as [[1,3,224,224]]."),
        (SHAPES, "[[1,-1]]", "'[[1,-1]]' is not a list of shapes such as [[1,3,224,224]]."),
        (SHAPES, "[[1,0]]", "'[[1,0]]' has an extent below 1; every extent must be given."),
    ],
)
def test_other_values_are_explained(type: click.ParamType[Any], value: str, sentence: str) -> None:
    with pytest.raises(click.BadParameter) as caught:
        type.convert(value, None, None)
    assert caught.value.message == sentence


@each("text", ["[[9223372036854775808,3]]", "99999999999999999999999", "[2147483648]"])
def test_extents_beyond_any_network_are_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="an extent above 2147483647"):
        SHAPES.convert(text, None, None)


def test_whole_numbers_beyond_any_network_are_refused() -> None:
    """`--batch 9223372036854775808` does not even fit the fields of network files."""
    with pytest.raises(click.BadParameter, match="is not in the range 1<=x<=2147483647"):
        POSITIVE.convert("9223372036854775808", None, None)


def test_the_help_of_compile_has_sections_and_no_needless_numbers() -> None:
    """Every option stands in it once; presets are those that are installed."""
    from click.testing import CliRunner
    from tpuc_driver.cli.commands.compile import command

    told = CliRunner().invoke(command, ["--help"], terminal_width=100).output
    headings = [line[:-1] for line in told.splitlines() if line.endswith(":") and not line.startswith(" ")]
    assert headings[:2] == ["Target and files", "Network"]
    assert headings[-2:] == ["General", "Examples"]
    assert "2147483647" not in told
    assert "imagenet-torch" in told
    for parameter in command.params:
        for name in parameter.opts:
            if name.startswith("--"):
                assert len(re.findall(rf"(?<![\w-]){name}(?![\w-])", told.partition("Examples:")[0])) >= 1, name
