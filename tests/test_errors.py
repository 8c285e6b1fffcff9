"""Errors say what they mean, also where they were not raised."""

import copy
import pickle

import pytest

from sdcd.errors import FAILURE_STATUSES, InputError, MethodFailure


@pytest.mark.parametrize("copied", [copy.copy, lambda error: pickle.loads(pickle.dumps(error))])
@pytest.mark.parametrize("status", FAILURE_STATUSES)
def test_a_failure_survives_the_way_between_processes(copied, status):
    failure = copied(MethodFailure(status, "loss is nan after 17 epochs"))
    assert (failure.status, failure.reason) == (status, "loss is nan after 17 epochs")
    assert str(failure) == "loss is nan after 17 epochs"
    assert type(copied(InputError("x"))) is InputError


def test_a_failure_has_one_of_the_known_statuses():
    with pytest.raises(ValueError, match="unknown failure status 'broken'"):
        MethodFailure("broken", "")
