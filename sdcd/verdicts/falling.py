"""What would make each claim fall, in words: written from ``claims.csv``, so that it cannot differ.

The list in ``docs/verdicts.md`` is what :func:`as_markdown` returns; a test holds them equal.
"""

import math

from sdcd.verdicts.claims import read_claims
from sdcd.verdicts.evidence import RATIO_METRICS, Claim

_METRICS = {
    "shd": "SHD",
    "shd_cpdag": "SHD of the CPDAG",
    "n_edges": "number of edges",
    "seconds": "time",
    "precision": "precision",
    "recall": "recall",
    "f1": "F1",
    "stage1_mask_recall": "share of true edges in stage 1's mask",
    "stage1_mask_density": "density of stage 1's mask",
    "last_gamma": "last gamma",
}

_NUMBER = "{where} the {metric} of {method} is shown to be "
_EDGES = "{times}the number of true edges{range}{or_fails}"
_CYCLE = "on a cycle of {sizes} nodes {constraint} is "
_COST = "the time of {constraint} is shown to grow "

_SENTENCES = {
    "lower": "{where} the {metric} of {method} is shown to be above {times}that of {rivals}{range},"
    " or every run of {method} fails{there}",
    "higher": "{where} the {metric} of {method} is shown to be below that of {rivals}{range}, or "
    "every run of {method} fails{there}",
    "within": "{where} {apart} {method} and {rivals}{range}, or every run of either fails{there}",
    "below": _NUMBER + "above {threshold:g}{range}{or_fails}",
    "above": _NUMBER + "below {threshold:g}{range}{or_fails}",
    "below_edges": f"{_NUMBER}above {_EDGES}",
    "above_edges": f"{_NUMBER}below {_EDGES}",
    "all_below": "one run of {method} takes {threshold:,.0f} seconds or more{range}, or fails",
    "exponent_below": "the {metric} of {method} is shown to grow faster than d to the power "
    "{threshold:g}{range}, or every run fails at one d",
    "fails": "one run of {method} ends with a graph{range}",
    "finishes": "one run of {method} fails{range}",
    "freezes": "gamma is shown to freeze in less than {percent} of the runs of {method}{range}",
    "share_below_edges": "over data sets, less than {percent} of the methods are shown to have an "
    "SHD below the number of true edges; a method that fails is not below it",
    "share_best": "over data sets, {method} is shown to have the lowest SHD in less than {percent} "
    "of the settings; where it fails it is not the lowest",
    "share_falls": "over data sets, less than {percent} of the methods are shown to have an SHD "
    "that falls with the fraction of interventions; where a method fails it does not fall",
    "falls": "at one d and s the SHD of {method} is shown to rise with the fraction of "
    "interventions, or every run fails there",
    "not_falls": "the SHD of {method} is shown to fall with the fraction of interventions at every "
    "d and s",
    "unstable": _CYCLE + "measured to vanish or to explode more slowly than s to the power d",
    "escapes": _CYCLE + "defined at all scales, or stops being defined somewhere other than at "
    "{threshold:g}",
    "stable": _CYCLE + "measured to vanish or to explode faster than s, or is undefined at some "
    "scale",
    "cost_below": _COST + "faster than d to the power {threshold:g}",
    "cost_above": _COST + "more slowly than d to the power {threshold:g}",
    "fastest": "with the {mode}, {constraint} needs more epochs to reach a DAG than one of {among},"
    " or never does while one of them does",
}
"""What our runs would have to show, by the claim's test; ``share_falls`` is ``falls`` below 1."""


def as_markdown() -> str:
    """A table of every claim with what would make it fall."""
    rows = [f"| {claim.id} | {falls_if(claim)} |" for claim in read_claims()]
    return "\n".join(["| claim | it falls if |", "|---|---|", *rows])


def falls_if(claim: Claim) -> str:
    """What our runs would have to show for a claim to be *not reproduced*; one sentence."""
    share = claim.test == "falls" and claim.threshold < 1
    text = _SENTENCES["share_falls" if share else claim.test].format(**_words(claim))
    return text[0].upper() + text[1:]


def _words(claim: Claim) -> dict[str, object]:
    """What the sentences say of a claim."""
    arguments, bound = claim.arguments, claim.threshold
    scope = arguments.get("scope", "each")
    places = {"each": "at one setting", "graph": "at one d and s", "pooled": "over all settings"}
    metric = _METRICS[arguments["metric"]] if "metric" in arguments else ""
    if arguments.get("metric") in RATIO_METRICS:
        apart = f"the ratio of {metric} is shown to be above {bound:g} or below 1/{bound:g} for"
    else:
        apart = f"the {metric} is shown to differ by more than {bound:g} between"
    return {
        "where": places[scope],
        "there": "" if scope == "pooled" else " there",
        "or_fails": "" if arguments.get("failed") == "counts" else ", or every run fails there",
        "metric": metric,
        "apart": apart,
        "method": _names(claim, "method"),
        "rivals": _names(claim, "against"),
        "range": _range(claim),
        "threshold": bound,
        "times": "" if bound == 1 or math.isnan(bound) else f"{bound:g} times ",
        "percent": f"{100 * bound:g} %",
        "constraint": f"`{arguments.get('constraint')}`",
        "sizes": _names(claim, "d"),
        "mode": arguments.get("mode", "").replace("_l", " L"),
        "among": _names(claim, "among", "and"),
    }


def _range(claim: Claim) -> str:
    parts = []
    for name in ("d", "s", "density"):
        text = claim.arguments.get(name)
        if text is None:
            continue
        what = "density in %" if name == "density" else name
        if ".." in text:
            low, high = (f"{float(word):,g}" for word in text.split(".."))
            parts.append(f"{what} = {low} to {high}")
        else:
            parts.append(f"{what} = {_names(claim, name)}")
    return f" ({'; '.join(parts)})" if parts else ""


def _names(claim: Claim, argument: str, last: str = "or") -> str:
    """An argument's values as a list in words; empty if the claim has none of that name."""
    words = claim.words(argument) if argument in claim.arguments else [""]
    if words == ["others"]:
        return "another method"
    words = [f"`{word}`" if word.startswith("h_") else word for word in words]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
