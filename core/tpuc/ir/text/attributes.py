"""Parse attributes and locations."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from typing import TypeVar

from tpuc.ir.attributes import (
    ArrayAttr,
    Attribute,
    BoolAttr,
    DenseArrayAttr,
    DialectAttr,
    DictAttr,
    FloatAttr,
    IntegerAttr,
    StringAttr,
    SymbolAttr,
    TypeAttr,
    UnitAttr,
)
from tpuc.ir.operation import UNKNOWN_LOCATION, Location
from tpuc.ir.text.numbers import parse_hexadecimal
from tpuc.ir.text.scanner import unescape
from tpuc.ir.text.types import SCALAR, TypeParser
from tpuc.ir.text.writing import location_text
from tpuc.ir.types import ElementType, ScalarType, Type

T = TypeVar("T")

_NUMBER = re.compile(r"-?(?:0x[0-9A-Fa-f]+(?![\w.])|\d+\.\d*(?:[eE][+-]?\d+)?|\d+[eE][+-]?\d+(?![\w.])|\d+(?![\w.]))")
_NUMBER_TYPE = re.compile(rf"\s*:\s*({SCALAR})(?![\w.])")
_KEPT = re.compile(r"(?:dense|dense_resource|sparse|affine_map|affine_set|opaque|strided|distinct\[\d+\])(?=<)")
_DIALECT_ATTRIBUTE = re.compile(r"#[A-Za-z_][\w$.]*+")
_SYMBOL = re.compile(r'@(?:[\w$.-]+|"(?:[^"\\]|\\.)*")(?:::@(?:[\w$.-]+|"(?:[^"\\]|\\.)*"))*')
_KEY = re.compile(r'([A-Za-z_][\w$.]*+)|"((?:[^"\\]|\\.)*)"')
_ALIAS = re.compile(r"[ \t]*([#!][\w$.]+)[ \t]*=[ \t]*")
_ALIAS_LINE = re.compile(r"\n(?!#loc\d++ = loc\(\"[^\"\\\n]*+\"\)\n)[ \t]*([#!][\w$.]+)[ \t]*=[ \t]*")
_SIMPLE_ALIAS = re.compile(r'(?:\n#loc\d++ = loc\("[^"\\\n]*+"\))++(?=\n)')
_SIMPLE_ALIAS_LINE = re.compile(r'\n(#loc\d++) = loc\("([^"\\\n]*+)"\)(?=\n)')
_TYPE_START = re.compile(rf"[!(]|(?:tensor|tuple|vector|memref|complex)<|(?:none|{SCALAR})(?![\w.])")
_BARE_NAME = re.compile(r"(?!fused|callsite|unknown)\w[\w.$/-]*+(?=\s*\))")
"""A location name that documents print without quotes."""
_PRINTED_LIST = re.compile(r"\(\s*-?\d")
"""A list of numbers as documents print it."""
_LINE_COLUMN = re.compile(r":\d+:\d+(?:\s+to\s+(?:\d+)?:\d+)?")

# One entry of a dictionary whose value needs no look inside to find its end; equal texts give the same attribute.
_ENTRY = re.compile(
    r"""\s*+([A-Za-z_][\w$.]*+)
        (?:\s*+=\s*+(
            -?[\d][\w.+-]*+(?:\ :\ \w++)?+
          | true | false
          | "[^"\\\n]*+"
          | \[[^][{}()"<>#@!]*+\]
          | \#[\w$.]++<[^<>"]*+>
        ))?+
        \s*+([,}])""",
    re.VERBOSE,
)


class AttributeParser(TypeParser):
    """Parses attributes, dictionaries and locations, and resolves aliases defined anywhere in the file."""

    def __init__(self, text: str, source: str) -> None:
        super().__init__(text, source)
        self._values: dict[str, Attribute] = {}
        self._locations: dict[str, Location] = {}
        self._aliases: dict[str, int] = {}
        self._resolving: set[str] = set()
        self._find_aliases()

    def dictionary(self) -> dict[str, Attribute]:
        """`{name = attribute, unit_name}`."""
        self.expect("{", " before the attributes")
        result: dict[str, Attribute] = {}
        if self.accept("}"):
            return result
        while True:
            start = self.skip()
            entry = _ENTRY.match(self.text, start)
            if entry is not None:
                key, text, end = entry.groups()
                self.pos = entry.end()
                value = UnitAttr() if text is None else self._values.get(text) or self._simple(text, entry.start(2))
            else:
                key = self._key()
                value = self.attribute() if self.accept("=") else UnitAttr()
                end = "," if self.accept(",") else "}"
                if end == "}":
                    self.expect("}", " or ',' after an attribute")
            if key in result:
                self.fail(f"attribute '{key}' is there twice; remove one", start)
            result[key] = value
            if end == "}":
                return result

    def attribute(self) -> Attribute:
        """The attribute that comes next."""
        text, pos = self.text, self.skip()
        match text[pos : pos + 1]:
            case '"':
                return StringAttr(self.string("a string"))
            case "[":
                return ArrayAttr(self._items("[", "]", self.attribute))
            case "(" if _PRINTED_LIST.match(text, pos):
                return ArrayAttr(self._items("(", ")", self.attribute))
            case "{":
                return DictAttr(tuple(self.dictionary().items()))
            case "@":
                return self._symbol()
            case "#":
                return self._dialect_attribute()
            case _:
                return self._number() or self._word()

    def location(self) -> Location:
        """`loc(...)`, unknown when there is none."""
        if not (self.accept_word("loc") and self.accept("(")):
            return UNKNOWN_LOCATION
        result = self._location_body()
        self.expect(")", " after the location")
        return result

    def location_alias(self, name: str, pos: int) -> Location:
        """The location named `#name`."""
        known = self._locations.get(name)
        if known is None:
            known = self._locations[name] = self._at_alias(name, pos, self.location)
        return known

    def type_alias(self, name: str, pos: int) -> Type | ElementType:
        """The type named `!name`."""
        return self._at_alias("!" + name, pos, self.aliased_type)

    def alias_definition(self) -> bool:
        """Skip an alias definition if one comes next, and check it."""
        simple = _SIMPLE_ALIAS.match(self.text, self.skip() - 1) if self.pos else None
        if simple is not None:
            self.pos = simple.end()
            return True
        match = _ALIAS.match(self.text, self.pos)
        if match is None:
            return False
        name = match.group(1)
        self.pos = match.end()
        if name.startswith("!"):
            self.aliased_type()
        elif self.sees("loc"):
            self.location()
        else:
            self.attribute()
        return True

    def _find_aliases(self) -> None:
        simple = _SIMPLE_ALIAS_LINE.findall(self.text)
        self._locations = {name: Location((inside,)) for name, inside in simple}
        if len(simple) != len(self._locations):
            self._fail_at_second(Counter(name for name, _ in simple).most_common(1)[0][0])
        first = _ALIAS.match(self.text)
        for match in ([first] if first else []) + list(_ALIAS_LINE.finditer(self.text)):
            name = match.group(1)
            if name in self._aliases or name in self._locations:
                self._fail_at_second(name)
            self._aliases[name] = match.end()

    def _fail_at_second(self, name: str) -> None:
        places = [
            match.start(1) for match in re.finditer(rf"^[ \t]*({re.escape(name)})[ \t]*=", self.text, re.MULTILINE)
        ]
        self.fail(f"alias '{name}' is defined twice; remove one", places[1])

    def _at_alias(self, name: str, pos: int, parse: Callable[[], T]) -> T:
        place = self._aliases.get(name)
        if place is None:
            self.fail(f"'{name}' is not defined in this file; add a line '{name} = ...'", pos)
        if name in self._resolving:
            self.fail(f"the definition of '{name}' uses itself", place)
        back = self.pos
        self._resolving.add(name)
        self.pos = place
        result = parse()
        self._resolving.discard(name)
        self.pos = back
        return result

    def _simple(self, text: str, start: int) -> Attribute:
        """Parse an attribute and cache it by its text."""
        back = self.pos
        self.pos = start
        value = self.attribute()
        if self.pos != start + len(text):
            self.fail(f"expected ',' or '}}' after an attribute, found {self.shown()}")
        self.pos = back
        self._values[text] = value
        return value

    def _key(self) -> str:
        match = self.take(_KEY)
        if match is None:
            return self.fail(f"expected the name of an attribute, found {self.shown()}")
        return match.group(1) or unescape(match.group(2))

    def _items(self, opening: str, closing: str, item: Callable[[], T]) -> tuple[T, ...]:
        self.expect(opening)
        if self.accept(closing):
            return ()
        items = [item()]
        while self.accept(","):
            items.append(item())
        self.expect(closing, " or ',' in this list")
        return tuple(items)

    def _number(self) -> Attribute | None:
        match = self.take(_NUMBER)
        if match is None:
            return None
        text, start = match.group(), match.start()
        is_float = "." in text or (not text.startswith("0x") and "e" in text.lower())
        typed = _NUMBER_TYPE.match(self.text, self.pos)
        if typed is None:
            return FloatAttr(float(text), is_typed=False) if is_float else IntegerAttr(int(text, 0), is_typed=False)
        self.pos = typed.end()
        scalar = ScalarType(typed.group(1))
        if not scalar.is_float:
            if is_float:
                self.fail(f"{text} is not an integer, but its type is {scalar}", start)
            return IntegerAttr(int(text, 0), scalar)
        if not is_float and not text.startswith("0x"):
            self.fail(f"a number of type {scalar} needs a point; write {text}.0", start)
        try:
            return FloatAttr(float(text) if is_float else parse_hexadecimal(text, scalar.name), scalar)
        except ValueError as error:
            return self.fail(str(error), start)

    def _word(self) -> Attribute:
        for word, value in (("true", BoolAttr(True)), ("false", BoolAttr(False)), ("unit", UnitAttr())):
            if self.accept_word(word):
                return value
        if self.accept_word("array"):
            return self._dense_array()
        start = self.pos
        if self.take(_KEPT) is not None:
            self.balanced("this attribute")
            end = self.pos
            if self.accept(":"):
                self.type()
                end = self.pos
            return DialectAttr(self.text[start:end])
        if self.accept_word("loc"):
            self.balanced("this location")
            return DialectAttr(self.text[start : self.pos])
        if not _TYPE_START.match(self.text, start):
            self.fail(f"expected an attribute, found {self.shown()}")
        return TypeAttr(self.type())

    def _dense_array(self) -> DenseArrayAttr:
        self.expect("<", " after 'array'")
        element = self._scalar("the element type of the array")
        items: list[int | float | bool] = []
        if self.accept(":"):
            items.append(self._dense_item(element))
            while self.accept(","):
                items.append(self._dense_item(element))
        self.expect(">", " or ',' in this array")
        return DenseArrayAttr(element, tuple(items))

    def _dense_item(self, element: ScalarType) -> int | float | bool:
        if element.name == "i1" and (self.sees("true") or self.sees("false")):
            return self.name("a bool") == "true"
        if not element.is_float:
            return self.integer("an integer")
        match = self.take(_NUMBER)
        if match is None:
            return self.fail(f"expected a number, found {self.shown()}")
        text = match.group()
        return parse_hexadecimal(text, element.name) if text.startswith("0x") else float(text)

    def _symbol(self) -> SymbolAttr:
        match = self.take(_SYMBOL)
        if match is None:
            return self.fail("expected a name after '@'")
        return SymbolAttr(unquote_symbol(match.group()))

    def _dialect_attribute(self) -> Attribute:
        start = self.pos
        match = self.take(_DIALECT_ATTRIBUTE)
        if match is None:
            return self.fail("expected the name of an attribute after '#'")
        if self.text.startswith("<", self.pos):
            self.balanced(f"the attribute {match.group()}")
        elif "." not in match.group():
            if match.group() in self._locations or self.text.startswith("loc", self._aliases.get(match.group(), -1)):
                return DialectAttr(f"loc({location_text(self.location_alias(match.group(), start))})")
            return self._at_alias(match.group(), start, self.attribute)
        return DialectAttr(self.text[start : self.pos])

    def _location_body(self) -> Location:
        start = self.skip()
        if self.sees("#"):
            match = self.take(_DIALECT_ATTRIBUTE)
            return self.location_alias(match.group(), start) if match else self.fail("expected the name of a location")
        if self.accept_word("unknown"):
            return UNKNOWN_LOCATION
        if self.accept_word("fused"):
            return self._fused()
        if self.accept_word("callsite"):
            self.balanced("this call site")
            return Location((), self._expanded(start))
        bare = self.take(_BARE_NAME)
        if bare is not None:
            return Location((bare.group(),))
        name = self.string("a location such as a name")
        if self.take(_LINE_COLUMN):
            return Location((), self.text[start : self.pos])
        if self.accept("("):
            self._location_body()
            self.expect(")", " after the inner location")
            return Location((name,), self._expanded(start))
        return Location((name,))

    def _fused(self) -> Location:
        has_metadata = self.sees("<")
        metadata = self.balanced("the metadata of this location") if has_metadata else ""
        parts = self._items("[", "]", self._location_body) if self.sees("[") else ()
        names = tuple(name for part in parts for name in part.names)
        plain = not has_metadata or metadata == "<>"
        if plain and all(part.names and part.text is None for part in parts):
            return Location(names)
        inner = ", ".join(location_text(part) for part in parts)
        return Location(names, f"fused{metadata if metadata != '<>' else ''}[{inner}]")

    def _expanded(self, start: int) -> str:
        """The text of a location with its aliases expanded, since printing renumbers them."""
        parts = re.split(r"(#[\w$.]+)", self.text[start : self.pos])
        return "".join(
            location_text(self.location_alias(part, start)) if part.startswith("#") else part for part in parts
        )


def unquote_symbol(text: str) -> str:
    """A symbol without its first `@`; a quoted simple name loses its quotes."""
    inside = text[1:]
    return unescape(inside[1:-1]) if inside.startswith('"') and "::@" not in inside else inside
