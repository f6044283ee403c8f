"""Ways to damage network files; the same seed always gives the same damage."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper

Random = np.random.Generator
Files = dict[str, bytes]
"""Of one network by suffix; the first one is the network, another one holds its weights."""

EXTREMES = (0, 1, -1, 2, 3, 255, -128, 65536, 2**31 - 1, -(2**31), 2**31, 2**40, 2**62, -(2**62))
BYTES = (0x00, 0x01, 0x7F, 0x80, 0xFF)


# Bytes


def flip_bits(content: bytes, random: Random) -> bytes:
    """One to eight bits."""
    data = bytearray(content)
    for _ in range(int(random.integers(1, 9))):
        place = int(random.integers(len(data)))
        data[place] ^= 1 << int(random.integers(8))
    return bytes(data)


def set_bytes(content: bytes, random: Random) -> bytes:
    """A run of one to eight bytes to a value that lengths and tags make the most of."""
    data = bytearray(content)
    place, length = int(random.integers(len(data))), int(random.integers(1, 9))
    data[place : place + length] = bytes([BYTES[int(random.integers(len(BYTES)))]]) * length
    return bytes(data)


def set_word(content: bytes, random: Random) -> bytes:
    """Four bytes where numbers and offsets of aligned formats stand."""
    place = int(random.integers(max(len(content) // 4, 1))) * 4
    value = int(_choose((*EXTREMES, 4, 8, 16), random)) & 0xFFFFFFFF
    return content[:place] + value.to_bytes(4, "little") + content[place + 4 :]


def truncate(content: bytes, random: Random) -> bytes:
    """The beginning, often almost all of it."""
    cut = int(random.integers(1, 64)) if random.random() < 0.5 else int(random.integers(1, len(content)))
    return content[: max(len(content) - cut, 0)]


def leave_out(content: bytes, random: Random) -> bytes:
    """Without a piece in the middle."""
    start = int(random.integers(len(content)))
    return content[:start] + content[start + int(random.integers(1, 65)) :]


def repeat(content: bytes, random: Random) -> bytes:
    """A piece twice."""
    start = int(random.integers(len(content)))
    piece = content[start : start + int(random.integers(1, 257))]
    return content[:start] + piece + content[start:]


def insert(content: bytes, random: Random) -> bytes:
    """Random bytes in between."""
    start = int(random.integers(len(content)))
    return content[:start] + random.bytes(int(random.integers(1, 17))) + content[start:]


BYTE_MUTATIONS: tuple[Callable[[bytes, Random], bytes], ...] = (
    flip_bits,
    set_bytes,
    set_word,
    set_word,
    truncate,
    leave_out,
    repeat,
    insert,
)


# ONNX


def mutate_onnx(content: bytes, random: Random) -> bytes:
    """Something that the format allows and a network must not have."""
    model = onnx.ModelProto.FromString(content)
    for _ in range(int(random.integers(1, 3))):
        if model.graph.node and model.graph.input:
            _choose(ONNX_MUTATIONS, random)(model.graph, random)
    if random.random() < 0.05:
        model.opset_import[0].version = _extreme(random)
    return model.SerializeToString()


def _extreme(random: Random) -> int:
    return EXTREMES[int(random.integers(len(EXTREMES)))]


def _choose(items: Any, random: Random) -> Any:
    return items[int(random.integers(len(items)))]


def _change_extent(graph: onnx.GraphProto, random: Random) -> None:
    dims = _choose(graph.input, random).type.tensor_type.shape.dim
    if len(dims):
        _choose(dims, random).dim_value = _extreme(random)


def _change_rank(graph: onnx.GraphProto, random: Random) -> None:
    dims = _choose(graph.input, random).type.tensor_type.shape.dim
    if random.random() < 0.5 and len(dims):
        del dims[-1]
    else:
        dims.add().dim_value = _extreme(random)


def _change_weight_shape(graph: onnx.GraphProto, random: Random) -> None:
    if graph.initializer:
        tensor = _choose(graph.initializer, random)
        if tensor.dims and random.random() < 0.7:
            tensor.dims[int(random.integers(len(tensor.dims)))] = _extreme(random)
        else:
            tensor.dims.append(_extreme(random))


def _change_weight_type(graph: onnx.GraphProto, random: Random) -> None:
    if graph.initializer:
        _choose(graph.initializer, random).data_type = int(random.integers(0, 25))


def _change_weight_values(graph: onnx.GraphProto, random: Random) -> None:
    if not graph.initializer:
        return
    tensor = _choose(graph.initializer, random)
    try:
        array = numpy_helper.to_array(tensor).copy()
    except (TypeError, ValueError):
        return
    if array.size:
        value: Any = _choose((np.nan, np.inf, -np.inf, 3e38), random) if array.dtype.kind == "f" else _extreme(random)
        with np.errstate(all="ignore"):
            array.reshape(-1)[int(random.integers(array.size))] = np.array(value).astype(array.dtype)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))


def _lose_weight(graph: onnx.GraphProto, random: Random) -> None:
    if graph.initializer:
        del graph.initializer[int(random.integers(len(graph.initializer)))]


def _rewire(graph: onnx.GraphProto, random: Random) -> None:
    """Another tensor as an operand: cycles, wrong ranks and shapes, tensors from nowhere."""
    node = _choose(graph.node, random)
    names = [name for one in graph.node for name in one.output] + [one.name for one in graph.initializer]
    names += [one.name for one in graph.input] + ["nowhere", ""]
    if node.input:
        node.input[int(random.integers(len(node.input)))] = _choose(names, random)


def _change_arity(graph: onnx.GraphProto, random: Random) -> None:
    node = _choose(graph.node, random)
    ends = node.input if random.random() < 0.7 else node.output
    if len(ends) and random.random() < 0.5:
        del ends[-1]
    else:
        ends.append(_choose(("", "extra", graph.input[0].name if graph.input else ""), random))


def _change_op(graph: onnx.GraphProto, random: Random) -> None:
    schemas = sorted({schema.name for schema in onnx.defs.get_all_schemas()})
    _choose(graph.node, random).op_type = _choose(schemas, random)


def _lose_node(graph: onnx.GraphProto, random: Random) -> None:
    del graph.node[int(random.integers(len(graph.node)))]


def _repeat_node(graph: onnx.GraphProto, random: Random) -> None:
    graph.node.add().CopyFrom(_choose(graph.node, random))


def _change_attribute(graph: onnx.GraphProto, random: Random) -> None:
    nodes = [node for node in graph.node if node.attribute]
    if not nodes:
        return
    attribute = _choose(_choose(nodes, random).attribute, random)
    match int(random.integers(4)):
        case 0 if attribute.ints:
            attribute.ints[int(random.integers(len(attribute.ints)))] = _extreme(random)
        case 1 if attribute.ints:
            attribute.ints.append(_extreme(random))
        case 2:
            attribute.type = int(random.integers(0, 15))
        case _:
            attribute.i = _extreme(random)
            attribute.f = _choose((0.0, -1.0, np.inf, np.nan, 1e30), random)


def _change_list(graph: onnx.GraphProto, random: Random) -> None:
    """A number of a list: beyond what it counts, or the place of another node, which makes trees cyclic."""
    lists = [one for node in graph.node for one in node.attribute if one.ints or one.floats or one.strings]
    if not lists:
        return
    attribute = _choose(lists, random)
    kind = next(kind for kind in ("ints", "floats", "strings") if getattr(attribute, kind))
    values = getattr(attribute, kind)
    place = int(random.integers(len(values)))
    match int(random.integers(5)):
        case 0:
            del values[place]
        case 1:
            values.append(values[place])
        case 2 if kind != "strings":
            extremes: tuple[Any, ...] = (np.nan, np.inf, -1e38, 1e-40, 0.0) if kind == "floats" else EXTREMES
            values[place] = _choose(extremes, random)
        case _:
            values[place] = _choose([*values], random)


def _lose_attribute(graph: onnx.GraphProto, random: Random) -> None:
    nodes = [node for node in graph.node if node.attribute]
    if nodes:
        node = _choose(nodes, random)
        del node.attribute[int(random.integers(len(node.attribute)))]


def _add_attribute(graph: onnx.GraphProto, random: Random) -> None:
    name = _choose(("axis", "axes", "group", "pads", "strides", "auto_pad", "to", "mode", "perm", "block_size"), random)
    attribute = _choose(graph.node, random).attribute.add()
    attribute.name = name
    if random.random() < 0.5:
        attribute.type, attribute.i = AttributeProto.INT, _extreme(random)
    else:
        attribute.type = AttributeProto.INTS
        attribute.ints.extend(_extreme(random) for _ in range(int(random.integers(0, 6))))


def _change_ends(graph: onnx.GraphProto, random: Random) -> None:
    ends = graph.input if random.random() < 0.5 else graph.output
    if len(ends) and random.random() < 0.5:
        del ends[int(random.integers(len(ends)))]
    elif len(ends):
        _choose(ends, random).name = _choose(("", "nowhere", graph.node[0].output[0] if graph.node else ""), random)


def _quantize(graph: onnx.GraphProto, random: Random) -> None:
    """A pair of quantization nodes with an axis, scale or zero point that may not fit."""
    if not graph.node or not graph.node[0].output:
        return
    inner = graph.node[0].output[0]
    scale = np.full(int(random.integers(1, 5)), _choose((0.0, -1.0, 0.1, np.nan), random), np.float32)
    zero = np.zeros(int(random.integers(1, 5)), _choose((np.int8, np.uint8, np.int32), random))
    graph.initializer.append(numpy_helper.from_array(scale, "fuzz_scale"))
    graph.initializer.append(numpy_helper.from_array(zero, "fuzz_zero"))
    operands = ["fuzz_scale", "fuzz_zero"]
    axis = _extreme(random)
    graph.node.append(onnx.helper.make_node("QuantizeLinear", [inner, *operands], ["fuzz_q"], axis=axis))
    graph.node.append(onnx.helper.make_node("DequantizeLinear", ["fuzz_q", *operands], ["fuzz_d"], axis=axis))
    for node in graph.node[1:-2]:
        for index, name in enumerate(node.input):
            if name == inner:
                node.input[index] = "fuzz_d"


ONNX_MUTATIONS = (
    _change_extent,
    _change_rank,
    _change_weight_shape,
    _change_weight_type,
    _change_weight_values,
    _lose_weight,
    _rewire,
    _rewire,
    _change_arity,
    _change_op,
    _lose_node,
    _repeat_node,
    _change_attribute,
    _change_attribute,
    _change_list,
    _change_list,
    _lose_attribute,
    _add_attribute,
    _change_ends,
    _quantize,
)


# Text


def mutate_text(content: bytes, random: Random) -> bytes:
    """A prototxt with other numbers, names or lines."""
    text = content.decode("utf-8")
    for _ in range(int(random.integers(1, 4))):
        text = _choose((_other_number, _other_word, _other_word, _other_line, _other_token), random)(text, random)
    return text.encode("utf-8", "replace")


def _replace_one(text: str, pattern: str, random: Random, make: Callable[[list[str]], str]) -> str:
    found = list(re.finditer(pattern, text))
    if not found:
        return text
    match = _choose(found, random)
    return text[: match.start()] + make([one.group() for one in found]) + text[match.end() :]


def _other_number(text: str, random: Random) -> str:
    return _replace_one(
        text, r"(?<=: )-?[\d.]+", random, lambda _: str(_choose((*EXTREMES, 0.5, "nan", "1e40"), random))
    )


def _other_word(text: str, random: Random) -> str:
    """The name of another blob, layer or type in place of one."""
    return _replace_one(text, r'"[^"]*"', random, lambda words: _choose([*words, '""', '"Reshape"', '"Slice"'], random))


def _other_line(text: str, random: Random) -> str:
    lines = text.splitlines() or [""]
    place = int(random.integers(len(lines)))
    match int(random.integers(3)):
        case 0:
            del lines[place]
        case 1:
            lines.insert(place, lines[int(random.integers(len(lines)))])
        case _:
            other = int(random.integers(len(lines)))
            lines[place], lines[other] = lines[other], lines[place]
    return "\n".join(lines)


def _other_token(text: str, random: Random) -> str:
    return _replace_one(text, r"[{}:]", random, lambda _: _choose(("", "{", "}", ":", "[", "<", "\x00"), random))


# Any network


def damaged(files: Files, seed: int) -> Files:
    """The files of a network with one of them damaged."""
    random = np.random.default_rng([20240607, seed])
    suffix = _choose([*files], random)
    content = files[suffix]
    from tests.fuzz.graphdef import mutate_graph

    texts = dict.fromkeys((".prototxt", ".pbtxt"), mutate_text)
    structured = {".onnx": mutate_onnx, ".pb": mutate_graph, **texts}.get(suffix)
    if structured is not None and random.random() < 0.7:
        return {**files, suffix: structured(content, random)}
    return {**files, suffix: _choose(BYTE_MUTATIONS, random)(content, random)}
