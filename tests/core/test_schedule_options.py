"""Pass texts become pass objects, and a wrong text becomes a sentence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest
from tpuc.errors import UsageError
from tpuc.ir import Module
from tpuc.schedule import Pass, PassContext, parse_pass_text
from tpuc.schedule.options import build_object

from tests.families import each


@dataclass(frozen=True)
class Plain(Pass):
    """No options."""

    name = "plain"

    def run(self, module: Module, context: PassContext) -> bool:
        return False


@dataclass(frozen=True)
class Tile(Plain):
    """One option of each type."""

    name = "tile"
    axis: Literal["h", "w"] = "h"
    keep_limit: bool = False
    depth: int = 2
    share: float = 0.5
    label: str = ""
    sizes: tuple[int, ...] = ()
    pair: tuple[int, float] = (1, 1.0)
    limit: int | None = None


@dataclass(frozen=True)
class Needy(Plain):
    """An option without default."""

    name = "needy"
    chip_name: str


TILE_OPTIONS = "axis, keep-limit, depth, share, label, sizes, pair, limit"


def build(text: str) -> Any:
    definitions: dict[str, type[Pass]] = {"plain": Plain, "tile": Tile, "needy": Needy}
    parsed = parse_pass_text(text)
    return build_object("pass", definitions[parsed.name], parsed)


@each(
    ("text", "expected"),
    [
        ("tile", Tile()),
        (" tile ", Tile()),
        ("tile{}", Tile()),
        ("tile{keep-limit}", Tile(keep_limit=True)),
        ("tile{keep_limit=false}", Tile(keep_limit=False)),
        ("tile{axis=w, depth=3,share=0.25}", Tile(axis="w", depth=3, share=0.25)),
        ("tile{depth=0x10}", Tile(depth=16)),
        ("tile{label=a b=c}", Tile(label="a b=c")),
        ("tile{sizes=[4,8],keep-limit}", Tile(sizes=(4, 8), keep_limit=True)),
        ("tile{sizes=4}", Tile(sizes=(4,))),
        ("tile{sizes=[]}", Tile(sizes=())),
        ("tile{pair=[2,0.5]}", Tile(pair=(2, 0.5))),
        ("tile{limit=7}", Tile(limit=7)),
        ("tile{limit=none}", Tile(limit=None)),
        ("needy{chip-name=newchip}", Needy("newchip")),
        ("tile{label=a b limit=7}", Tile(label="a b", limit=7)),
        ("tile{limit=7 keep_limit=true label=a}", Tile(limit=7, keep_limit=True, label="a")),
    ],
)
def test_text_becomes_fields(text: str, expected: Pass) -> None:
    assert build(text) == expected


@each(
    ("text", "sentence"),
    [
        ("{a=1}", "pass text '{a=1}' has no pass name; write NAME or NAME{option=value,...}."),
        ("tile{depth=3", "pass text 'tile{depth=3' has no closing brace; write NAME or NAME{option=value,...}."),
        ("tile{=3}", "pass text 'tile{=3}' has an option without a name; write NAME{option=value,...}."),
        (
            "tile{depth=3 label=a,depth=4}",
            "pass text 'tile{depth=3 label=a,depth=4}' gives option 'depth' twice; keep one.",
        ),
        ("tile{depth=3,depth=4}", "pass text 'tile{depth=3,depth=4}' gives option 'depth' twice; keep one."),
        ("tile{sizes=[1,2}", "pass text 'tile{sizes=[1,2}' has brackets that do not pair; write lists as [a,b]."),
        (
            "tile{dept=3}",
            f"pass 'tile' has no option 'dept'. Did you mean 'depth'? Options: {TILE_OPTIONS}.",
        ),
        ("plain{x}", "pass 'plain' has no option 'x': it has none at all. Write just plain."),
        ("needy", "pass 'needy' needs option 'chip-name'; write needy{chip-name=...}."),
        ("tile{keep-limit=maybe}", "pass 'tile': option keep-limit is true or false, not 'maybe'."),
        ("tile{depth=many}", "pass 'tile': option depth is a whole number, not 'many'."),
        ("tile{share=half}", "pass 'tile': option share is a number, not 'half'."),
        ("tile{depth}", "pass 'tile': option depth needs a value; write it as option=value."),
        ("tile{axis=c}", "pass 'tile': option axis is one of h, w, not 'c'."),
        ("tile{sizes=[1,x]}", "pass 'tile': option sizes is a whole number, not 'x'."),
        ("tile{pair=[1]}", "pass 'tile': option pair takes 2 values, not 1; write them as [a,b]."),
        ("tile{limit=x}", "pass 'tile': option limit is a whole number, not 'x'."),
    ],
)
def test_a_wrong_text_is_explained(text: str, sentence: str) -> None:
    with pytest.raises(UsageError) as caught:
        build(text)
    assert str(caught.value) == sentence
