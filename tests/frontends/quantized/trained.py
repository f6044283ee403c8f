"""A small network that was trained with fake quantization, in the forms that tools write such networks in."""

from __future__ import annotations

import copy
import importlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import torch
from numpy.typing import NDArray
from onnx import helper, numpy_helper
from torch import nn
from torch.nn import functional

from tests.frontends.onnx.networks import network, node

Array = NDArray[Any]

importlib.import_module("torch.ao.quantization.fx._decomposed")  # it registers the ops
_ATEN: Any = torch.ops.aten
_OPS: Any = torch.ops.quantized_decomposed

SHAPE = (1, 1, 12, 12)
CLASSES = 4
LOW, HIGH = -128, 127
PRODUCTS = {"r1": "c1", "r2": "c2", "y": "fc"}
"""Layers by the tensors of the float network that they give."""
POINTS = ("x", "r1", "r2", "s", "p", "y")
"""The tensors that are quantized."""

_REMARK = "Automatically generated, do not modify, work_mode choice:[QAT_all_int8, int4_and_int8_mix]"


def images(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Noise over one pattern for each class, and the classes."""
    rng = np.random.default_rng(seed)
    patterns = np.random.default_rng(0).normal(0, 1, (CLASSES, 1, 4, 4)).repeat(3, 2).repeat(3, 3)
    labels = rng.integers(0, CLASSES, count)
    noise = rng.normal(0, 1, (count, *SHAPE[1:]))
    return torch.from_numpy((patterns[labels] + noise).astype(np.float32)), torch.from_numpy(labels)


class Network(nn.Module):
    """Convolutions with relu, one of them by channel, a sum, a pool and a product; the steps are learned."""

    def __init__(self) -> None:
        super().__init__()
        self.c1 = nn.Conv2d(1, 8, 3, stride=1, padding=1)
        self.c2 = nn.Conv2d(8, 8, 3, padding=1, groups=8)
        self.fc = nn.Linear(8 * 36, CLASSES)
        layers = {name: self.layer(name).weight for name in PRODUCTS.values()}
        self.of_weights = nn.ParameterDict(
            {name: nn.Parameter(weight.detach().flatten(1).abs().amax(1) / 100) for name, weight in layers.items()}
        )
        self.of_values = nn.ParameterDict({name: nn.Parameter(torch.tensor([0.05])) for name in POINTS})
        self.register_buffer("zero", torch.zeros(1, dtype=torch.int32))
        self.register_buffer("real_zero", torch.zeros(1))
        self.learns = True

    zero: torch.Tensor
    real_zero: torch.Tensor

    def layer(self, name: str) -> Any:
        return getattr(self, name)

    def step(self, name: str) -> torch.Tensor:
        return self.of_values[name].detach()

    def weight(self, name: str) -> torch.Tensor:
        """The weight of a layer, rounded to the steps of its channels."""
        weight, steps = self.layer(name).weight, self.of_weights[name]
        if self.learns:
            points = torch.zeros_like(steps)
            return _ATEN._fake_quantize_learnable_per_channel_affine(weight, steps, points, 0, LOW, HIGH, 1.0)
        points = torch.zeros(len(steps), dtype=torch.int32)
        return torch.fake_quantize_per_channel_affine(weight, steps.detach(), points, 0, LOW, HIGH)

    def rounded(self, x: torch.Tensor, name: str) -> torch.Tensor:
        """A value, rounded to its step."""
        if self.learns:
            return _ATEN._fake_quantize_learnable_per_tensor_affine(
                x, self.of_values[name], self.real_zero, LOW, HIGH, 0.01
            )
        return torch.fake_quantize_per_tensor_affine(x, self.step(name), self.zero, LOW, HIGH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.rounded(x, "x")
        one = functional.relu(functional.conv2d(x, self.weight("c1"), self.c1.bias, padding=1))
        one = self.rounded(one, "r1")
        two = functional.relu(functional.conv2d(one, self.weight("c2"), self.c2.bias, padding=1, groups=8))
        both = self.rounded(one + self.rounded(two, "r2"), "s")
        small = self.rounded(functional.max_pool2d(both, 2), "p")
        return self.rounded(functional.linear(small.flatten(1), self.weight("fc"), self.fc.bias), "y")


def trained() -> Network:
    """After some steps of training: the accuracy is good and no weight's step is that of its greatest value."""
    torch.manual_seed(0)
    model = Network()
    steps = [*model.of_weights.values(), *model.of_values.values()]
    layers = [parameter for layer in (model.c1, model.c2, model.fc) for parameter in layer.parameters()]
    optimizer = torch.optim.Adam([{"params": layers}, {"params": steps, "lr": 1e-4}], lr=5e-3)
    for count in range(25):
        x, labels = images(32, 100 + count)
        loss = functional.cross_entropy(model(x), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        with torch.no_grad():
            for step in steps:
                step.clamp_(min=1e-4)
    # A max pool gives the numbers that it reads.
    model.of_values["p"].data.copy_(model.of_values["s"].data)
    model.learns = False
    return model.eval().requires_grad_(requires_grad=False)


def logits(model: Network, x: Array) -> Array:
    """The evaluation of training."""
    return model(torch.from_numpy(x)).numpy()


def samples(count: int) -> list[Array]:
    """Images that training did not see."""
    x, _ = images(count, 7)
    return [x[index : index + 1].numpy() for index in range(count)]


def float_network(model: Network) -> onnx.ModelProto:
    """The network without its roundings, as tools for training export it beside a table."""
    nodes = [
        node("Conv", "x w_c1 b_c1", "c1", kernel_shape=[3, 3], pads=[1, 1, 1, 1]),
        node("Relu", "c1", "r1"),
        node("Conv", "r1 w_c2 b_c2", "c2", kernel_shape=[3, 3], pads=[1, 1, 1, 1], group=8),
        node("Relu", "c2", "r2"),
        node("Add", "r1 r2", "s"),
        node("MaxPool", "s", "p", kernel_shape=[2, 2], strides=[2, 2]),
        node("Flatten", "p", "f"),
        node("Gemm", "f w_fc b_fc", "y", transB=1),
    ]
    return network(nodes, {"x": SHAPE}, ["y"], _weights(model))


def _weights(model: Network) -> dict[str, Array]:
    found: dict[str, Array] = {}
    for name in PRODUCTS.values():
        layer = model.layer(name)
        found |= {f"w_{name}": layer.weight.numpy(), f"b_{name}": layer.bias.numpy()}
    return found


def table(model: Network) -> str:
    """The table that the tool writes beside the float network."""
    kinds = {"x": "x", "r1": "r1_Relu", "r2": "r2_Relu", "s": "s_Add", "p": "p_MaxPool", "y": "y_Gemm"}
    lines = [f"# work_mode:QAT_all_int8 #{_REMARK}", "# op_name    threshold    min    max"]
    for name, row in kinds.items():
        step = float(model.step(name))
        lines.append(f"{row} {step * -LOW:.7f} {step * LOW:.7f} {step * HIGH:.7f}")
    lines += ["#int4_th", "#weight_scale"]
    for name, layer in PRODUCTS.items():
        steps = [f"{float(step):.7f}" for step in model.of_weights[layer]]
        lines.append(f"{kinds[name]}_weight {len(steps)} {' '.join(steps)} {len(steps)} {' '.join('0' * len(steps))}")
    return "\n".join(lines) + "\n"


def with_casts(model: Network) -> onnx.ModelProto:
    """The network with QuantizeLinear and DequantizeLinear, weights as floats."""
    source = float_network(model)
    graph = source.graph
    constants = {name: np.array(float(model.step(name)), np.float32) for name in POINTS}
    constants |= {f"w_{name}": model.of_weights[name].numpy() for name in PRODUCTS.values()}
    nodes: list[onnx.NodeProto] = []

    def cast(name: str, to: str) -> None:
        scale, point = f"{name}_scale", f"{name}_point"
        array = constants[name]
        graph.initializer.append(numpy_helper.from_array(array, scale))
        graph.initializer.append(numpy_helper.from_array(np.zeros(array.shape, np.int8), point))
        nodes.append(helper.make_node("QuantizeLinear", [name, scale, point], [f"{name}_q"], axis=0))
        nodes.append(helper.make_node("DequantizeLinear", [f"{name}_q", scale, point], [to], axis=0))

    for name in ("x", *(f"w_{layer}" for layer in PRODUCTS.values())):
        cast(name, f"{name}_dq")
    for old in graph.node:
        new = copy.deepcopy(old)
        new.input[:] = [f"{name}_dq" if name in constants else name for name in old.input]
        if old.output[0] == "y":
            new.output[0] = "y_real"
            constants["y_real"] = constants["y"]
            nodes.append(new)
            cast("y_real", "y")
            continue
        nodes.append(new)
        if old.output[0] in constants:
            cast(old.output[0], f"{old.output[0]}_dq")
    del graph.node[:]
    graph.node.extend(nodes)
    return source


@dataclass(frozen=True)
class Agreement:
    """How results agree with the evaluation of training: greatest difference in steps of the output, equal labels."""

    steps: float
    labels: int


def agreement(model: Network, got: list[Array], inputs: list[Array]) -> Agreement:
    """Of results for some inputs."""
    wanted = np.concatenate([logits(model, x) for x in inputs])
    found = np.concatenate([np.asarray(one).reshape(1, -1) for one in got])
    steps = np.abs(found - wanted).max() / float(model.step("y"))
    return Agreement(float(steps), int((found.argmax(1) == wanted.argmax(1)).sum()))


def save_table(model: Network, folder: Path) -> tuple[Path, Path]:
    """The float network and its table, in files."""
    onnx.save(float_network(model), folder / "net.onnx")
    (folder / "net_cali_table").write_text(table(model))
    return folder / "net.onnx", folder / "net_cali_table"


def save_program(model: Network, form: str, folder: Path) -> Path:
    """The network as PyTorch saves it: with fake quantization as in training or in evaluation, or with integers as PT2E
    quantization leaves them.
    """
    module: nn.Module = Converted(model) if form == "PT2E" else copy.deepcopy(model)
    if isinstance(module, Network):
        module.learns = form.startswith("learnable")
    path = folder / f"{form.replace(' ', '_')}.pt2"
    torch.export.save(torch.export.export(module.eval(), (torch.zeros(SHAPE),)), path)
    return path


class Converted(nn.Module):
    """The network with stored integers of weights, and a cast to integers and back for each value."""

    def __init__(self, model: Network) -> None:
        super().__init__()
        self.steps = {name: float(model.step(name)) for name in POINTS}
        self.biases = nn.ParameterDict({name: model.layer(name).bias for name in PRODUCTS.values()})
        for name, steps in model.of_weights.items():
            points = torch.zeros(len(steps), dtype=torch.int64)
            said = (steps, points, 0, LOW, HIGH, torch.int8)
            self.register_buffer(f"w_{name}", _OPS.quantize_per_channel(model.layer(name).weight, *said))
            self.register_buffer(f"scale_{name}", steps.double())
            self.register_buffer(f"point_{name}", points)

    def weight(self, name: str) -> torch.Tensor:
        stored = [self.get_buffer(f"{part}_{name}") for part in ("w", "scale", "point")]
        return _OPS.dequantize_per_channel(*stored, 0, LOW, HIGH, torch.int8)

    def rounded(self, x: torch.Tensor, name: str) -> torch.Tensor:
        said = (self.steps[name], 0, LOW, HIGH, torch.int8)
        return _OPS.dequantize_per_tensor(_OPS.quantize_per_tensor(x, *said), *said)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.rounded(x, "x")
        one = self.rounded(functional.relu(functional.conv2d(x, self.weight("c1"), self.biases["c1"], padding=1)), "r1")
        two = functional.relu(functional.conv2d(one, self.weight("c2"), self.biases["c2"], padding=1, groups=8))
        both = self.rounded(one + self.rounded(two, "r2"), "s")
        small = self.rounded(functional.max_pool2d(both, 2), "p")
        return self.rounded(functional.linear(small.flatten(1), self.weight("fc"), self.biases["fc"]), "y")
