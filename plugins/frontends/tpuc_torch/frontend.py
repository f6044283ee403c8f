"""Import exported programs and modules; PyTorch itself handles everything about PyTorch."""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import pickle
import tempfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tpuc.api import Frontend, ImportOptions, InvalidModel, Module, Unsupported, install_command

from tpuc_torch.fakes import normalize

OPSET = 18
"""The oldest opset that torch's exporter writes without converting the network afterwards."""

LOADING_ERRORS = (
    *(AttributeError, ImportError, LookupError, OSError, RuntimeError, TypeError, ValueError),
    *(zipfile.BadZipFile, pickle.UnpicklingError),
)
"""Exceptions that torch raises for damaged files and files that are not exported programs."""


class TorchFrontend(Frontend):
    """Reads `.pt2` files, as written by `torch.export.save`."""

    name = "torch"
    suffixes = (".pt2",)
    others = dict.fromkeys(
        (".pt", ".pth", ".ckpt", ".jit", ".torchscript"),
        "files of PyTorch with this suffix contain weights, Python objects, or TorchScript; write a program with "
        "torch.export.save(torch.export.export(model.eval(), (example,)), 'net.pt2'), or an ONNX file with "
        "torch.onnx.export",
    )
    specializes_by = frozenset({"input_names", "dims", "fixed_inputs"})

    def read(self, path: Path, options: ImportOptions, registry: Any) -> Module:
        """Return a TOP module with weights. Raises InvalidModel or Unsupported."""
        torch = _torch(str(path))
        if not path.is_file():
            raise InvalidModel(f"{path}: there is no such file. Check the path.")
        if not zipfile.is_zipfile(path):  # torch would log pages before it says so
            raise InvalidModel(f"{path}: not an exported program. Write one with torch.export.save.")
        try:
            program = torch.export.load(path)
        except LOADING_ERRORS as error:
            raise InvalidModel(
                f"{path}: not an exported program, or one of another torch ({_first_line(error)}). Write it again with "
                "torch.export.save."
            ) from error
        return _through_onnx(torch, str(path), options, registry, program)


def read_module(
    module: Any, arguments: Sequence[Any], registry: Any, options: ImportOptions | None = None, name: str = "network"
) -> Module:
    """Return the TOP module of a `torch.nn.Module`, traced with example arguments."""
    torch = _torch(name)
    chosen = options or ImportOptions(name)
    return _through_onnx(torch, name, chosen, registry, module.eval(), tuple(arguments))


def _through_onnx(torch: Any, source: str, options: ImportOptions, registry: Any, *arguments: Any) -> Module:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "network.onnx"
        try:
            exported = _exported(torch, *arguments)
            normalize(torch, exported)
            program = torch.onnx.export(exported, dynamo=True, opset_version=OPSET, verbose=False)
            program.save(path)
        except ImportError as error:
            raise Unsupported(
                f"{source}: torch's ONNX exporter lacks a package ({_first_line(error)}). Install it: "
                f"{install_command('torch')}"
            ) from error
        except (RuntimeError, TypeError, ValueError) as error:
            raise Unsupported(
                f"{source}: torch cannot export it to ONNX: {_first_line(error)}. Change the network, or export it to "
                "ONNX in another way."
            ) from error
        frontend: Frontend = registry.get("tpuc.frontends", "onnx")
        named = dataclasses.replace(options, model_name=options.model_name or Path(source).stem)
        try:
            return frontend.read(path, named, registry)
        except (InvalidModel, Unsupported) as error:
            raise type(error)(str(error).replace(str(path), source)) from error


def _exported(torch: Any, module: Any, arguments: tuple[Any, ...] | None = None) -> Any:
    """Return the exported program; a module is exported first."""
    if arguments is None:
        return module
    with torch.no_grad():
        return torch.export.export(module, arguments)


def _torch(source: str) -> Any:
    try:
        torch = importlib.import_module("torch")
    except ImportError:
        raise Unsupported(
            f"{source}: networks of PyTorch are exported by torch, which is not installed: {install_command('torch')}, "
            "or export the network to ONNX elsewhere"
        ) from None
    with contextlib.suppress(ImportError):  # it registers the ops that PT2E quantization writes
        importlib.import_module("torch.ao.quantization.fx._decomposed")
    return torch


def _first_line(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return (lines[0] if lines else type(error).__name__).rstrip(".")


FRONTEND = TorchFrontend()
