"""Every method by name.

SDCD and its variants, the baselines (each module of :mod:`sdcd.baselines` without a leading
underscore; its folders hold what several methods share), then each of them with held-out pruning,
and with the search over orders, after it.
"""

import importlib
import pkgutil
from functools import cache

from sdcd.errors import InputError
from sdcd.methods import contract
from sdcd.methods.contract import Method
from sdcd.parameters import closest


def methods() -> dict[str, Method]:
    """All methods by name: SDCD and its variants, the baselines, then those with a step after."""
    _discover()
    # By name, so that a method does not depend on the others (see sdcd.fits.fingerprint).
    pruned = importlib.import_module("sdcd.methods.pruned")
    ordered = importlib.import_module("sdcd.methods.ordered")
    known = contract.REGISTERED
    return {**known, **pruned.pruned_methods(known), **ordered.ordered_methods(known)}


def method(name: str) -> Method:
    """The method called ``name``; if there is none, :class:`InputError` names the nearest."""
    known = methods()
    if name not in known:
        plain = ", ".join(known_name for known_name in known if "+" not in known_name)
        raise InputError(
            f"unknown method {name!r}{closest(name, known)} "
            f"(known: {plain}; and NAME+prune, NAME+order)"
        )
    return known[name]


@cache
def _discover() -> None:
    importlib.import_module("sdcd.methods.variants")
    baselines = importlib.import_module("sdcd.baselines")
    for module in sorted(pkgutil.iter_modules(baselines.__path__), key=lambda m: m.name):
        if not module.name.startswith("_") and not module.ispkg:
            importlib.import_module(f"sdcd.baselines.{module.name}")
