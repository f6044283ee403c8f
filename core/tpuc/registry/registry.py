"""The registry: look up plugin objects by name, loaded on first use."""

from __future__ import annotations

import contextlib
import functools
import warnings
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tpuc.errors import PluginError, UsageError
from tpuc.registry.groups import API_VERSION, GROUPS, Group, added_group, shown
from tpuc.registry.offers import Offer, installed_offers, normalize, scan_installed
from tpuc.registry.tables import Cell, MergedTable, TableName, conflict, ranked
from tpuc.spelling import american
from tpuc.warned import LeftOut

if TYPE_CHECKING:
    from pluggy import PluginManager

    from tpuc.api.chip import ChipDescription
    from tpuc.ir import Op

ANY_CHIP = "any"
"""The owner of tables whose legalizations apply to every chip."""


@dataclass(frozen=True)
class Row:
    """One row of a listing.

    `state` is `available`, `conflict` (use needs --prefer), `preferred` or `overridden` (by --prefer), `enabled` or
    `not enabled` (active with --with only), `misnamed` (a table whose name has no dialect).
    """

    group: str
    name: str
    package: str
    version: str
    path: str
    state: str


class Registry:
    """Plugins by group and name.

    `prefer`: packages that win where several offer the same name, best first. `enabled`: packages whose hook plugins,
    or tables for other packages' chips and dialects, are active. `offers` replaces the installed packages in tests.
    """

    def __init__(
        self, prefer: Sequence[str] = (), enabled: Sequence[str] = (), offers: Sequence[Offer] | None = None
    ) -> None:
        self.prefer = tuple(prefer)
        self.enabled = tuple(enabled)
        self._given = offers
        self._objects: dict[Offer, Any] = {}
        self._broken: dict[Offer, PluginError] = {}
        self._merged: dict[tuple[str, str, str], MergedTable] = {}

    def __reduce__(self) -> tuple[type[Registry], tuple[Any, ...]]:
        """Pickle the choices only; the other process has the same packages."""
        return Registry, (self.prefer, self.enabled)

    @functools.cached_property
    def offers(self) -> Sequence[Offer]:
        """All entry points, sorted."""
        if self._given is not None:
            return tuple(self._given)
        for sentence in self.unreadable:
            remark_left_out(sentence)
        return installed_offers()

    @property
    def unreadable(self) -> Sequence[str]:
        """A sentence for each installed package with unreadable metadata."""
        return scan_installed().unreadable if self._given is None else ()

    @functools.cached_property
    def _by_name(self) -> dict[tuple[str, str], list[Offer]]:
        result: dict[tuple[str, str], list[Offer]] = {}
        for offer in self.offers:
            result.setdefault((offer.group, offer.name), []).append(offer)
        own = [offer for offer in scan_installed().offers if offer.group == "tpuc.groups" and offer.is_ours]
        return result | {(offer.group, offer.name): [offer] for offer in own}  # whatever else is installed, or given

    def check_choices(self) -> None:
        """Raise UsageError when --prefer or --with names nothing that is installed."""
        packages = sorted({offer.package for offer in self.offers})
        for name in self.prefer:
            if normalize(name) not in map(normalize, packages):
                raise unknown("plugin package", name, packages)
        for name in self.enabled:
            if not any(offer.answers_to(name) for offer in self.offers):
                optional = [offer for group in self.groups for offer in self._in(group) if not self._takes_part(offer)]
                raise unknown("plugin", name, sorted({offer.name for offer in optional} | set(packages)))

    # Names

    @functools.cached_property
    def groups(self) -> Sequence[str]:
        """The groups of the compiler and of packages. Imports nothing."""
        added = sorted({name for group, name in self._by_name if group == "tpuc.groups"} - set(GROUPS))
        return (*GROUPS, *added)

    def group(self, name: str) -> Group:
        """The definition of a group. Imports nothing, except a `Group` that an entry names in capitals."""
        own = GROUPS.get(name)
        if own is not None:
            return own
        offer = ranked(self._by_name["tpuc.groups", name], self.prefer)[0]
        stated: Any = None
        if offer.path.rpartition(":")[2].isupper():
            with contextlib.suppress(PluginError):  # whoever uses a name of the group hears of it
                stated = self._load(offer)
        return stated if isinstance(stated, Group) else added_group(name, offer.path)

    def names(self, group: str) -> list[str]:
        """Every name in a group, sorted. Imports nothing."""
        return sorted({offer.name for offer in self._in(group)})

    def has(self, group: str, name: str) -> bool:
        """True if the name exists. Imports nothing."""
        return (group, name) in self._by_name

    def offer(self, group: str, name: str) -> Offer:
        """The offer for a name, or for its lower-case form.

        Raises UsageError when there is none, PluginConflict when there are several.
        """
        spellings = (name, name.lower(), american(name))
        offers = next(filter(None, (self._by_name.get((group, one)) for one in spellings)), ())
        if not offers:
            raise unknown(self.group(group).kind, name, self.names(group))
        chosen = ranked(offers, self.prefer)
        if len(chosen) > 1:
            raise conflict(f"{self.group(group).kind} '{name}'", chosen)
        return chosen[0]

    def get(self, group: str, name: str) -> Any:
        """The object for a name; raises PluginError with package, version and cause when it cannot be used."""
        return self._load(self.offer(group, name))

    def usable(self, group: str, failed: list[PluginError] | None = None) -> Iterator[tuple[str, Any]]:
        """Names and objects of a group, for searching. Unusable ones are skipped with a remark each, unless `failed`
        collects the errors.
        """
        for name in self.names(group):
            try:
                yield name, self.get(group, name)
            except PluginError as error:
                self.leave_out(error, failed)

    def leave_out(self, error: PluginError, failed: list[PluginError] | None = None) -> None:
        """Skip an unusable plugin that was not requested by name."""
        if failed is None:
            tell_left_out([error])
        else:
            failed.append(error)

    def describe(self, group: str) -> list[Row]:
        """One row per offer. Imports nothing and never fails."""
        return [
            Row(group, offer.name, offer.package, offer.version, offer.path, self._state(offer))
            for offer in self._in(group)
        ]

    def resolve_op(self, full_name: str) -> type[Op] | None:
        """The definition of an op (`top.Conv`), None when no installed dialect has it. An `OpResolver`."""
        prefix, _, name = full_name.partition(".")
        if not self.has("tpuc.dialects", prefix):
            return None
        offer, dialect = self.offer("tpuc.dialects", prefix), self.get("tpuc.dialects", prefix)
        what = f"op '{full_name}' of {offer.provider}"
        try:
            op: Any = dialect.op(name)
        except Exception as error:
            raise _not_loaded(what, error, offer, dialect.ops.get(name, offer.path)) from error
        if op is not None and not dialect.others:
            _check_op(what, full_name, op)
        return op

    # Tables

    def tables(self, group: str, owner: str, dialect: str) -> list[tuple[Offer, Any]]:
        """The active tables of an owner (chip or front end) and a dialect, each with its offer."""
        return [(offer, self._load(offer)) for offer in self._participants(group, owner, dialect)]

    def table_dialects(self, group: str, owner: str) -> list[str]:
        """Dialects for which an owner has tables, sorted. Imports nothing."""
        parsed = [TableName.parse(name) for name in self.names(group)]
        return sorted({name.dialect for name in parsed if name is not None and name.owner == owner})

    def merged(self, group: str, owner: str, dialect: str) -> MergedTable:
        """All cells of an owner and a dialect."""
        place = (group, owner, dialect)
        if place not in self._merged:
            self._merged[place] = MergedTable(self.group(group), owner, dialect, self.tables(group, owner, dialect))
        return self._merged[place]

    def cell(self, group: str, owner: str, dialect: str, key: Hashable) -> Cell | None:
        """The merged cell, None when there is none; raises PluginConflict when two packages define it."""
        return self.merged(group, owner, dialect).cell(key, self.prefer)

    def find_cell(self, group: str, owners: Sequence[str], dialect: str, key: Hashable) -> Cell | None:
        """The cell of the first owner that has one: a chip, then its families in order."""
        for owner in owners:
            cell = self.cell(group, owner, dialect, key)
            if cell is not None:
                return cell
        return None

    def lowering(self, chip: ChipDescription, op: Op | type[Op], mode: str) -> Cell | None:
        """The lowering of an op in a mode: the cell of the op, else the cell of its kind if it applies to this op."""
        group, owners = "tpuc.lowerings", chip.lowering_owners
        cell = self.find_cell(group, owners, op.name.partition(".")[0], (op.name, mode))
        if cell is None and op.op_kind:
            cell = self.find_cell(group, owners, op.op_kind.partition(".")[0], (op.op_kind, mode))
            definition = op if isinstance(op, type) else type(op)
            return cell if cell is not None and cell.value.serves(definition) else None
        return cell

    def legalization(self, chip: ChipDescription, op: Op | type[Op]) -> Cell | None:
        """The legalization of an op that fits the chip: the chip's own, else the one for any chip."""
        owners = (*chip.owners, ANY_CHIP)
        cell = self.find_cell("tpuc.legalizations", owners, op.name.partition(".")[0], op.name)
        return cell if cell is not None and cell.value.fits(chip) else None

    # Hooks

    @functools.cached_property
    def hooks(self) -> PluginManager:
        """The event bus, with the hook plugins selected by --with."""
        from tpuc.registry.hookspecs import make_manager

        manager = make_manager()
        for name in self.names("tpuc.hooks"):
            if any(self._is_enabled(offer) for offer in self._by_name["tpuc.hooks", name]):
                manager.register(self.get("tpuc.hooks", name), name)
        return manager

    # Inside

    def _in(self, group: str) -> list[Offer]:
        if group not in self.groups:
            raise KeyError(f"{group!r} is not a plugin group")
        return [offer for offer in self.offers if offer.group == group]

    def _is_enabled(self, offer: Offer) -> bool:
        return any(offer.answers_to(name) for name in self.enabled)

    def _participants(self, group: str, owner: str, dialect: str) -> list[Offer]:
        result: list[Offer] = []
        for offer in self._in(group):
            name = TableName.parse(offer.name)
            if name is not None and (name.owner, name.dialect) == (owner, dialect) and self._takes_part(offer):
                result.append(offer)
        return result

    def _takes_part(self, offer: Offer) -> bool:
        """True if an offer is active by default: not a hook plugin, and not a table for another package's chip and
        dialect.
        """
        if offer.group == "tpuc.hooks":
            return self._is_enabled(offer)
        owners = self.group(offer.group).owners
        if owners is None:
            return True
        name = TableName.parse(offer.name)
        if name is None:
            return False
        if self._is_enabled(offer):
            return True
        return self._offers_name(offer, owners, name.owner) or self._offers_name(offer, "tpuc.dialects", name.dialect)

    def _offers_name(self, table: Offer, group: str, name: str) -> bool:
        """True if the table's package provides the name, rather than being overridden by --prefer."""
        offers = ranked(self._by_name.get((group, name), ()), self.prefer)
        return any(normalize(offer.package) == normalize(table.package) for offer in offers)

    def _state(self, offer: Offer) -> str:
        group = self.group(offer.group)
        if group.owners is not None and TableName.parse(offer.name) is None:
            return "misnamed"
        if not self._takes_part(offer):
            return "not enabled"
        if group.owners is not None or group.name == "tpuc.hooks":
            return "enabled" if self._is_enabled(offer) else "available"
        rivals = self._by_name[offer.group, offer.name]
        if len(rivals) == 1:
            return "available"
        chosen = ranked(rivals, self.prefer)
        if len(chosen) > 1:
            return "conflict" if offer in chosen else "overridden"
        return "preferred" if offer is chosen[0] else "overridden"

    def _load(self, offer: Offer) -> Any:
        if offer.group not in GROUPS:
            self.offer("tpuc.groups", offer.group)  # raises where several packages add the group
        if offer in self._broken:
            raise self._broken[offer]  # importing it again would take the same time, and fail again
        if offer not in self._objects:
            try:
                self._objects[offer] = load_checked(offer, self.group(offer.group))
            except PluginError as error:
                self._broken[offer] = error
                raise
        return self._objects[offer]


