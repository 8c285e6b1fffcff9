"""Figures and tables as the report makes them, from runs at hand."""

from sdcd.exhibits import EXHIBITS


def draw(name, *runs):
    """The figure of the rule ``fig_{name}``."""
    return _made(f"fig_{name}", runs)


def make(name, *runs):
    """The table of the rule ``table_{name}``: its numbers, and its layout."""
    return _made(f"table_{name}", runs)


def _made(rule, runs):
    exhibit = EXHIBITS[rule]
    return exhibit.make(dict(zip(exhibit.runs, runs, strict=True)))
