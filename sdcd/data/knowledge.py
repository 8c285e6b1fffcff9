"""What is known beforehand about edges: forbidden ones, required ones, and tiers of variables."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from sdcd.data.edges import number, read_edges, read_rows
from sdcd.errors import InputError
from sdcd.graphs import is_acyclic
from sdcd.parameters import closest

KEYS = ("forbid", "require", "tiers")
"""Of a method's parameter ``knowledge``: lists of edges (parent, child) by name, twice, and a list
of tiers, each a list of names."""


@dataclass(frozen=True)
class Knowledge:
    """Which edges may not be, and which must be.

    Attributes
    ----------
    forbidden, required : bool (d, d)
        At ``[i, j]`` for i -> j. An edge is forbidden also if it would close a cycle with required
        ones. No edge is both.
    """

    forbidden: np.ndarray
    required: np.ndarray

    @classmethod
    def of(cls, given: Mapping[str, Sequence], names: Sequence[str]) -> "Knowledge":
        """From lists of names.

        Parameters
        ----------
        given : mapping
            With some of :data:`KEYS`. An edge from a later tier to an earlier one is forbidden;
            variables in no tier are free.
        names : sequence of d str
            All variables.

        Raises
        ------
        InputError
            If something is no variable, an edge is both forbidden and required, required edges form
            a cycle, or a variable is in two tiers.
        """
        known = {name: j for j, name in enumerate(names)}
        if unknown := set(given) - set(KEYS):
            raise InputError(f"knowledge: unknown key {min(unknown)!r} (known: {', '.join(KEYS)})")

        def position(name: object, where: str) -> int:
            if name not in known:
                hint = closest(str(name), known)
                raise InputError(f"knowledge, {where}: {name!r} is no variable{hint}")
            return known[name]

        forbidden, required = (np.zeros((len(names),) * 2, dtype=bool) for _ in range(2))
        for key, matrix in (("forbid", forbidden), ("require", required)):
            for parent, child in given.get(key, ()):
                matrix[position(parent, key), position(child, key)] = True
        tier = np.full(len(names), -1)
        for level, members in enumerate(given.get("tiers", ())):
            for name in members:
                j = position(name, "tiers")
                if tier[j] >= 0:
                    raise InputError(f"knowledge, tiers: {name!r} is in two tiers, expected one")
                tier[j] = level
        in_tier = tier >= 0
        forbidden |= in_tier[:, None] & in_tier[None, :] & (tier[:, None] > tier[None, :])
        if not is_acyclic(required):
            raise InputError("knowledge: the required edges form a cycle, expected none")
        both = np.argwhere(forbidden & required)
        if len(both):
            i, j = both[0]
            raise InputError(
                f"knowledge: the edge {names[i]} -> {names[j]} is both required and forbidden "
                "(by --forbid or by tiers), expected one of them"
            )
        forbidden |= _reachable(required).T
        return cls(forbidden, required)


def read_knowledge(
    names: Sequence[str],
    *,
    forbid: str | Path | None = None,
    require: str | Path | None = None,
    tiers: str | Path | None = None,
) -> dict[str, list]:
    """Read files into the value of a method's parameter ``knowledge``; empty without files.

    Parameters
    ----------
    names : sequence of d str
        All variables.
    forbid, require : path, optional
        Lists of edges as :func:`sdcd.data.edges.read_edges` reads them.
    tiers : path, optional
        ``.csv`` with the columns ``variable`` and ``tier``, a number: no edge from a larger one to
        a smaller one.

    Raises
    ------
    InputError
        If a file is not as said, or they contradict each other.
    """
    given: dict[str, list] = {}
    for key, path in (("forbid", forbid), ("require", require)):
        if path is not None:
            adjacency, _ = read_edges(path, names)
            given[key] = [[names[i], names[j]] for i, j in np.argwhere(adjacency)]
    if tiers is not None:
        given["tiers"] = _read_tiers(Path(tiers), names)
    Knowledge.of(given, names)
    return given


def _read_tiers(path: Path, names: Sequence[str]) -> list[list[str]]:
    (_, header), *rows = read_rows(path)
    if not {"variable", "tier"} <= set(header):
        raise InputError(f"{path}: row 1: columns {', '.join(header)}, expected variable, tier")
    at = header.index("variable"), header.index("tier")
    members: dict[float, list[str]] = {}
    for line, cells in rows:
        if len(cells) != len(header):
            raise InputError(f"{path}: row {line}: {len(cells)} cells, expected {len(header)}")
        name = cells[at[0]]
        if name not in names:
            raise InputError(f"{path}: row {line}: {name!r} is no variable{closest(name, names)}")
        members.setdefault(number(path, cells[at[1]], line, "tier"), []).append(name)
    return [members[tier] for tier in sorted(members)]


def _reachable(A: np.ndarray) -> np.ndarray:
    """Whether there is a directed path i -> ... -> j: bool (d, d)."""
    reached = A.copy()
    while True:
        further = reached | ((reached.astype(np.float32) @ A.astype(np.float32)) > 0)
        if (further == reached).all():
            return reached
        reached = further