def tell_left_out(failed: Sequence[PluginError]) -> None:
    """Remark on skipped plugins that may have been the right one."""
    for error in failed:
        remark_left_out(f"left out: {error}")


def left_out(failed: Sequence[PluginError]) -> str:
    """The end of a message that no plugin handles something: a skipped plugin may be meant for it."""
    return f". Left out: {' '.join(map(str, failed))}" if failed else ""


def remark_left_out(sentence: str) -> None:
    """Warn that a plugin is skipped."""
    warnings.warn(LeftOut(sentence), stacklevel=2)


def load_checked(offer: Offer, group: Group) -> Any:
    """Import a plugin object and check it; raises PluginError naming package, version, cause and way out."""
    what = f"{group.kind} '{offer.name}' of {offer.provider}"
    try:
        value = offer.load()
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raise _not_loaded(what, error, offer, offer.path) from error
    try:
        return _checked(what, value, offer, group)
    except PluginError:
        raise
    except Exception as error:
        cause = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ").rstrip(".")
        raise PluginError(f"{what} cannot be used: {offer.path} raises {cause}. {mend(offer)}") from error


def mend(offer: Offer) -> str:
    """Advice about a broken package."""
    return f"Report this bug to its author; until it is fixed, uninstall {offer.package}."


def _checked(what: str, value: Any, offer: Offer, group: Group) -> Any:
    """The object of an entry point, if it fits its group."""
    version = getattr(value, "api_version", None)
    if version is None:
        raise PluginError(
            f"{what} has no api_version; this tpuc supports {API_VERSION}. "
            f"Ask its author to add `api_version = {API_VERSION}`; until then, uninstall {offer.package}."
        )
    if version != API_VERSION:
        raise PluginError(
            f"{what} was written for api_version {version}, this tpuc supports {API_VERSION}. "
            f"Install another version of {offer.package} or of tpuc."
        )
    misfit = group.misfit(value) or _misplaced(offer, group, value)
    if misfit:
        raise PluginError(
            f"{what} cannot be used: {offer.path} is {misfit}. Its author has to correct the entry point."
        )
    other = group.misnamed(value, offer.name)
    if other is not None:
        raise PluginError(f"{what} calls itself '{other}'. Its author has to use the same name in both places.")
    return value


