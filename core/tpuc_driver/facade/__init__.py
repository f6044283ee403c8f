"""The Python interface: three classes of networks, each made from the one before.

`load` returns a `Network`, `Network.quantize` a `QuantizedNetwork`, and `compile` of either a `CompiledNetwork`.
`tpuc_driver.session` does the work.
"""

from __future__ import annotations

from tpuc_driver.facade.compiled import CompiledNetwork, load_compiled
from tpuc_driver.facade.network import Network, QuantizedNetwork, load
from tpuc_driver.facade.profile import Profile
from tpuc_driver.facade.remarks import Remark

__all__ = ["CompiledNetwork", "Network", "Profile", "QuantizedNetwork", "Remark", "load", "load_compiled"]
