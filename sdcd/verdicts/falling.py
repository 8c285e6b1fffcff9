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


def as_markdown() -> str:
    """A table of every claim with what would make it fall."""
    rows = [f"| {claim.id} | {falls_if(claim)} |" for claim in read_claims()]
    return "\n".join(["| claim | it falls if |", "|---|---|", *rows])


def falls_if(claim: Claim) -> str:
    """What our runs would have to show for a claim to be *not reproduced*; one sentence."""
    text = _SENTENCES[claim.test](claim)
    return text[0].upper() + text[1:]


def _lower(claim: Claim) -> str:
    return (
        f"{_where(claim)} the {_metric(claim)} of {_method(claim)} is shown to be above "
        f"{_times(claim.threshold)}that of {_rivals(claim)}{_in_range(claim)}, or every run of "
        f"{_method(claim)} fails{_there(claim)}"
    )


def _higher(claim: Claim) -> str:
    return (
        f"{_where(claim)} the {_metric(claim)} of {_method(claim)} is shown to be below that of "
        f"{_rivals(claim)}{_in_range(claim)}, or every run of {_method(claim)} fails{_there(claim)}"
    )


def _within(claim: Claim) -> str:
    if claim.arguments["metric"] in RATIO_METRICS:
        apart = f"the ratio of {_metric(claim)} is shown to be above {claim.threshold:g} or below "
        apart += f"1/{claim.threshold:g} for"
    else:
        apart = f"the {_metric(claim)} is shown to differ by more than {claim.threshold:g} between"
    pair = f"{_method(claim)} and {_rivals(claim)}"
    failing = f"or every run of either fails{_there(claim)}"
    return f"{_where(claim)} {apart} {pair}{_in_range(claim)}, {failing}"


def _number(side: str, unit: str):
    def sentence(claim: Claim) -> str:
        bound = f"{claim.threshold:g}"
        if unit:
            bound = f"{_times(claim.threshold)}{unit}"
        text = (
            f"{_where(claim)} the {_metric(claim)} of {_method(claim)} is shown to be {side} "
            f"{bound}{_in_range(claim)}"
        )
        if claim.arguments.get("failed") == "counts":
            return text
        return f"{text}, or every run fails there"

    return sentence


def _all_below(claim: Claim) -> str:
    return (
        f"one run of {_method(claim)} takes {claim.threshold:,.0f} seconds or more"
        f"{_in_range(claim)}, or fails"
    )


def _exponent_below(claim: Claim) -> str:
    return (
        f"the {_metric(claim)} of {_method(claim)} is shown to grow faster than d to the power "
        f"{claim.threshold:g}{_in_range(claim)}, or every run fails at one d"
    )


def _fails(claim: Claim) -> str:
    return f"one run of {_method(claim)} ends with a graph{_in_range(claim)}"


def _finishes(claim: Claim) -> str:
    return f"one run of {_method(claim)} fails{_in_range(claim)}"


def _freezes(claim: Claim) -> str:
    return (
        f"gamma is shown to freeze in less than {_percent(claim.threshold)} of the runs of "
        f"{_method(claim)}{_in_range(claim)}"
    )


def _share_below_edges(claim: Claim) -> str:
    return (
        f"over data sets, less than {_percent(claim.threshold)} of the methods are shown to have "
        "an SHD below the number of true edges; a method that fails is not below it"
    )


def _share_best(claim: Claim) -> str:
    return (
        f"over data sets, {_method(claim)} is shown to have the lowest SHD in less than "
        f"{_percent(claim.threshold)} of the settings; where it fails it is not the lowest"
    )


def _falls(claim: Claim) -> str:
    if claim.threshold < 1:
        return (
            f"over data sets, less than {_percent(claim.threshold)} of the methods are shown to "
            "have an SHD that falls with the fraction of interventions; where a method fails it "
            "does not fall"
        )
    return (
        f"at one d and s the SHD of {_method(claim)} is shown to rise with the fraction of "
        "interventions, or every run fails there"
    )


def _not_falls(claim: Claim) -> str:
    return (
        f"the SHD of {_method(claim)} is shown to fall with the fraction of interventions at every "
        "d and s"
    )


def _unstable(claim: Claim) -> str:
    return (
        f"on a cycle of {_sizes(claim)} nodes {_constraint(claim)} is measured to vanish or to "
        "explode more slowly than s to the power d"
    )


def _escapes(claim: Claim) -> str:
    return (
        f"on a cycle of {_sizes(claim)} nodes {_constraint(claim)} is defined at all scales, or "
        f"stops being defined somewhere other than at {claim.threshold:g}"
    )


def _stable(claim: Claim) -> str:
    return (
        f"on a cycle of {_sizes(claim)} nodes {_constraint(claim)} is measured to vanish or to "
        "explode faster than s, or is undefined at some scale"
    )


def _cost(way: str):
    def sentence(claim: Claim) -> str:
        return (
            f"the time of {_constraint(claim)} is shown to grow {way} than d to the power "
            f"{claim.threshold:g}"
        )

    return sentence


def _fastest(claim: Claim) -> str:
    mode = claim.arguments["mode"].replace("_l", " L")
    return (
        f"with the {mode}, {_constraint(claim)} needs more epochs to reach a DAG than one of "
        f"{_listed(claim.words('among'), 'and')}, or never does while one of them does"
    )


_SENTENCES = {
    "lower": _lower,
    "higher": _higher,
    "within": _within,
    "below": _number("above", ""),
    "above": _number("below", ""),
    "below_edges": _number("above", "the number of true edges"),
    "above_edges": _number("below", "the number of true edges"),
    "all_below": _all_below,
    "exponent_below": _exponent_below,
    "fails": _fails,
    "finishes": _finishes,
    "freezes": _freezes,
    "share_below_edges": _share_below_edges,
    "share_best": _share_best,
    "falls": _falls,
    "not_falls": _not_falls,
    "unstable": _unstable,
    "escapes": _escapes,
    "stable": _stable,
    "cost_below": _cost("faster"),
    "cost_above": _cost("more slowly"),
    "fastest": _fastest,
}


def _where(claim: Claim) -> str:
    scope = claim.arguments.get("scope", "each")
    return {"each": "at one setting", "graph": "at one d and s", "pooled": "over all settings"}[
        scope
    ]


def _there(claim: Claim) -> str:
    return "" if claim.arguments.get("scope") == "pooled" else " there"


def _metric(claim: Claim) -> str:
    return _METRICS[claim.arguments["metric"]]


def _method(claim: Claim) -> str:
    words = claim.words("method")
    return "another method" if words == ["others"] else _listed(words, "or")


def _rivals(claim: Claim) -> str:
    words = claim.words("against")
    return "another method" if words == ["others"] else _listed(words, "or")


def _constraint(claim: Claim) -> str:
    return f"`{claim.arguments['constraint']}`"


def _sizes(claim: Claim) -> str:
    return _listed(claim.words("d"), "or")


def _in_range(claim: Claim) -> str:
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
            parts.append(f"{what} = {_listed(claim.words(name), 'or')}")
    return f" ({'; '.join(parts)})" if parts else ""


def _times(threshold: float) -> str:
    return "" if threshold == 1 or math.isnan(threshold) else f"{threshold:g} times "


def _percent(share: float) -> str:
    return f"{100 * share:g} %"


def _listed(words: list[str], last: str) -> str:
    words = [f"`{word}`" if word.startswith("h_") else word for word in words]
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"
