"""tpuc: a plugin-based compiler from trained networks to TPU files, with simulators.

    network = tpuc.load("net.onnx")
    quantized = network.quantize("images/")
    compiled = quantized.compile("CHIP")
    compiled.run(x); compiled.profile(); compiled.save("net.bin")

These names are loaded when they are used: importing `tpuc` imports nothing else.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tpuc_driver.diagnosis import doctor as doctor
    from tpuc_driver.facade import CompiledNetwork as CompiledNetwork
    from tpuc_driver.facade import Network as Network
    from tpuc_driver.facade import Profile as Profile
    from tpuc_driver.facade import QuantizedNetwork as QuantizedNetwork
    from tpuc_driver.facade import Remark as Remark
    from tpuc_driver.facade import load as load
    from tpuc_driver.facade import load_compiled as load_compiled

    from tpuc.errors import TpucError as TpucError
    from tpuc.warned import TpucWarning as TpucWarning

    __version__: str

_PLACES = {
    "CompiledNetwork": "tpuc_driver.facade",
    "Network": "tpuc_driver.facade",
    "Profile": "tpuc_driver.facade",
    "QuantizedNetwork": "tpuc_driver.facade",
    "Remark": "tpuc_driver.facade",
    "TpucError": "tpuc.errors",
    "TpucWarning": "tpuc.warned",
    "doctor": "tpuc_driver.diagnosis",
    "load": "tpuc_driver.facade",
    "load_compiled": "tpuc_driver.facade",
}


def __getattr__(name: str) -> object:
    import importlib

    if name == "__version__":
        return importlib.import_module("tpuc.version").installed_version()
    if name not in _PLACES:
        raise AttributeError(f"module 'tpuc' has no attribute '{name}'")
    return getattr(importlib.import_module(_PLACES[name]), name)


def __dir__() -> list[str]:
    return sorted([*globals(), *_PLACES, "__version__"])


def old_name(module: str, name: str) -> object:
    """What a module that is still there had under a name that has moved; raises AttributeError for any other name."""
    from tpuc_driver.moved import moved_name

    return moved_name(module, name)


class _OldNames:
    """Meta path finder that resolves the old names of modules that have moved; consulted last."""

    @staticmethod
    def find_spec(name: str, *_: object) -> object:
        """The spec of a moved module, None for any other name."""
        if not name.startswith("tpuc"):
            return None
        from tpuc_driver.moved import spec_of

        return spec_of(name)


sys.meta_path.append(_OldNames)  # pyright: ignore[reportArgumentType]  # any object with `find_spec` is a finder
