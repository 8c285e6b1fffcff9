"""Figures and tables as the workflow makes them, from runs at hand."""

from importlib import import_module

from sdcd.exhibits import FIGURES, TABLES


def draw(name, *runs):
    """The figure of the rule ``fig_{name}``."""
    exhibit = FIGURES[f"fig_{name}"]
    return import_module(exhibit.module).draw(*runs, **exhibit.options)


def make(name, *runs):
    """The table of the rule ``table_{name}``: its numbers, and its layout."""
    exhibit = TABLES[f"table_{name}"]
    options = {"caption": exhibit.caption, **exhibit.options}
    return import_module(exhibit.module).make(*runs, **options)
