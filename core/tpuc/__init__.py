"""tpuc: a plugin-based compiler from trained networks to TPU files, with simulators.

    network = tpuc.load("net.onnx")
    quantized = network.quantize("images/")
    compiled = quantized.compile("CHIP")
    compiled.run(x); compiled.profile(); compiled.save("net.bin")

These names are loaded when they are used: importing `tpuc` imports nothing else.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from tpuc.diagnosis import doctor as doctor
    from tpuc.errors import TpucError as TpucError
    from tpuc.facade import CompiledNetwork as CompiledNetwork
    from tpuc.facade import Network as Network
    from tpuc.facade import Profile as Profile
    from tpuc.facade import QuantizedNetwork as QuantizedNetwork
    from tpuc.facade import Remark as Remark
    from tpuc.facade import load as load
    from tpuc.facade import load_compiled as load_compiled

    __version__: str

_PLACES = {
    "CompiledNetwork": "tpuc.facade",
    "Network": "tpuc.facade",
    "Profile": "tpuc.facade",
    "QuantizedNetwork": "tpuc.facade",
    "Remark": "tpuc.facade",
    "TpucError": "tpuc.errors",
    "doctor": "tpuc.diagnosis",
    "load": "tpuc.facade",
    "load_compiled": "tpuc.facade",
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
