"""The families of data sets that experiments name, each with its generator."""

from sdcd.data.dataset import Dataset
from sdcd.simulation.dcdi import simulate_dcdi
from sdcd.simulation.paper import simulate


def simulate_family(
    family: str,
    d: int,
    s: int,
    seed: int,
    *,
    fraction: float = 0.0,
    mechanism: str = "",
    n_observational: int = 10_000,
    n_per_intervention: int = 500,
) -> Dataset:
    """A data set of the family ``observational``, ``interventional`` or ``dcdi``.

    ``fraction`` and ``n_per_intervention`` are of the interventional family, ``mechanism`` of
    ``dcdi``, where ``n_observational`` is the number of all rows, those with interventions too; see
    :func:`sdcd.simulation.simulate` and :func:`sdcd.simulation.simulate_dcdi`.
    """
    if family == "dcdi":
        return simulate_dcdi(d, s, mechanism, seed, n=n_observational)
    return simulate(
        d,
        s,
        seed,
        fraction=fraction if family == "interventional" else None,
        n_observational=n_observational,
        n_per_intervention=n_per_intervention,
    )
