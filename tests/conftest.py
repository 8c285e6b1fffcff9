"""What tests share: one thread for each, and runs of the workflow that are made once."""

import os

import pytest
from support.slurm import Unavailable, one_node_cluster
from support.workflow import SMOKE, copy_of, new_clone, snakemake

# Fits have one thread too: their arrays are too small to gain from more.
for variable in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(variable, "1")


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A copy of the clone in which scale smoke has been run."""
    clone = new_clone(tmp_path_factory.mktemp("workflow") / "clone")
    snakemake(clone, *SMOKE)
    return clone


@pytest.fixture
def clone(finished, tmp_path):
    """A copy of the finished run, to change something in."""
    return copy_of(finished, tmp_path / "clone")


@pytest.fixture(scope="session")
def cluster(pytestconfig):
    """A SLURM cluster of this machine alone; without it a test is skipped, and a line says so."""
    try:
        with one_node_cluster() as cluster:
            yield cluster
    except Unavailable as error:
        capture = pytestconfig.pluginmanager.getplugin("capturemanager")
        with capture.global_and_fixture_disabled():
            print(f"\nWARNING: no SLURM here, its tests are SKIPPED: {error}")
        pytest.skip(f"no SLURM here: {error}")
