"""Ways to damage the files of every format that is ours; the same seed always gives the same damage."""

from __future__ import annotations

import copy
import io
import json
import re
import tarfile
import zipfile
from collections.abc import Callable
from typing import Any

import numpy as np
from tpuc.npy import read_array

from tests.fuzz import hostile
from tests.fuzz.mutate import BYTE_MUTATIONS, EXTREMES, Random, mutate_text

NUMBERS = ("0", "-1", "1e400", "nan", "-inf", "inf", "9223372036854775808", "-2147483649", "1e-400", "0x7f", "", "1_0")
WORDS = ("", "x", "\x00", "é", "a\nb", "../../x", "@DATA@", "'", '"', "%", "y" * 300, "\u202e", "\\", "F32", "main")
JSON_VALUES: tuple[Any, ...] = (
    *(-1e30, 1e400, float("nan"), -1, 0, 1 << 70, 3.5, None, True, [], {}, [[1, 2]], {"a": 1}),
    *("", "x", "\x1b[2J\n", "\udcff", "y" * 300),
)
TYPES = ("f32", "i8", "si32", "bf16", "f16", "i1", "index", "none", "f64", "i128", "!quant.uniform<i8:f32, 0.0>")
OPS = (
    "top.Relu",
    "top.Add",
    "top.Conv",
    "top.Softmax",
    "tpu.Cast",
    "tpu.Conv2D",
    "top.Nothing",
    "top.Input",
    "top.Weight",
)
TOML_VALUES = (
    *("inf", "nan", "-1", "9223372036854775808", "1.5", "true", "1979-05-27", "07:32:00", "[]", "[[]]", "{}", '""'),
    *(
        '"x"',
        '"\\u0000"',
        '"../x"',
        "[1, [2]]",
        "{a = 1}",
        "0x7f",
        '["a", 1]',
        '"1,3,8,8"',
        '"\\n"',
        "1979-05-27T07:32:00Z",
    ),
)


def choose(items: Any, random: Random) -> Any:
    """One of them."""
    return items[int(random.integers(len(items)))]


def damaged_bytes(content: bytes, random: Random) -> bytes:
    """Without regard to what it is."""
    return choose(BYTE_MUTATIONS, random)(content, random) if content else b"\xff"


def damaged_binary(content: bytes, random: Random) -> bytes:
    """One to four places of a compiled file: words and bits of headers, commands and constants."""
    for _ in range(int(choose((1, 1, 1, 2, 4), random))):
        content = damaged_bytes(content, random) or b"\x00"
    return content


def damaged_archive(content: bytes, random: Random) -> bytes:
    """A network in C: words of its description, members, sizes, and bytes of its text and constants."""
    if random.random() < 0.3:
        return damaged_binary(content, random)
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        members = {member.name: archive.extractfile(member) for member in archive.getmembers()}
    files = {name: member.read() for name, member in members.items() if member is not None}
    return choose((hostile.words, hostile.words, hostile.text, hostile.members, hostile.sizes), random)(files, random)


def damaged_plan(content: bytes, random: Random) -> bytes:
    """Values of a JSON file, or its text."""
    if random.random() < 0.2:
        return mutate_text(content, random)
    whole = json.loads(content)
    for _ in range(int(random.integers(1, 4))):
        place = whole
        while isinstance(place, dict | list) and place:
            key: Any = choose(sorted(place), random) if isinstance(place, dict) else int(random.integers(len(place)))
            below = place[key]
            if not isinstance(below, dict | list) or not below or random.random() < 0.1:
                place[key] = copy.deepcopy(choose(JSON_VALUES, random))  # a list may be damaged in turn
                break
            place = below
    return json.dumps(whole).encode("utf-8", "surrogatepass")


def damaged_checkpoint(content: bytes, random: Random) -> bytes:
    """A JSON file of a language model, or its tensors."""
    if content.startswith(b"{"):
        return damaged_plan(content, random)
    if random.random() < 0.2:
        return damaged_binary(content, random)
    size = int.from_bytes(content[:8], "little")
    header, rest = json.loads(content[8 : 8 + size]), content[8 + size :]
    entry, other = (header[choose(sorted(header), random)] for _ in range(2))
    match int(random.integers(5)):
        case 0:
            entry["data_offsets"][int(random.integers(2))] = choose((*EXTREMES, *JSON_VALUES), random)
        case 1:
            entry["data_offsets"] = other["data_offsets"]
        case 2:
            entry["shape"][int(random.integers(len(entry["shape"])))] = choose((*EXTREMES, *JSON_VALUES), random)
        case 3:
            entry["dtype"] = choose(("F64", "F16", "BF16", "I8", "F8_E4M3", *JSON_VALUES), random)
        case _:
            return content[:8] + damaged_plan(content[8 : 8 + size], random) + rest
    text = json.dumps(header).encode("utf-8", "surrogatepass")
    return len(text).to_bytes(8, "little") + text + rest