def _not_loaded(what: str, error: BaseException, offer: Offer, path: str) -> PluginError:
    """The error for an object that cannot be imported from `path`."""
    cause = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ").rstrip(".")
    module, _, attribute = path.partition(":")
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    if missing is not None and f"{module}.".startswith(f"{missing}."):
        cure = f"There is no module {missing}: its author has to correct {path}, or add the module to the package."
    elif isinstance(error, AttributeError) and getattr(error, "name", None) == attribute:
        cure = f"Its author has to correct {path}, or define {attribute}."
    elif isinstance(error, (ImportError, OSError)):
        cure = f"Install what it needs, or uninstall {offer.package}."
    else:
        cure = f"Its author has to fix {module}, or a module that it imports; until then, uninstall {offer.package}."
    return PluginError(f"{what} cannot be loaded: {cause}. {cure}")


def _check_op(what: str, full_name: str, op: Any) -> None:
    """Raise PluginError for an object that is not an op definition, or has another name than its dialect gives it."""
    from tpuc.ir import Op

    if not (isinstance(op, type) and issubclass(op, Op)):
        raise PluginError(f"{what} cannot be used: it is {shown(op)}, no subclass of Op. Its author has to correct it.")
    if op.name != full_name:
        raise PluginError(f"{what} calls itself '{op.name}'. Its author has to use the same name in both places.")


def _misplaced(offer: Offer, group: Group, value: Any) -> str | None:
    """True if a table is for another owner or dialect than its entry name states."""
    name = TableName.parse(offer.name) if group.owners else None
    if name is None:
        return None
    owner, dialect = getattr(value, "owner", name.owner), getattr(value, "dialect", name.dialect)
    if (owner, dialect) == (name.owner, name.dialect):
        return None
    return f"a table for {owner}.{dialect}"


def unknown(kind: str, name: str, known: Sequence[str]) -> UsageError:
    """The error for an unknown name."""
    if not known:
        return UsageError(f"no {kind} named '{name}': no installed package offers one. Install a package that does.")
    from difflib import get_close_matches

    close = get_close_matches(name, known, n=1, cutoff=0.6)
    hint = f" Did you mean '{close[0]}'?" if close else ""
    return UsageError(f"no {kind} named '{name}'.{hint} Installed: {', '.join(known)}.")
