"""Memory pools of users: workspaces and parameters, their sizes, and access by target."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tpuc.api import PoolInfo, UsageError

WORKSPACE, PARAMETER = "workspace", "parameter"
_ACCESS = {"rw": "rw", "ro": "ro", "r": "ro"}
_SIZE = re.compile(r"(\d+)\s*([kKmMgG]?)(i?[bB])?")
_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30}
_NAME = re.compile(r"[A-Za-z_]\w*")


@dataclass(frozen=True)
class Pools:
    """The pools of a compilation, each kind in order of preference; if empty, there is one unlimited pool of each
    kind.
    """

    workspace: tuple[PoolInfo, ...] = ()
    parameter: tuple[PoolInfo, ...] = ()

    def candidates(self, kind: str, targets: Sequence[str], removed: Sequence[str] = ()) -> tuple[str, ...]:
        """Return the names of the pools that all `targets` may use, in order, without those in `removed`."""
        pools = self.workspace if kind == WORKSPACE else self.parameter
        return tuple(
            pool.name
            for pool in pools
            if pool.name not in removed and all(allows(pool, target, kind) for target in targets)
        )


def allows(pool: PoolInfo, target: str, kind: str) -> bool:
    """True if code for `target` may use a pool for this kind of buffer: workspaces are written, parameters only
    read.
    """
    if pool.target_access is None:
        return True
    access = pool.target_access.get(target)
    return access is not None and (kind == PARAMETER or access == "rw")


def read_pools(options: Mapping[str, str], targets: Sequence[str]) -> Pools:
    """Parse pools from options spelled as in TVM's USMP: `usmp-workspace-pools`, `usmp-workspace-pool-NAME`, and the
    same with `parameter`. Raises UsageError for invalid or contradictory options.
    """
    kinds = {kind: _names(options, kind) for kind in (WORKSPACE, PARAMETER)}
    for name in kinds[WORKSPACE]:
        if name in kinds[PARAMETER]:
            raise UsageError(
                f"pool '{name}' is both a workspace and a parameter pool; give the two parts different names."
            )
    for key in options:
        for kind, names in kinds.items():
            prefix = f"usmp-{kind}-pool-"
            if key.startswith(prefix) and key.removeprefix(prefix) not in names:
                name = key.removeprefix(prefix)
                raise UsageError(
                    f"--{key} describes a pool that --usmp-{kind}-pools does not name; add '{name}' to that list."
                )
    pools = {
        kind: tuple(_pool(name, options.get(f"usmp-{kind}-pool-{name}", ""), kind, targets) for name in names)
        for kind, names in kinds.items()
    }
    return Pools(pools[WORKSPACE], pools[PARAMETER])


def _names(options: Mapping[str, str], kind: str) -> tuple[str, ...]:
    text = options.get(f"usmp-{kind}-pools", "")
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    for name in names:
        if not _NAME.fullmatch(name):
            raise UsageError(f"--usmp-{kind}-pools: '{name}' is not a valid name; use letters, digits and underscores.")
        if names.count(name) > 1:
            raise UsageError(f"--usmp-{kind}-pools names '{name}' twice; keep one.")
    return names


def _pool(name: str, text: str, kind: str, targets: Sequence[str]) -> PoolInfo:
    option = f"--usmp-{kind}-pool-{name}"
    values = _settings(option, text)
    access: dict[str, str] | None = None
    for item in values.pop("target", []):
        target, _, mode = item.partition(":")
        if target not in targets:
            raise UsageError(f"{option}: there is no target '{target}'; --target names {', '.join(targets) or 'none'}.")
        mode = mode or ("rw" if kind == WORKSPACE else "ro")
        if mode not in _ACCESS:
            raise UsageError(f"{option}: access of '{target}' is rw or ro, not '{mode}'.")
        access = access or {}
        if access.get(target, _ACCESS[mode]) != _ACCESS[mode]:
            raise UsageError(f"{option}: target '{target}' has both rw and ro access; keep one.")
        access[target] = _ACCESS[mode]
    if access is not None and kind == WORKSPACE and "rw" not in access.values():
        raise UsageError(
            f"{option}: no target may write to it, so it cannot hold a workspace; give one target rw access."
        )
    section = ",".join(values.pop("section", [])) or None
    numbers = {key: _number(option, key, items) for key, items in values.items()}
    alignment = numbers.get("alignment", 1)
    if alignment < 1:
        raise UsageError(f"{option}: alignment is at least 1, not {alignment}.")
    return PoolInfo(name, numbers.get("size"), alignment, numbers.get("offset", 0), access, section)


def _settings(option: str, text: str) -> dict[str, list[str]]:
    """Split `key=value` parts at `;` or `,`; a part without a key is another value of the key before it."""
    values: dict[str, list[str]] = {}
    key = ""
    for part in re.split(r"[;,]", text.strip().strip("\"'")):
        part = part.strip()
        if not part:
            continue
        name, equals, value = part.partition("=")
        if equals:
            key = name.strip()
            if key not in ("target", "size", "alignment", "offset", "section"):
                raise UsageError(f"{option}: there is no '{key}'; a pool has target, size, alignment, offset, section.")
            if key in values and key != "target":
                raise UsageError(f"{option} gives {key} twice; keep one.")
            part = value.strip()
        elif not key:
            raise UsageError(f"{option}: '{part}' has no key; write target={part} or size={part}.")
        values.setdefault(key, []).append(part)
    return values


def _number(option: str, key: str, items: Sequence[str]) -> int:
    match = _SIZE.fullmatch(items[0]) if len(items) == 1 else None
    if match is None:
        raise UsageError(f"{option}: {key} is a number of bytes such as 4096 or 64k, not '{','.join(items)}'.")
    return int(match[1]) * _UNITS[match[2].lower()]
