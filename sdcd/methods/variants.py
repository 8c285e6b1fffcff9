"""SDCD and its ablations as registered methods.

They differ in :data:`DIFFERENCES` only; everything else is the default of
:class:`~sdcd.estimator.SDCD`, the setting of the published runs.
"""

import inspect
from types import MappingProxyType

from sdcd.data.knowledge import Knowledge
from sdcd.estimator import SDCD, StageOne, gather
from sdcd.estimator.estimator import RANGES
from sdcd.methods.contract import FirstStage, Graph, Part, register

# Not settings of the method: the caller gives the seed, and reports are for people.
_NOT_SETTINGS = ("self", "seed", "progress")
_DEFAULTS = {
    name: parameter.default
    for name, parameter in inspect.signature(SDCD.__init__).parameters.items()
    if name not in _NOT_SETTINGS
}
_NO_STAGE_1 = {"preselect": False, "mask": False}

LARGEST_KEPT_STAGE_1 = 100
"""Stage 1's weights are kept up to so many variables: they are dense, and only for pictures."""

DIFFERENCES = MappingProxyType(
    {
        "SDCD": {},
        "SDCD-GPU": {"device": "cuda"},
        "SDCD-warm": {"warm_start": True},
        "SDCD-warm-nomask": {"warm_start": True, "mask": False},
        "SDCD-no-s1": _NO_STAGE_1,
        "SDCD-no-s1-2": {
            **_NO_STAGE_1,
            "alpha_2": _DEFAULTS["alpha_1"],
            "beta_2": _DEFAULTS["beta_1"],
        },
        "SDCD-exp": {"penalty": "exp"},
        "SDCD-log": {"penalty": "log_squared"},
    }
)
"""What each variant sets otherwise than SDCD.

Which argument the published SDCD-log gave to h_log, A or A * A, is not recorded. On its data sets
with d = 10 (five seeds) the mean SHD is 20.2 with h_log(A), 12.6 with h_log(A * A) and 11.2 as
published, so ``penalty="log_squared"`` stands here; ``penalty="log"`` is the other. Where A (or
A * A) leaves the domain of h_log, the penalty is taken at the largest multiple of it that is well
inside, see :func:`sdcd.estimator.model.log_domain_scale`; ``log_domain_escapes`` counts the steps
at which this happened."""

_SOURCES = {
    "SDCD": "the paper; settings of the published runs",
    "SDCD-GPU": "the paper; the same on a GPU",
    **dict.fromkeys(
        ("SDCD-warm", "SDCD-warm-nomask", "SDCD-no-s1", "SDCD-no-s1-2"),
        "the paper's ablation of stage 1",
    ),
    **dict.fromkeys(("SDCD-exp", "SDCD-log"), "the paper's ablation of stage 2's penalty"),
}

PRELOAD = {
    "": ("sdcd.estimator.engine_numba:warm_up",),
    "SDCD-GPU": ("sdcd.estimator.engine_torch",),
    # Stage 1 in compiled kernels, stage 2 in torch.
    "SDCD-exp": ("sdcd.estimator.engine_numba:warm_up", "sdcd.estimator.engine_torch"),
    "SDCD-log": ("sdcd.estimator.engine_numba:warm_up", "sdcd.estimator.engine_torch"),
}
"""What is imported and compiled before a fit's clock starts, see :mod:`sdcd.fits.child`."""


def _register(name: str) -> None:
    @register(
        name=name,
        data="interventional",
        defaults={**_DEFAULTS, **DIFFERENCES[name]},
        ranges={key: RANGES[key] for key in _DEFAULTS},
        source=_SOURCES[name],
        first_stage=FirstStage(fit_stage_1, _stage_1_parameters),
        reports=True,
        knowledge=True,
    )
    def fit(
        X, intervened, names, seed, *, first_stage=(), progress=False, knowledge=None, **params
    ) -> Graph:
        stage_1 = gather([StageOne.load(path) for path in first_stage]) if first_stage else None
        model = SDCD(seed=seed, progress=progress, **params)
        known = Knowledge.of(knowledge, names) if knowledge else None
        masks = {"forbidden": known.forbidden, "required": known.required} if known else {}
        return graph_of(model.fit(X, intervened, stage_1=stage_1, **masks))


def fit_stage_1(X, intervened, names, seed, targets, **params) -> Part:
    """Stage 1 for some targets: see :class:`~sdcd.methods.contract.FirstStage`."""
    model = SDCD(seed=seed, **params)
    block = model.fit_stage_1(X, intervened, targets)
    return Part(block.tree(), {"epochs": {"stage1": int(block.epochs.max())}, **_resumed(model)})


def _stage_1_parameters(params) -> dict:
    if "knowledge" in params:
        return {}
    return {name: params[name] for name in SDCD(**params).stage_1_params() if name in params}


def _resumed(model: SDCD) -> dict:
    return {"resumed_after_s": model.resumed_after_} if model.resumed_after_ else {}


def graph_of(model: SDCD) -> Graph:
    """A fitted estimator as what a registered method returns.

    ``arrays`` has ``selected``, bool (d, d): the edges that stage 2 may use; and, if there was a
    stage 1 and d is at most :data:`LARGEST_KEPT_STAGE_1`, ``stage_1_weights``, float32 (d, d):
    stage 1's A.
    """
    arrays = {"selected": model.selected_}
    if model.n_features_in_ <= LARGEST_KEPT_STAGE_1 and model.stage_1_weights_ is not None:
        arrays["stage_1_weights"] = model.stage_1_weights_
    gammas = [
        (record["epoch"] - 1, record["gamma"]) for record in model.history_ if record["stage"] == 2
    ]
    return Graph(
        adjacency=model.adjacency_,
        weights=model.weights_,
        diagnostics={
            "threshold": model.tau_2,
            "epochs": model.epochs_,
            # As the published logs have it: the gamma of the last epoch 0, 100, 200, ....
            "last_gamma": next(g for epoch, g in reversed(gammas) if epoch % 100 == 0),
            # Also theirs: of the edges stage 2 may use, whether or not there was a stage 1.
            "mask_density": len(model.edges_.parents) / model.n_features_in_**2,
            "gamma_frozen": bool(model.history_[-1]["frozen"]),
            "log_domain_escapes": model.log_domain_escapes_,
            **_batches(model),
            **_blocks(model),
            **_resumed(model),
        },
        arrays=arrays,
    )


def _batches(model: SDCD) -> dict:
    """The batch size, where there are too few rows for the one asked for (and the paper's)."""
    shortened = model.batch_size_ < model.batch_size
    return {"batch_size_all_training_rows": model.batch_size_} if shortened else {}


def _blocks(model: SDCD) -> dict:
    """Which targets stopped early together in stage 1, where not all did."""
    stage_1 = model.stage_1_
    if stage_1 is None or len(stage_1.blocks) == 1:
        return {}
    return {
        "stage_1_blocks": stage_1.blocks.tolist(),
        "stage_1_block_epochs": stage_1.epochs.tolist(),
    }


for _name in DIFFERENCES:
    _register(_name)
