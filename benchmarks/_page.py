"""Tables on a page of docs/, between markers."""

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from sdcd.files import atomic_path


def write_tables(path: Path, tables: dict[str, list[str]]) -> None:
    """Put each table's lines between the page's markers of its name."""
    text = path.read_text(encoding="utf-8")
    for name, lines in tables.items():
        text = placed(text, name, lines)
    with atomic_path(path) as temporary:
        temporary.write_text(text, encoding="utf-8")


def markdown(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """The lines of a table."""
    lines = [f"| {' | '.join(cells)} |" for cells in (head, *rows)]
    return [lines[0], "|" + "---|" * len(head), *lines[1:]]


def placed(text: str, name: str, lines: list[str]) -> str:
    """The page with these lines between the markers called ``name``."""
    block = f"<!-- {name} -->\n\n" + "\n".join(lines) + f"\n\n<!-- end of {name} -->"
    pattern = rf"<!-- {name} -->.*<!-- end of {name} -->"
    text, found = re.subn(pattern, lambda _: block, text, flags=re.DOTALL)
    if found != 1:
        raise SystemExit(f"no place for the table {name!r} on the page")
    return text
