"""Collect everything in a network that cannot be imported, and report it at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tpuc.api import ForeignNode, Unsupported, visible

SHOWN_NODES = 5
"""Number of nodes listed for each unknown operator."""


class ImportRefused(Unsupported):
    """Everything in a network that cannot be imported, one line each.

    `unknown`: nodes by unknown operator. `readable`: the last values that depend on none of these; the network can be
    cut there to import the part before.
    """

    def __init__(self, text: str, unknown: Mapping[str, tuple[str, ...]], readable: tuple[str, ...]) -> None:
        super().__init__(text)
        self.unknown = unknown
        self.readable = readable

    def sentence(self) -> str:
        """Return all reasons on one line."""
        return " ".join(str(self).splitlines())


class Obstacles:
    """What one walk over a network could not import. `lost`: the values that depend on it."""

    def __init__(self, source: str, operator: str = "operator", node: str = "node") -> None:
        self._source = source
        self._words = (operator, node)
        self._unknown: dict[str, list[str]] = {}
        self._sentences: list[str] = []
        self.lost: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._unknown or self._sentences)

    @property
    def knows_all(self) -> bool:
        """True if there was an importer for every operator."""
        return not self._unknown

    def note_unknown(self, key: str, name: str) -> None:
        """Record a node whose operator no importer knows."""
        self._unknown.setdefault(key, []).append(name)

    def note(self, sentence: object, results: Iterable[str] = ()) -> None:
        """Record a refusal and the results lost by it."""
        self._sentences.append(str(sentence))
        self.lost.update(results)

    def concern(self, names: Iterable[str]) -> bool:
        """True if one of these values is lost."""
        return not self.lost.isdisjoint(names)

    def tell(
        self,
        steps: Iterable[tuple[Sequence[str], Sequence[str]]],
        outputs: Iterable[str],
        is_computed: Callable[[str], bool],
    ) -> None:
        """Raise ImportRefused if anything was recorded. `steps`: what each node reads and computes."""
        if not self:
            return
        sentences = [self._unknown_sentence()] if self._unknown else []
        unknown = {key: tuple(names) for key, names in self._unknown.items()}
        text = "\n".join(visible(sentence) for sentence in (*sentences, *self._sentences))
        raise ImportRefused(text, unknown, self._readable(steps, set(outputs), is_computed))

    def _readable(
        self,
        steps: Iterable[tuple[Sequence[str], Sequence[str]]],
        outputs: set[str],
        is_computed: Callable[[str], bool],
    ) -> tuple[str, ...]:
        sound = [(reads, makes) for reads, makes in steps if not self.concern((*reads, *makes))]
        read = {name for reads, makes in sound for name in reads if name not in makes}
        made = dict.fromkeys(name for _, makes in sound for name in makes if name and is_computed(name))
        return tuple(name for name in made if name in outputs or name not in read)

    def _unknown_sentence(self) -> str:
        operator, node = self._words
        listed = ", ".join(
            f"{key or 'without a type'} ({show_names(names, node)})" for key, names in self._unknown.items()
        )
        one = len(self._unknown) == 1
        return (
            f"{self._source}: {len(self._unknown)} {operator}{' is' if one else 's are'} not known: {listed}. Install "
            f"a package that imports {'it' if one else 'them'}, or cut the network before {'it' if one else 'them'} "
            "with --output-names."
        )


def place_of(node: ForeignNode) -> str:
    """Return file and node, with which messages about a node begin."""
    return f"{node.source}: node '{node.name}' ({node.op_type})"


def refusal(node: ForeignNode, reason: str) -> Unsupported:
    """Return the error for a node that cannot be imported."""
    return Unsupported(f"{place_of(node)}: {reason.rstrip('.')}.")


def show_names(names: Sequence[str], node: str = "node") -> str:
    """Format the first few names, and the number of the others."""
    shown = ", ".join(f"'{name}'" for name in names[:SHOWN_NODES])
    more = f" and {len(names) - SHOWN_NODES} more" if len(names) > SHOWN_NODES else ""
    return f"{node}{'s' if len(names) > 1 else ''} {shown}{more}"
