"""Snapshots of a fit in progress, from which an interrupted fit goes on to the same result.

A snapshot is a tree: dicts whose leaves are arrays or JSON values. On disk it is an uncompressed
``.npz``: one array for each array of the tree, named by its path, and the rest as JSON text.
Nothing in it is ever unpickled, and it is replaced as a whole or not at all.
"""

import hashlib
import json
import time
from dataclasses import asdict
from pathlib import Path

import numpy as np

from sdcd.errors import InputError
from sdcd.estimator.stages import StageProgress
from sdcd.estimator.state import PARAMETERS, Candidates, StageState
from sdcd.files import atomic_path, read_npz


class Checkpoint:
    """A file to which a fit saves its progress from time to time.

    Parameters
    ----------
    path : path
        The snapshot. If it exists, :meth:`load` gives what it holds.
    interval : float
        Seconds between two snapshots.
    identity : dict
        JSON values that name the fit: parameters and a digest of the data. A snapshot of another
        fit is refused.
    """

    def __init__(self, path: str | Path, interval: float, identity: dict):
        self.path = Path(path)
        self.interval = interval
        self.identity = identity
        self._last = time.monotonic()

    def due(self) -> bool:
        """Whether the interval has passed since the last snapshot (or the start)."""
        return time.monotonic() - self._last >= self.interval

    def save(self, tree: dict) -> None:
        """Replace the snapshot."""
        arrays = {}
        values = _split({"identity": self.identity, "content": tree}, "", arrays)
        arrays["json"] = np.array(json.dumps(values))
        with atomic_path(self.path) as temporary, open(temporary, "wb") as stream:
            np.savez(stream, **arrays)
        self._last = time.monotonic()

    def load(self) -> dict | None:
        """The tree that was last saved, or ``None`` if there is no snapshot.

        Raises
        ------
        InputError
            If the file is not a snapshot, or one of a fit with other data or parameters.
        """
        if not self.path.exists():
            return None
        content, identity = snapshot(self.path)
        for key in {**identity, **self.identity}:
            if identity.get(key) != self.identity.get(key):
                raise InputError(
                    f"{self.path}: checkpoint of another fit: {key} is {identity.get(key)!r} "
                    f"there and {self.identity.get(key)!r} here; delete it or choose another path"
                )
        return content

    def remove(self) -> None:
        """Delete the snapshot of a fit that has ended."""
        self.path.unlink(missing_ok=True)


def snapshot(path: str | Path) -> tuple[dict, dict]:
    """The tree in a snapshot, and the identity of its fit; :class:`InputError` if it is none."""
    arrays = read_npz(path)
    try:
        tree = _join(json.loads(arrays["json"].item()), "", arrays)
        return tree["content"], tree["identity"]
    except (KeyError, ValueError, TypeError):
        raise InputError(f"{path}: not a checkpoint of a fit") from None


def digest(*arrays: np.ndarray | None) -> str:
    """A hash of the arrays' shapes, dtypes and bytes."""
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        if array is None:
            total.update(b"none")
        else:
            total.update(f"{array.shape}{array.dtype.str}".encode())
            total.update(np.ascontiguousarray(array).data)
    return total.hexdigest()


def state_tree(state: StageState | None) -> dict | None:
    """A state as a tree, without its candidates."""
    if state is None:
        return None
    own = {name: getattr(state, name) for name in (*PARAMETERS, "left", "right", "step")}
    return {**own, "first": state.first, "second": state.second}


def state_of_tree(tree: dict | None, candidates: Candidates) -> StageState | None:
    """Undo :func:`state_tree`."""
    return None if tree is None else StageState(candidates=candidates, **tree)


def progress_tree(progress: StageProgress) -> dict:
    """A loop's progress as a tree, without the candidates of its best state."""
    values = {key: getattr(progress, key) for key in StageProgress.__dataclass_fields__}
    # JSON has no infinity.
    best_loss = progress.best_loss if progress.best is not None else None
    return {**values, "best": state_tree(progress.best), "best_loss": best_loss}


def progress_of_tree(tree: dict, candidates: Candidates) -> StageProgress:
    """Undo :func:`progress_tree`."""
    best = state_of_tree(tree["best"], candidates)
    best_loss = np.inf if tree["best_loss"] is None else tree["best_loss"]
    return StageProgress(**{**tree, "best": best, "best_loss": best_loss})


def candidates_tree(candidates: Candidates) -> dict:
    """Candidates as a tree."""
    return asdict(candidates)


def _split(value, path: str, arrays: dict):
    """Move the arrays of a tree into ``arrays``; what is left is JSON, ``{"array": path}``."""
    if isinstance(value, np.ndarray):
        arrays[path] = value
        return {"array": path}
    if isinstance(value, dict):
        return {key: _split(item, f"{path}.{key}", arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_split(item, f"{path}.{i}", arrays) for i, item in enumerate(value)]
    return value


def _join(value, path: str, arrays: dict):
    if isinstance(value, dict):
        if value.keys() == {"array"}:
            return arrays[value["array"]]
        return {key: _join(item, f"{path}.{key}", arrays) for key, item in value.items()}
    if isinstance(value, list):
        return [_join(item, f"{path}.{i}", arrays) for i, item in enumerate(value)]
    return value
