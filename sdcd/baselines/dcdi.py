"""DCDI-G and DCDI-DSF: Brouillard et al., "Differentiable Causal Discovery from Interventional
Data", 2020.

The two methods, their settings as run, and what of a fit is returned. The objective, the masks and
the densities are in :mod:`sdcd.baselines.dcdi_models.model`, the training loops and the multipliers
in :mod:`sdcd.baselines.dcdi_models.augmented_lagrangian`.
"""

from sdcd.errors import InputError
from sdcd.methods import Graph, register
from sdcd.parameters import integer, number, one_of

_DEFAULTS = {
    "regularisation": 0.1,
    "learning_rate": 1e-3,
    "hidden": 16,
    "layers": 2,
    "max_epochs": 60_000,
    "max_steps": 1_000_000,
    "normalise_constraint": True,
}
_RANGES = {
    "regularisation": number(0),
    "learning_rate": number(above=0),
    "hidden": integer(1),
    "layers": integer(1),
    "max_epochs": integer(1),
    "max_steps": integer(1),
    "controller": one_of("port", "original"),
    "dtype": one_of("float32", "float64"),
}


@register(
    name="DCDI-G",
    data="interventional",
    defaults={**_DEFAULTS, "controller": "port", "dtype": "float32"},
    ranges=_RANGES,
    source="Brouillard et al. 2020, as run by the SDCD authors: DCD-FG's float32 port",
)
def fit_gaussian(X, intervened, names, seed, *, controller, dtype, **settings) -> Graph:
    """Gaussian densities. The defaults are what the SDCD authors ran, numerical accidents included.

    Defaults: ``regularisation`` (lambda) 0.1; RMSprop with ``learning_rate`` 1e-3; ``layers`` 2
    hidden layers of ``hidden`` 16 units; ``max_epochs`` 60,000; ``max_steps`` 1,000,000 (the limit
    of the original's loop); ``normalise_constraint`` true: h is divided by its value on the
    complete graph; ``controller`` "port", or "original" for the loop and the rules of the published
    DCDI; ``dtype`` "float32", or "float64", in which neither the constant of the constraint nor the
    penalty weight leaves the range of the numbers.

    Raises
    ------
    MethodFailure
        ``overflow``: the constraint's constant is not finite (float32: from d = 90 on);
        ``nan``: a parameter, or the loss when multipliers grow, stopped being finite (float32: at
        d = 50, when mu is infinite); ``error``: growing multipliers lowered the loss.
    """
    from sdcd.baselines.dcdi_models.model import Gaussian

    return _fit(Gaussian(), X, intervened, seed, controller, dtype, **settings)


@register(
    name="DCDI-DSF",
    data="interventional",
    defaults={**_DEFAULTS, "controller": "original", "dtype": "float64"},
    ranges=_RANGES,
    source="Brouillard et al. 2020, rules and precision of the published DCDI",
)
def fit_flow(X, intervened, names, seed, *, controller, dtype, **settings) -> Graph:
    """Deep sigmoidal flows, 2 layers of 16 units.

    Parameters and failures as of DCDI-G, but by default the published DCDI's ``controller``
    "original" and ``dtype`` "float64".
    """
    from sdcd.baselines.dcdi_models.model import SigmoidalFlow

    return _fit(SigmoidalFlow(), X, intervened, seed, controller, dtype, **settings)


def _fit(
    density,
    X,
    intervened,
    seed,
    controller,
    dtype,
    *,
    regularisation,
    learning_rate,
    hidden,
    layers,
    max_epochs,
    max_steps,
    normalise_constraint,
):
    """Train until the graph {P > 0.5} is acyclic and h is small, and return that graph.

    The published DCDI then goes on fitting the densities with the graph held fixed, which no longer
    changes what is returned here, and so is left out.
    """
    import torch

    from sdcd.baselines.dcdi_models import augmented_lagrangian as al
    from sdcd.baselines.dcdi_models.model import DCDI
    from sdcd.graphs import is_acyclic

    if controller not in ("port", "original"):
        raise InputError(f"controller is {controller!r}, expected 'port' or 'original'")
    if dtype not in ("float32", "float64"):
        raise InputError(f"dtype is {dtype!r}, expected 'float32' or 'float64'")
    generator = torch.Generator().manual_seed(seed)
    train, validation = al.split(X, intervened, dtype, generator)
    model = DCDI(
        X.shape[1],
        density,
        dtype=dtype,
        normalise_constraint=normalise_constraint,
        seed=seed,
        hidden=hidden,
        layers=layers,
    )
    threshold = {"port": 1e-7, "original": 1e-8}[controller]

    def feasible(lagrangian):
        return lagrangian.h <= threshold and is_acyclic(model.edge_probabilities() > 0.5)

    if controller == "port":
        lagrangian = al.AugmentedLagrangian(al.PORT, dtype, regularisation)
        outcome = al.minimise_by_epochs(
            model, train, validation, lagrangian, feasible,
            max_epochs=max_epochs, rate=learning_rate,
        )  # fmt: skip
    else:
        lagrangian = al.AugmentedLagrangian(al.ORIGINAL, dtype, regularisation)
        outcome = al.minimise_by_steps(
            model, train, validation, lagrangian, feasible,
            max_steps=max_steps, rate=learning_rate, generator=generator,
        )  # fmt: skip
    P = model.edge_probabilities()
    adjacency = P > 0.5
    return Graph(
        adjacency,
        weights=P,
        diagnostics={
            ("epochs" if controller == "port" else "steps"): outcome.rounds,
            "stopped": outcome.stopped,
            **lagrangian.summary(),
            "h_undivided": float(lagrangian.h) * float(model.constant),
            "constraint_constant": float(model.constant),
            "threshold": 0.5,
            "acyclic": is_acyclic(adjacency),
        },
    )