# Text


def damaged_module(content: bytes, random: Random) -> bytes:
    """Numbers, types, operands, ops, names, attributes and lines of a module."""
    text = content.decode("utf-8")
    for _ in range(int(random.integers(1, 4))):
        text = choose(_MODULE_MUTATIONS, random)(text, random)
    return text.encode("utf-8", "surrogatepass")


def _replaced(pattern: str, values: Callable[[str, Random], str]) -> Callable[[str, Random], str]:
    def change(text: str, random: Random) -> str:
        places = list(re.finditer(pattern, text))
        if not places:
            return text
        place = choose(places, random)
        return text[: place.start()] + values(place.group(), random) + text[place.end() :]

    return change


def _extreme(_: str, random: Random) -> str:
    return str(choose(EXTREMES, random))


def _swap_lines(text: str, random: Random) -> str:
    lines = text.split("\n")
    first, second = (int(random.integers(len(lines))) for _ in range(2))
    lines[first], lines[second] = lines[second], lines[first]
    return "\n".join(lines)


def _change_lines(text: str, random: Random) -> str:
    lines = text.split("\n")
    place = int(random.integers(len(lines)))
    lines[place : place + 1] = [[], [lines[place]] * 2][int(random.integers(2))]
    return "\n".join(lines)


def _nest(text: str, random: Random) -> str:
    place = text.find("{", int(random.integers(len(text) + 1)))
    deep = choose(("[" * 3000 + "]" * 3000, "{a = " * 3000 + "1" + "}" * 3000, "tuple<" * 3000 + ">" * 3000), random)
    return text if place < 0 else f"{text[: place + 1]}deep = {deep}, {text[place + 1 :]}"


_MODULE_MUTATIONS: tuple[Callable[[str, Random], str], ...] = (
    _replaced(r"(?<=[ <x\[])-?\d+(?=[x,>\] ])", _extreme),
    _replaced(r"(?<=[ <x\[])-?\d+(?=[x,>\] ])", lambda _, random: str(int(random.integers(0, 70)))),
    _replaced(r"%\w+", lambda _, random: f"%{int(random.integers(0, 20))}"),
    _replaced(r'"(?:top|tpu)\.\w+"', lambda _, random: f'"{choose(OPS, random)}"'),
    _replaced(r"(?<=x)(?:f32|i8|si8|ui8|bf16|si32|i32)\b", lambda _, random: choose(TYPES, random)),
    _replaced(r"-?\d\.\d+e[+-]\d+", lambda _, random: choose(("0.0", "1e400", "-1.0", "0x7F800000", "1e-300"), random)),
    _replaced(r'"[^"\n]*"', lambda _, random: json.dumps(choose(WORDS, random))),
    _replaced(r"\w+ = [^,{}\[\]<>]+, ", lambda _, _random: ""),
    _replaced(r"true|false", lambda found, _: "true" if found == "false" else "false"),
    _replaced(
        r"tensor<[^<>]*>", lambda _, random: choose(("none", "tensor<*xf32>", "tensor<?x3xf32>", "tensor<f32>"), random)
    ),
    _swap_lines,
    _change_lines,
    _nest,
    lambda text, random: mutate_text(text.encode(), random).decode("utf-8", "replace"),
)


def damaged_table(content: bytes, random: Random) -> bytes:
    """Numbers, names and lines of a table, and bytes that are no text."""
    text = content.decode("utf-8")
    for _ in range(int(random.integers(1, 4))):
        match int(random.integers(6)):
            case 0:
                text = _replaced(r"-?\d+\.\d+", lambda _, one: choose(NUMBERS, one))(text, random)
            case 1:
                text = _replaced(r"\S+", lambda _, one: choose((*WORDS, *NUMBERS), one))(text, random)
            case 2:
                text = _swap_lines(text, random)
            case 3:
                text = _change_lines(text, random)
            case 4:
                return damaged_bytes(text.encode("utf-8", "surrogatepass"), random)
            case _:
                text = _replaced(r"[ \n#]+", lambda _, one: choose((" ", "\n", "#", "\t", "\r", "\x0b", ""), one))(
                    text, random
                )
    return text.encode("utf-8", "surrogatepass")


