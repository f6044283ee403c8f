"""The network in plain Python: layers in one form, whatever version of the format the file has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, MutableSequence, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeAlias, cast

from google.protobuf.descriptor import FieldDescriptor
from tpuc.api import InvalidModel

from tpuc_caffe.schema import PARAMETERS

Parameters: TypeAlias = Mapping[str, Any]
Shape: TypeAlias = tuple[int, ...]


@dataclass(frozen=True)
class Layer:
    """A layer; `parameters` holds the fields of each group (`convolution_param`) by the group's name."""

    type: str
    name: str
    bottoms: tuple[str, ...]
    tops: tuple[str, ...]
    parameters: Mapping[str, Parameters] = field(default_factory=dict[str, Parameters])


@dataclass(frozen=True)
class Network:
    """`inputs` declared outside of layers, with their shapes if stated; the layers in order."""

    source: str
    name: str
    inputs: tuple[tuple[str, Shape | None], ...]
    layers: tuple[Layer, ...]


def read_network(net: Any, path: Path) -> Network:
    """Return the network of the test phase; raises InvalidModel if the file contradicts itself."""
    source = str(path)
    if net.layer and net.layers:
        raise InvalidModel(f"{source}: mixes `layer` and `layers`, which are two versions of the format. Use one.")
    layers = [_modern(message) for message in net.layer if _runs(message)]
    layers += [_from_v1(message) for message in net.layers if _runs(message)]
    return Network(source, net.name, tuple(_inputs(net, source)), tuple(_without_padding(layers, source)))


def _inputs(net: Any, source: str) -> Iterator[tuple[str, Shape | None]]:
    """Yield the inputs of old files: names, with four extents or a shape each."""
    shapes: list[Shape | None] = [tuple(shape.dim) for shape in net.input_shape]
    dims = list(net.input_dim)
    if dims and shapes:
        raise InvalidModel(f"{source}: states both input_dim and input_shape. Leave one of them out.")
    if len(dims) % 4:
        raise InvalidModel(f"{source}: has {len(dims)} input_dim, and every input needs four. Complete them.")
    shapes = shapes or [tuple(dims[start : start + 4]) for start in range(0, len(dims), 4)]
    if shapes and len(shapes) != len(net.input):
        raise InvalidModel(f"{source}: has {len(net.input)} inputs and {len(shapes)} shapes for them. Complete them.")
    yield from zip(net.input, shapes or [None] * len(net.input), strict=True)


# Which layers run


def _runs(message: Any) -> bool:
    """True if the file's rules include the layer in phase TEST at level 0 without stages."""
    if message.include:
        return any(_meets(rule) for rule in message.include)
    return not any(_meets(rule) for rule in message.exclude)


def _meets(rule: Any) -> bool:
    phase = rule.DESCRIPTOR.fields_by_name["phase"].enum_type.values_by_number[rule.phase].name
    if rule.HasField("phase") and phase != "TEST":
        return False
    if (rule.HasField("min_level") and rule.min_level > 0) or (rule.HasField("max_level") and rule.max_level < 0):
        return False
    return not rule.stage


# Versions


def _modern(message: Any) -> Layer:
    return Layer(message.type, message.name, tuple(message.bottom), tuple(message.top), _parameters(message))


def _parameters(message: Any) -> Mapping[str, Parameters]:
    return {group: _plain(getattr(message, group)) for group in PARAMETERS if message.HasField(group)}


def _plain(message: Any) -> Parameters:
    """Convert a message to Python values: repeated fields become tuples, enumerations their names."""
    found: dict[str, Any] = {}
    for field_, value in message.ListFields():
        if isinstance(value, MutableSequence):
            items = cast("MutableSequence[Any]", value)
            found[field_.name] = tuple(_plain_value(field_, item) for item in items)
        else:
            found[field_.name] = _plain_value(field_, value)
    return found


def _plain_value(field_: Any, value: Any) -> Any:
    if field_.type == FieldDescriptor.TYPE_MESSAGE:
        return _plain(value)
    return field_.enum_type.values_by_number[value].name if field_.type == FieldDescriptor.TYPE_ENUM else value


