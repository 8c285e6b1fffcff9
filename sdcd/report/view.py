"""Tables as the report's template takes them: text in cells, nothing of HTML.

A cell is a text, or a list of :class:`Span`, which stand under each other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Span:
    """A piece of text with the class that the stylesheet knows."""

    text: str
    css: str = ""
    bold: bool = False


@dataclass(frozen=True)
class Table:
    """Headings and rows; ``headers`` of the leading cells of a row name it."""

    head: Sequence[str]
    rows: Sequence[Sequence[str | Sequence[Span]]]
    css: str = ""
    headers: int = 0
    numeric: frozenset[int] = field(default_factory=frozenset)


def signed(value: float, digits: int) -> str:
    """A number with its sign, but for zero."""
    text = f"{value:+.{digits}f}".replace("-", "−")
    return text if text.strip("+−0.") else text[1:]
