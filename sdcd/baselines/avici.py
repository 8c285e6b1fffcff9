"""AVICI: Lorch et al., "Amortized inference for causal structure learning", NeurIPS 2022.

The package's pins conflict with this project's, so it runs as an outside command, by the
interpreter of an environment of its own (``envs/avici.txt`` says how to make it). Its weights are
not on any package index: ``checkpoint`` names a folder that holds them.
"""

from pathlib import Path

from sdcd.errors import MethodFailure
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number

WHERE_TO_GET = (
    "download the folder 'scm-v0' (a .pkl and kwargs.json) from the authors' model page, named in "
    "the README of github.com/larslorch/avici, and set 'checkpoint' to it; a checkpoint is a "
    "pickle, which can run code: take it from a source you trust"
)


@register(
    name="AVICI",
    data="interventional",
    defaults={
        "checkpoint": "",
        "python": ".venv-avici/bin/python",
        "max_rows": 1000,
        "threshold": 0.5,
    },
    ranges={
        "max_rows": integer(1),
        "threshold": number(0),
    },
    source="Lorch et al. 2022, package avici 1.0.7, published checkpoint; cut 0.5; which "
    "checkpoint, rows and cut the SDCD authors used is not recorded",
)
def fit(X, intervened, names, seed, *, checkpoint, python, max_rows, threshold) -> Graph:
    """Predict edge probabilities with a pretrained network; edges where they exceed ``threshold``.

    ``max_rows`` (1,000) rows at most, drawn by ``seed``, enter the network: its memory is quadratic
    in them, and it was trained on 800. The result can have cycles and is returned as it is.

    Raises
    ------
    MethodFailure
        ``unavailable`` without a checkpoint or without the environment, saying how to get them.
    """
    # Only for its path: it is run by another interpreter. An edit of it is one of this method.
    from sdcd.baselines import _avici_worker
    from sdcd.methods.outside import OutsideCommand

    folder = Path(checkpoint)
    if not checkpoint:
        raise MethodFailure("unavailable", f"no checkpoint is given: {WHERE_TO_GET}")
    if not (folder / "kwargs.json").is_file() or not any(folder.glob("*.pkl")):
        raise MethodFailure(
            "unavailable", f"{checkpoint} does not hold kwargs.json and a .pkl: {WHERE_TO_GET}"
        )
    command = OutsideCommand(
        {
            "command": [
                python,
                "-I",  # without it, this folder's avici.py would stand before the package avici
                _avici_worker.__file__,
                "{input}",
                "{output}",
                str(folder.resolve()),
                str(max_rows),
                "{seed}",
            ],
            "output": "npz",
            "environment": {"JAX_PLATFORMS": "cpu"},
            "threshold": threshold,
        }
    )
    try:
        return command(X, intervened, names, seed)
    except MethodFailure as failure:
        if failure.status != "unavailable":
            raise
        raise MethodFailure(
            "unavailable", f"{failure.reason}; envs/avici.txt says how to make the environment"
        ) from None
