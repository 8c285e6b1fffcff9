"""Tables and pictures as the reports' templates take them: text in cells, nothing of HTML.

A cell is a text, or a list of :class:`Span`, which stand under each other.
"""

import base64
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from sdcd.errors import InputError


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
    numeric: frozenset[int] = frozenset()


def image(path: Path) -> dict[str, object]:
    """A picture to be embedded: ``image``, its bytes as base64, and ``size``, on the screen."""
    content = path.read_bytes()
    if content[:8] != b"\x89PNG\r\n\x1a\n":
        raise InputError(f"{path}: not a PNG")
    # Drawn at twice the density of an ordinary screen.
    width, height = (int.from_bytes(content[at : at + 4], "big") // 2 for at in (16, 20))
    return {"image": base64.b64encode(content).decode(), "size": (width, height)}
