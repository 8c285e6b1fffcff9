"""Data sets by name: ``interventional/d20_s2_f0.25_seed0`` says all that a simulation needs."""

import itertools
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from sdcd.errors import InputError


@dataclass(frozen=True, order=True)
class DatasetKey:
    """What names a data set completely.

    Attributes
    ----------
    family : "observational", "interventional" or "dcdi"
        The generator; the interventional family has interventions and a fraction of them kept.
    d, s : int
        Variables, and edges per variable (for ``dcdi`` its expected value).
    seed : int
        Seed of the graph, the mechanisms and the noise.
    fraction : float
        Share of the single-target interventions that is kept (interventional family).
    mechanism : str
        ``L``, ``NL-Add`` or ``NL-NN`` (dcdi family).
    """

    family: str
    d: int
    s: int
    seed: int
    fraction: float = 0.0
    mechanism: str = ""

    @cached_property
    def name(self) -> str:
        """The data set's path without suffix, such as ``interventional/d20_s2_f0.25_seed0``."""
        if self.family == "interventional":
            return f"interventional/d{self.d}_s{self.s}_f{self.fraction:g}_seed{self.seed}"
        prefix = f"{self.mechanism}_" if self.family == "dcdi" else ""
        return f"{self.family}/{prefix}d{self.d}_s{self.s}_seed{self.seed}"

    @classmethod
    def parse(cls, name: str) -> "DatasetKey":
        """The key with this name; :class:`InputError` if there is none."""
        match = re.fullmatch(DATASET_PATTERN, name)
        if match is None:
            raise InputError(
                f"data set {name!r}: expected a name such as observational/d20_s4_seed3"
            )
        family, mechanism, d, s, fraction, seed = match.groups()
        key = cls(
            family, int(d), int(s), int(seed), float(fraction or 0), (mechanism or "").rstrip("_")
        )
        if key.name != name:
            raise InputError(f"data set {name!r}: expected it to be written {key.name!r}")
        return key


DATASET_PATTERN = (
    r"(observational|interventional|dcdi)/"
    r"((?:L|NL-Add|NL-NN)_)?d(\d+)_s(\d+)(?:_f([0-9.]+))?_seed(\d+)"
)
"""Matches the names of data sets."""


def in_short(keys: Iterable[DatasetKey]) -> list[str]:
    """Names of data sets, with consecutive seeds in one: ``observational/d5_s1_seed0-99``."""
    seeds: dict[str, list[int]] = {}
    for key in keys:
        seeds.setdefault(key.name.rpartition("_seed")[0], []).append(key.seed)
    found = []
    for name, numbers in seeds.items():
        # Less its position, each of consecutive numbers is the same.
        runs = itertools.groupby(enumerate(sorted(numbers)), lambda item: item[1] - item[0])
        for run in (list(run) for _, run in runs):
            first, last = run[0][1], run[-1][1]
            found.append(f"{name}_seed{first}" + (f"-{last}" if last > first else ""))
    return found


def from_short(text: str) -> list[DatasetKey]:
    """The data sets of one text of :func:`in_short`."""
    name, _, numbers = text.rpartition("_seed")
    first, _, last = numbers.partition("-")
    seeds = range(int(first), int(last or first) + 1)
    return [DatasetKey.parse(f"{name}_seed{seed}") for seed in seeds]
