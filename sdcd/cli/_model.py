"""``fit.model.npz``: the model of a fit's graph, which ``sdcd fit`` leaves for other commands."""

from pathlib import Path

from sdcd.cli._files import note
from sdcd.errors import InputError, MethodFailure


def model_path(fit: str | Path) -> Path:
    """Where the model of a fit is."""
    return Path(fit).with_suffix(".model.npz")


def write_model(fit: Path, data: Path, mean, sd, *, seed: int, threads: int):
    """Fit the model of a fit's graph, and write it beside the fit.

    Parameters
    ----------
    fit : path
        ``fit.npz``; one that failed, or is no DAG, has no model, the latter with a word about it.
    data : path
        What it was fitted to, ``.npz``.
    mean, sd : float64 (d,)
        What was subtracted from each column of the file, and what it was divided by: the model is
        in the units before that.
    seed, threads : int
        As :func:`sdcd.estimator.generative.fit_generative` takes them.

    Returns
    -------
    float64 (d, d) or None
        The slopes of the edges, see :func:`sdcd.estimator.signs.mean_slopes`.
    """
    from sdcd.data.dataset import read_dataset
    from sdcd.estimator.generative import fit_generative
    from sdcd.estimator.signs import mean_slopes
    from sdcd.fits.record import load_fit

    graph, _ = load_fit(fit)
    if graph is None:
        return None
    dataset = read_dataset(data)
    known = {"names": dataset.names, "seed": seed, "threads": threads}
    try:
        model = fit_generative(graph.adjacency, dataset.X, dataset.intervened, **known)
    except (InputError, MethodFailure) as error:
        note(f"sdcd: no model of the graph, and no slopes: {error}")
        return None
    model.in_units(mean, sd).save(model_path(fit))
    return mean_slopes(model, dataset.X, dataset.intervened)


def read_model(fit: str | Path, adjacency, names: tuple[str, ...]):
    """The model beside a fit, or None if there is none.

    Raises
    ------
    InputError
        If it is not a model, or one of another graph.
    """
    from sdcd.estimator.generative import GenerativeModel

    path = model_path(fit)
    if not path.exists():
        return None
    model = GenerativeModel.load(path)
    if model.names != names or ((adjacency != 0) != model.adjacency).any():
        raise InputError(
            f"{path}: the model of another graph than that of {fit}, expected its own: delete it, "
            "and fit again or say --fitted-on"
        )
    return model
