"""``sdcd methods``: what can be fitted."""

import argparse
import json
import textwrap

from sdcd.cli._files import Outputs, say


def add(command) -> None:
    """Add the command."""
    add = command(
        "methods",
        _methods,
        "List the methods: the data they take, their source, their settings.",
        """\
        examples:
          sdcd methods
          sdcd methods SDCD GIES
        """,
    ).add_argument
    add(
        "names",
        nargs="*",
        metavar="NAME",
        help="describe these, with the allowed values of settings",
    )
    add("--json", action="store_true", help="print JSON")


def _methods(options: argparse.Namespace, outputs: Outputs) -> int:
    from sdcd.methods.registry import method, methods

    known = methods()
    chosen = {name: method(name) for name in options.names} or known
    if options.json:
        listing = {
            name: {
                "data": m.data,
                "source": m.source,
                "defaults": dict(m.defaults),
                "expected": {key: kind.expected for key, kind in m.ranges.items()},
                "knowledge": m.knowledge,
            }
            for name, m in chosen.items()
        }
        say(json.dumps(listing, indent=2))
        return 0
    if options.names:
        say("\n".join(line for m in chosen.values() for line in _in_full(m)))
        return 0
    lines = ["observational: takes data without interventions only; interventional: takes both.\n"]
    twins = [name for name in known if name.endswith("+prune")]
    ordered = [name for name in known if name.endswith("+order")]
    for name, m in known.items():
        if name in twins or name in ordered:
            continue
        settings = ", ".join(f"{key}={json.dumps(value)}" for key, value in m.defaults.items())
        lines += [_headline(m), *_wrapped(m.source), *_wrapped(settings or "no settings")]
    lines += [
        "NAME+prune  (as NAME)",
        f"    each of {len(twins)}, then held-out pruning as in SDCD-pruned",
        "NAME+order  (as NAME)",
        f"    each of {len(ordered)}, then a search over causal orders as in SDCD-ordered",
    ]
    say("\n".join(lines))
    return 0


def _headline(m) -> str:
    return f"{m.name}  ({m.data})"


def _in_full(m) -> list[str]:
    lines = [_headline(m), *_wrapped(m.source)]
    for key, value in m.defaults.items():
        lines += _wrapped(f"{key}={json.dumps(value)}: {m.ranges[key].expected}")
    return lines


def _wrapped(text: str) -> list[str]:
    return textwrap.wrap(text, 98, initial_indent="    ", subsequent_indent="      ")
