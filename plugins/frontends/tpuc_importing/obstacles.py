"""Everything of a network that cannot be imported, told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from tpuc.api import ForeignNode, Unsupported, visible

SHOWN_NODES = 5
"""Of each unknown operator: the first ones are enough to find it."""


class ImportRefused(Unsupported):
    """Everything of a network that cannot be imported, one line each.

    `unknown` are the nodes of each operator that no importer knows. `readable` are values that depend on none of this,
    and that nothing else of the kind is made from: the network can be cut there to look at what comes before.
    """

    def __init__(self, text: str, unknown: Mapping[str, tuple[str, ...]], readable: tuple[str, ...]) -> None:
        super().__init__(text)
        self.unknown = unknown
        self.readable = readable

    def sentence(self) -> str:
        """All of them on one line."""
        return " ".join(str(self).splitlines())


class Obstacles:
    """What one run over a network could not import. `lost` are the values that depend on it."""

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
        """Was there an importer for every operator?"""
        return not self._unknown

    def note_unknown(self, key: str, name: str) -> None:
        """A node whose operator no importer knows."""
        self._unknown.setdefault(key, []).append(name)

    def note(self, sentence: object, results: Iterable[str] = ()) -> None:
        """A refusal in its own words, and what is lost with it."""
        self._sentences.append(str(sentence))
        self.lost.update(results)

    def concern(self, names: Iterable[str]) -> bool:
        """Is one of these values lost?"""
        return not self.lost.isdisjoint(names)

    def tell(
        self,
        steps: Iterable[tuple[Sequence[str], Sequence[str]]],
        outputs: Iterable[str],
        is_computed: Callable[[str], bool],
    ) -> None:
        """Raise ImportRefused when there is anything to tell. `steps` are what each node reads and makes."""
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
    """File and node, as sentences about a node begin."""
    return f"{node.source}: node '{node.name}' ({node.op_type})"


def refusal(node: ForeignNode, reason: str) -> Unsupported:
    """The error for a node that cannot be imported."""
    return Unsupported(f"{place_of(node)}: {reason.rstrip('.')}.")


def show_names(names: Sequence[str], node: str = "node") -> str:
    """The first few, and how many more there are."""
    shown = ", ".join(f"'{name}'" for name in names[:SHOWN_NODES])
    more = f" and {len(names) - SHOWN_NODES} more" if len(names) > SHOWN_NODES else ""
    return f"{node}{'s' if len(names) > 1 else ''} {shown}{more}"