V1_TYPES = {
    "ABSVAL": "AbsVal",
    "ARGMAX": "ArgMax",
    "BNLL": "BNLL",
    "CONTRASTIVE_LOSS": "ContrastiveLoss",
    "DUMMY_DATA": "DummyData",
    "ELTWISE": "Eltwise",
    "EUCLIDEAN_LOSS": "EuclideanLoss",
    "HDF5_DATA": "HDF5Data",
    "HDF5_OUTPUT": "HDF5Output",
    "HINGE_LOSS": "HingeLoss",
    "IM2COL": "Im2col",
    "IMAGE_DATA": "ImageData",
    "INFOGAIN_LOSS": "InfogainLoss",
    "INNER_PRODUCT": "InnerProduct",
    "LRN": "LRN",
    "MEMORY_DATA": "MemoryData",
    "MULTINOMIAL_LOGISTIC_LOSS": "MultinomialLogisticLoss",
    "MVN": "MVN",
    "RELU": "ReLU",
    "SIGMOID_CROSS_ENTROPY_LOSS": "SigmoidCrossEntropyLoss",
    "SOFTMAX_LOSS": "SoftmaxWithLoss",
    "TANH": "TanH",
    "WINDOW_DATA": "WindowData",
}
"""Layer types whose name is not the old one capitalized (`CONVOLUTION`, `Convolution`)."""


def _from_v1(message: Any) -> Layer:
    if message.HasField("layer"):
        return _from_v0(message)
    number = message.DESCRIPTOR.fields_by_name["type"].enum_type.values_by_number
    old: str = number[message.type].name
    type = V1_TYPES.get(old, old.capitalize())
    return Layer(type, message.name, tuple(message.bottom), tuple(message.top), _parameters(message))


V0_TYPES = {
    "bnll": "BNLL",
    "conv": "Convolution",
    "data": "Data",
    "hdf5_data": "HDF5Data",
    "hdf5_output": "HDF5Output",
    "images": "ImageData",
    "im2col": "Im2col",
    "innerproduct": "InnerProduct",
    "lrn": "LRN",
    "pool": "Pooling",
    "relu": "ReLU",
    "softmax_loss": "SoftmaxWithLoss",
    "tanh": "TanH",
    "window_data": "WindowData",
}

V0_FIELDS: Mapping[str, tuple[str, Mapping[str, str]]] = {
    "conv": (
        "convolution_param",
        {
            "num_output": "num_output",
            "biasterm": "bias_term",
            "pad": "pad",
            "kernelsize": "kernel_size",
            "group": "group",
            "stride": "stride",
            "weight_filler": "weight_filler",
            "bias_filler": "bias_filler",
        },
    ),
    "innerproduct": (
        "inner_product_param",
        {
            "num_output": "num_output",
            "biasterm": "bias_term",
            "weight_filler": "weight_filler",
            "bias_filler": "bias_filler",
        },
    ),
    "pool": ("pooling_param", {"pool": "pool", "pad": "pad", "kernelsize": "kernel_size", "stride": "stride"}),
    "lrn": ("lrn_param", {"local_size": "local_size", "alpha": "alpha", "beta": "beta", "k": "k"}),
    "dropout": ("dropout_param", {"dropout_ratio": "dropout_ratio"}),
    "concat": ("concat_param", {"concat_dim": "concat_dim"}),
    "padding": ("padding_param", {"pad": "pad"}),
}
LISTS = frozenset({"pad", "kernel_size", "stride"})
V0_PADDING = "padding"


def _from_v0(message: Any) -> Layer:
    stated = _plain(message.layer)
    old: str = stated.get("type", "")
    group, renamed = V0_FIELDS.get(old, ("", {}))
    values = {new: stated[name] for name, new in renamed.items() if name in stated}
    parameters = {name: (value,) if name in LISTS else value for name, value in values.items()}
    type = V0_PADDING if old == V0_PADDING else V0_TYPES.get(old, old.capitalize())
    name = stated.get("name", "")
    return Layer(type, name, tuple(message.bottom), tuple(message.top), {group: parameters} if group else {})


def _without_padding(layers: Sequence[Layer], source: str) -> Iterator[Layer]:
    """Merge padding layers, which only the oldest files have, into the layers that read them."""
    padding: dict[str, Layer] = {}
    for layer in layers:
        if layer.type == V0_PADDING and len(layer.bottoms) == len(layer.tops) == 1:
            padding[layer.tops[0]] = layer
            continue
        before = [padding[name] for name in layer.bottoms if name in padding]
        group = {"Convolution": "convolution_param", "Pooling": "pooling_param"}.get(layer.type, "")
        if before and (len(layer.bottoms) > 1 or not group):
            raise InvalidModel(
                f"{source}: layer '{layer.name}' ({layer.type}) reads the padding layer '{before[0].name}'; only "
                "convolution and pooling can. Put the padding into the layer that needs it."
            )
        for one in before:
            pad = one.parameters["padding_param"].get("pad", (0,))
            own = {**layer.parameters.get(group, {}), "pad": pad}
            layer = replace(layer, bottoms=one.bottoms, parameters={**layer.parameters, group: own})
        yield layer
