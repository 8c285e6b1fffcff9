"""What the values of options may be, as argparse takes types."""

import argparse
import json
import math


def setting(text: str) -> tuple[str, object]:
    """``KEY=VALUE``, the value as JSON or else as text."""
    key, separator, value = text.partition("=")
    if not separator or not key:
        raise argparse.ArgumentTypeError(f"{text!r}, expected key=value")
    try:
        return key, json.loads(value)
    except (json.JSONDecodeError, RecursionError):
        return key, value


def positive(text: str) -> float:
    """A finite number above zero."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 < number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r}, expected a positive number")
    return number


def count(text: str) -> int:
    """An integer above zero."""
    return _integer(text, 1, "a positive integer")


def natural(text: str) -> int:
    """An integer not below zero."""
    return _integer(text, 0, "an integer not below 0")


def _integer(text: str, least: int, expected: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = least - 1
    if number < least:
        raise argparse.ArgumentTypeError(f"{text!r}, expected {expected}")
    return number