def damaged_settings(content: bytes, random: Random) -> bytes:
    """Values of any type for options of any kind."""
    text = content.decode("utf-8")
    for _ in range(int(random.integers(1, 4))):
        match int(random.integers(5)):
            case 0 | 1:
                text = _replaced(r"(?<== )[^\n]+", lambda _, one: choose(TOML_VALUES, one))(text, random)
            case 2:
                deep = int(choose((10, 1000, 100_000), random))
                text += f"mean = {'[' * deep}{']' * deep}\n"
            case 3:
                text = _change_lines(text, random)
            case _:
                return damaged_bytes(text.encode(), random)
    return text.encode("utf-8", "surrogatepass")


# Archives of arrays


def damaged_arrays(content: bytes, random: Random) -> bytes:
    """Headers, shapes, types, values and names inside an npz, or the bytes of the archive."""
    if random.random() < 0.3:
        return damaged_bytes(content, random)
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        members = {info.filename: archive.read(info) for info in archive.infolist()}
    for _ in range(int(random.integers(1, 3))):
        _damage_member(members, random)
    target = io.BytesIO()
    kind = choose((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED), random)
    with zipfile.ZipFile(target, "w") as archive:
        for name, data in members.items():
            archive.writestr(zipfile.ZipInfo(name), data, kind)  # without the time of day
    return target.getvalue()


def _damage_member(members: dict[str, bytes], random: Random) -> None:
    if not members:
        return
    name = choose(list(members), random)
    data = members[name]
    match int(random.integers(8)):
        case 0:
            del members[name]
        case 1:
            members[choose(("../../evil.npy", "/x.npy", "readme.txt", "x.npy", "_", "é.npy"), random)] = members.pop(
                name
            )
        case 2:
            members[name] = damaged_bytes(data, random)
        case 3:
            members[name] = _other_header(data, random)
        case 4:
            members[name] = damaged_json(data, random) if name == "head.npy" else _other_array(data, random)
        case 5:
            members["extra.npy"] = data
        case _:
            members[name] = damaged_json(data, random) if name == "head.npy" else _other_values(data, random)


def _array(data: bytes) -> Any:
    return read_array(io.BytesIO(data), len(data))  # numpy's own reader has other errors for what is damaged


def npy(array: Any) -> bytes:
    """An array in numpy's format."""
    target = io.BytesIO()
    np.lib.format.write_array(target, np.asarray(array), allow_pickle=False)
    return target.getvalue()


def _other_header(data: bytes, random: Random) -> bytes:
    head, rest = data[10:128].decode("latin-1"), data[128:]
    head = _replaced(
        r"\d+|'[^']*'|True|False|[(){},]", lambda _, one: choose((*NUMBERS, *WORDS[:8], "'|O'", "("), one)
    )(head, random)
    raw = head.encode("latin-1", "replace")
    return data[:8] + len(raw).to_bytes(2, "little") + raw + rest


def _other_array(data: bytes, random: Random) -> bytes:
    try:
        array = _array(data)
    except ValueError:
        return data
    kinds = ("float64", "int8", "uint8", "int64", "bool", "float16", "U3", "complex64", "M8[s]")
    shapes: tuple[Any, ...] = ((), (0,), array.shape[1:], (1, *array.shape), (array.size,), (0, *array.shape))
    if random.random() < 0.5:
        with np.errstate(all="ignore"):
            try:
                return npy(array.astype(choose(kinds, random)))
            except (ValueError, TypeError):
                return data
    return npy(np.resize(array, choose(shapes, random)))


def _other_values(data: bytes, random: Random) -> bytes:
    try:
        array = _array(data).copy()
    except ValueError:
        return data
    if not array.size or array.dtype.kind not in "fiu":
        return data
    if array.dtype.kind == "f":
        value: Any = choose((np.nan, np.inf, -np.inf, 0.0, 3e38, -1e-40), random)
    else:
        value = choose((0, np.iinfo(array.dtype).max, np.iinfo(array.dtype).min), random)
    with np.errstate(all="ignore"):
        if random.random() < 0.3:
            array[...] = value
        else:
            array.reshape(-1)[int(random.integers(array.size))] = value
    return npy(array)


def damaged_json(data: bytes, random: Random) -> bytes:
    """The JSON text that an array of bytes holds, with another value or key somewhere."""
    try:
        text = bytes(_array(data)).decode("utf-8")
    except ValueError:
        return data
    values = ("null", "-1", "[]", "{}", '"x"', "1e400", "true", "[[[]]]", "9223372036854775808", "NaN", '"\\u0000"')
    pattern = choose((r"-?\d+(?:\.\d+)?", r'"[^"]*"', r"\[[^\[\]]*\]", r"\{[^{}]*\}", r'"[^"]*": '), random)
    text = _replaced(pattern, lambda _, one: choose(values, one))(text, random)
    return npy(np.frombuffer(text.encode("utf-8", "surrogatepass"), np.uint8))
