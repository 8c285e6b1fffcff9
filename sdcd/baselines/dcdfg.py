"""DCD-FG: Lopez et al., NeurIPS 2022; the problem is in ``dcdi_models.factor_graph``."""

from sdcd.errors import InputError
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number, one_of


@register(
    name="DCD-FG",
    data="interventional",
    defaults={
        "modules": 10,
        "regularisation": 0.1,
        "learning_rate": 1e-3,
        "hidden": 16,
        "layers": 2,
        "max_epochs": 60_000,
        "dtype": "float32",
    },
    ranges={
        "modules": integer(1),
        "regularisation": number(0),
        "learning_rate": number(above=0),
        "hidden": integer(1),
        "layers": integer(1),
        "max_epochs": integer(1),
        "dtype": one_of("float32", "float64"),
    },
    source="Lopez et al. 2022, as run by the SDCD authors: 10 modules, batches of 128, float32",
)
def fit(
    X,
    intervened,
    names,
    seed,
    *,
    modules,
    regularisation,
    learning_rate,
    hidden,
    layers,
    max_epochs,
    dtype,
) -> Graph:
    """Networks from variables to modules, linear from modules to variables.

    Defaults: ``modules`` 10, at most d; ``regularisation`` (lambda) 0.1; RMSprop with
    ``learning_rate`` 1e-3; ``layers`` 2 hidden layers of ``hidden`` 16 units; ``max_epochs``
    60,000; ``dtype`` "float32" as run, in which the constraint rounds to zero before the graph is
    acyclic, or "float64", in which it does not.

    The weights are the soft edges P, which may exceed 1.

    Raises
    ------
    MethodFailure
        ``nan``: a parameter, or the loss when multipliers grow, stopped being finite; ``error``:
        growing multipliers lowered the loss.
    """
    import torch

    from sdcd.baselines.dcdi_models import augmented_lagrangian as al
    from sdcd.baselines.dcdi_models.factor_graph import DCDFG, largest_confident_dag
    from sdcd.graphs import is_acyclic

    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype is {dtype!r}, expected 'float32' or 'float64'")
    d = X.shape[1]
    train, validation = al.split(X, intervened, dtype, torch.Generator().manual_seed(seed))
    model = DCDFG(d, min(modules, d), dtype=dtype, seed=seed, hidden=hidden, layers=layers)
    lagrangian = al.AugmentedLagrangian(al.PORT, dtype, regularisation)

    def feasible(lagrangian):
        return (lagrangian.h <= 1e-8 or lagrangian.mu >= 1e15) and lagrangian.updates >= 10

    outcome = al.minimise_by_epochs(
        model, train, validation, lagrangian, feasible, max_epochs=max_epochs, rate=learning_rate
    )
    pi = model.role_probabilities()
    P = model.edge_probabilities()
    adjacency, threshold = largest_confident_dag(pi)
    return Graph(
        adjacency,
        weights=P,
        diagnostics={
            "epochs": outcome.rounds,
            "stopped": outcome.stopped,
            **lagrangian.summary(),
            "threshold": threshold,
            "acyclic_before_threshold": is_acyclic(P > 0.5),
        },
    )
