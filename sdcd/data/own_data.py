"""A person's own table: read, and refused in one clear line if it is not what a fit needs.

A table has cells of numbers under the names of the variables, and optionally a *perturbation
column* that says for each row which variables an intervention set: a label of unperturbed rows, or
one or several names of variables separated by commas (or another separator). Beside targets, labels
of unperturbed rows are passed over (``GENE1,non-targeting``).

No row becomes unperturbed by accident: one whose target is no variable, or which has no label at
all, is refused until the caller says what it is.
"""

import hashlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Literal

import numpy as np

from sdcd.data.checks import (
    check_cells,
    check_fittable,
    constant_columns,
    listing,
    nearly_constant_columns,
)
from sdcd.data.tables import MISSING, Table, few, read_parquet, read_text, shortened
from sdcd.errors import DataError, InputError
from sdcd.parameters import closest

DEFAULT_CONTROLS = ("control", "ctrl", "non-targeting")
"""Labels of unperturbed rows, in any case, where the caller names none."""

SUFFIXES = (".csv", ".tsv", ".csv.gz", ".tsv.gz", ".parquet", ".h5ad", ".zarr")
"""Of the files that are read as tables, in any case."""

FEWEST_ROWS = 10
"""A column that differs from its usual value in fewer rows is called nearly constant."""


SEPARATORS = ("+", "||", "|", ";", "&", "/", ",", "_")
"""What labels of other people have between the targets of one row."""


@dataclass(frozen=True)
class TableOptions:
    """How a table is to be read.

    Attributes
    ----------
    perturbation_column : str or None
        Column of the table, or of ``obs``. Without one every row is unperturbed.
    controls : tuple of str or None
        Labels of unperturbed rows, exactly as written; :data:`DEFAULT_CONTROLS` if absent.
    separator : str
        Between the targets of one row.
    unlabelled : "refuse", "control" or "drop"
        What a row without a label is.
    drop_labels : tuple of str
        Rows with one of these labels are left out.
    drop_unmeasured : bool
        Whether rows with a target that is no variable are left out, instead of refused.
    ignore_columns : tuple of str
        Columns (for annotated matrices: variables) that are left out.
    drop_constant : bool
        Whether constant and nearly constant columns are left out.
    layer : str or None
        Of an annotated matrix, instead of ``X``; ``raw`` is ``raw.X``.
    names_column : str or None
        Column of ``var`` that names the variables of an annotated matrix.
    normalise : bool
        Whether counts are divided by their row's total, multiplied by the median total, and
        replaced by log(1 + x).
    """

    perturbation_column: str | None = None
    controls: tuple[str, ...] | None = None
    separator: str = ","
    unlabelled: Literal["refuse", "control", "drop"] = "refuse"
    drop_labels: tuple[str, ...] = ()
    drop_unmeasured: bool = False
    ignore_columns: tuple[str, ...] = ()
    drop_constant: bool = False
    layer: str | None = None
    names_column: str | None = None
    normalise: bool = False


def given(options: TableOptions) -> str:
    """The first option that is not the default, as the command calls it; empty without one."""
    for field_ in fields(options):
        if getattr(options, field_.name) != field_.default:
            return "--" + field_.name.removesuffix("s").replace("_", "-")
    return ""


@dataclass
class OwnTable:
    """A table as a fit takes it.

    Attributes
    ----------
    X : float32 or float64 (n, d)
        Values.
    intervened : bool (n, d)
        Which values an intervention set.
    names : tuple of d str
        Names of the variables.
    left_out : list of str
        What is not there any more, each in words with its number.
    warnings : list of str
        What a person should know before they believe the fit.
    """

    X: np.ndarray
    intervened: np.ndarray
    names: tuple[str, ...]
    left_out: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def suffix_of(path: str | Path) -> str | None:
    """Which of :data:`SUFFIXES`, or ``.npz``, a file has; None if none of them."""
    name = Path(path).name.lower()
    return next((suffix for suffix in (".npz", *SUFFIXES) if name.endswith(suffix)), None)


def read_own(path: str | Path, options: TableOptions | None = None) -> OwnTable:
    """Read and check a table.

    Parameters
    ----------
    path : path
        With one of :data:`SUFFIXES`.
    options : TableOptions, optional
        How.

    Returns
    -------
    OwnTable

    Raises
    ------
    InputError
        For the first fault found. Rows are named as they are found in the file: in a ``.csv`` the
        line, the header being line 1; elsewhere the row, counted from 1.
    """
    path, options = Path(path), options or TableOptions()
    table = _read(path, options)
    if len(table.names) < 2:
        raise InputError(
            f"{path}: {len(table.names)} column(s) of values, expected at least 2 variables"
        )
    check_cells(path, table.names, table.X, table.row)
    own, rows = _with_targets(path, table, options)
    own.warnings += _about_values(own, table.layers, options)
    if options.normalise:
        _normalise(path, own, lambda r: table.row(int(rows[r])))
    nearly = [own.names[j] for j in _nearly_constant(own.X)]
    if nearly:
        own.warnings.append(
            f"{len(nearly)} nearly constant columns, which differ from their usual value in fewer "
            f"than {FEWEST_ROWS} rows: {listing(nearly)}; --drop-constant leaves them out"
        )
    perturbed = own.intervened.any(axis=1)
    if table.labels is not None and perturbed.all():
        own.warnings.append(
            "no row is unperturbed: each variable is compared with rows that perturb others only"
        )
    if table.labels is not None and not perturbed.any():
        own.warnings.append("no row is perturbed: the data count as observational")
    try:
        check_fittable(own.names, own.X, own.intervened)
    except DataError as error:
        raise InputError(f"{path}: {error}") from None
    return own


def check_as_fitted(path: str | Path, dataset) -> None:
    """Refuse a data set (:class:`~sdcd.data.dataset.Dataset`) on the scale on which it is fitted.

    Standardised columns can be identical where those of the file are not.

    Raises
    ------
    InputError
        As :func:`sdcd.data.checks.check_fittable` refuses data, with the variables' names; and if a
        column is another one's negative.
    """
    names, X = dataset.names, dataset.X
    try:
        check_fittable(names, X, dataset.intervened)
    except DataError as error:
        # An option of tables, which have been looked at for that.
        way_out = " (--drop-constant leaves such columns out)"
        raise InputError(f"{path}: {str(error).removesuffix(way_out)}") from None
    seen: dict[bytes, str] = {}
    for j, name in enumerate(names):
        column = X[:, j]
        # Up to its sign; identical ones are refused above. Adding zero makes -0.0 and 0.0 the same.
        sign = np.sign(column[np.flatnonzero(column)[0]])
        digest = hashlib.blake2b((column * sign + 0).tobytes(), digest_size=16).digest()
        if digest in seen:
            raise InputError(
                f"{path}: columns {seen[digest]!r} and {name!r} are each other's negative in all "
                f"{len(X)} rows, expected distinct variables"
            )
        seen[digest] = name


def _read(path: Path, options: TableOptions) -> Table:
    suffix = suffix_of(path)
    column, ignored = options.perturbation_column, options.ignore_columns
    if suffix is None or suffix == ".npz":
        raise InputError(
            f"{path}: files {f'called {path.suffix!r}' if path.suffix else 'without a suffix'} are "
            f"not read, expected .npz, {', '.join(SUFFIXES)}"
        )
    if suffix in (".h5ad", ".zarr"):
        from sdcd.data.annotated import read_annotated

        return read_annotated(path, column, ignored, options.layer, options.names_column)
    for option, value in (("--layer", options.layer), ("--names-column", options.names_column)):
        if value is not None:
            raise InputError(f"{path}: {option} is for .h5ad and .zarr")
    if suffix == ".parquet":
        return read_parquet(path, column, ignored)
    return read_text(path, column, ignored, "\t" if suffix.startswith(".tsv") else ",")


# Perturbations


def _with_targets(path: Path, table: Table, options: TableOptions) -> tuple[OwnTable, np.ndarray]:
    """The table with its labels understood, without the rows and columns to leave out.

    And which rows of the file these are.
    """
    X, names = table.X, list(table.names)
    n = len(X)
    rows, left_out = np.ones(n, dtype=bool), []
    if table.labels is None:
        about = ("controls", "separator", "unlabelled", "drop_labels", "drop_unmeasured")
        alone = given(TableOptions(**{name: getattr(options, name) for name in about}))
        if alone:
            raise InputError(f"{path}: {alone} is about labels, expected --perturbation-column too")
        labels, known = [""] * n, {"": []}
    else:
        labels = table.labels
        rows, left_out = _dropped_by_label(path, table, options)
        known = _understood(path, table, options, rows, names)
    if not rows.any():
        raise InputError(f"{path}: no row is left ({'; '.join(left_out)})")
    while True:
        targets = {label: known[label] for label in dict.fromkeys(labels)}
        unmeasured = np.array([targets[label] is None for label in labels])
        unmeasured &= rows
        if unmeasured.any():
            counts = Counter(labels[r] for r in np.flatnonzero(unmeasured))
            left_out.append(_counted(counts, "with targets that are no variable"))
            rows &= ~unmeasured
            if not any(targets[labels[r]] for r in np.flatnonzero(rows)):
                raise InputError(
                    f"{path}: no perturbed row is left ({'; '.join(left_out)}), expected some "
                    f"targets that are variables{_named_elsewhere(list(counts), table)}"
                )
        if not options.drop_constant:
            break
        here = X if rows.all() else X[rows]
        constant = sorted({*constant_columns(here), *_nearly_constant(here)})
        if not constant:
            break
        dropped = [names[j] for j in constant]
        left_out.append(f"{len(dropped)} (nearly) constant columns: {listing(dropped)}")
        kept = [j for j in range(len(names)) if j not in set(constant)]
        X, names = X[:, kept], [names[j] for j in kept]
        if len(names) < 2:
            raise InputError(f"{path}: fewer than 2 columns vary, expected at least 2 variables")
        if table.labels is not None:
            known = _understood(path, table, options, rows, names)
    index = {name: j for j, name in enumerate(names)}
    kept_rows = np.flatnonzero(rows)
    intervened = np.zeros((len(kept_rows), len(names)), dtype=bool)
    for position, r in enumerate(kept_rows):
        for name in targets[labels[r]]:
            intervened[position, index[name]] = True
    own = OwnTable(X if rows.all() else X[rows], intervened, tuple(names), left_out)
    return own, kept_rows


def _nearly_constant(X: np.ndarray) -> list[int]:
    # A value that most rows do not have is no usual one.
    return nearly_constant_columns(X, min(FEWEST_ROWS, len(X) // 2))


def _is_control(options: TableOptions):
    """Whether a label says that its row is unperturbed, and the labels to show for it."""
    if options.controls is not None:
        return frozenset(options.controls).__contains__, options.controls
    spelled = {label.lower() for label in DEFAULT_CONTROLS}
    return (lambda label: label.lower() in spelled), DEFAULT_CONTROLS


def _dropped_by_label(
    path: Path, table: Table, options: TableOptions
) -> tuple[np.ndarray, list[str]]:
    """Which rows stay, after those that a label, or its absence, leaves out; and what to say."""
    labels, left_out = table.labels, []
    rows = np.ones(len(labels), dtype=bool)
    counts = Counter(labels)
    for label in options.drop_labels:
        if label not in counts:
            raise InputError(
                f"{path}: no row has the label {label!r} of --drop-label{closest(label, counts)}"
            )
    if options.drop_labels:
        dropped = {label: counts[label] for label in options.drop_labels}
        rows &= np.array([label not in dropped for label in labels])
        left_out.append(_counted(Counter(dropped), "by --drop-label"))
    missing = np.array([_unlabelled(label, table.names, options) for label in labels]) & rows
    if missing.any() and options.unlabelled == "refuse":
        first, number = int(np.flatnonzero(missing)[0]), int(missing.sum())
        raise InputError(
            f"{path}: {table.row(first)}, column {options.perturbation_column!r}: no label, as in "
            f"{number} row(s), expected one in every row; --unlabelled drop leaves such rows out, "
            "--unlabelled control takes them as unperturbed, if they are"
        )
    if missing.any() and options.unlabelled == "drop":
        rows &= ~missing
        left_out.append(f"{int(missing.sum())} rows without a label")
    return rows, left_out


def _unlabelled(label: str, names: Sequence[str], options: TableOptions) -> bool:
    if label.lower() not in MISSING:
        return False
    return label not in (options.controls or ()) and label not in names


def _understood(
    path: Path, table: Table, options: TableOptions, rows: np.ndarray, names: Sequence[str]
) -> dict[str, list[str] | None]:
    """The targets of each label by name; None where one is no variable, if that is allowed."""
    is_control, shown = _is_control(options)
    variables = set(names)
    known: dict[str, list[str] | None] = {}
    wrong: dict[str, str] = {}
    for label in dict.fromkeys(table.labels):
        if options.controls is None and label in variables and is_control(label):
            raise InputError(
                f"{path}: column {options.perturbation_column!r}: label {label!r} is a variable "
                "and a usual label of unperturbed rows, expected one; --control says which "
                "labels mean unperturbed"
            )
        if _unlabelled(label, table.names, options) or is_control(label):
            known[label] = []
        elif label in variables:
            known[label] = [label]
        else:
            parts = [part.strip() for part in label.split(options.separator)]
            parts = [part for part in parts if part and not is_control(part)]
            unknown = [part for part in parts if part not in variables]
            known[label] = None if unknown or not parts else parts
            if known[label] is None:
                wrong[label] = unknown[0] if unknown else label
    wrong_rows = [r for r in np.flatnonzero(rows).tolist() if table.labels[r] in wrong]
    for r in wrong_rows:
        # Said also to those who leave unknown targets out: these rows perturb known ones.
        if found := _separator(table.labels[r], is_control, variables):
            raise InputError(
                f"{path}: {table.row(r)}, column {options.perturbation_column!r}: "
                f"{shortened(table.labels[r])} names several targets, expected them separated by "
                f"{options.separator!r}; --separator {found!r} reads it"
            )
    if not wrong_rows or options.drop_unmeasured:
        return known
    first = wrong_rows[0]
    part = wrong[table.labels[first]]
    counts = Counter(table.labels[r] for r in wrong_rows)
    meanings = [known[table.labels[r]] for r in np.flatnonzero(rows)]
    which = "" if [] in meanings else "; which label means unperturbed is said with --control"
    others = f"{sum(counts.values())} rows have such labels ({_most_common(counts)})"
    gone = " (left out)" if part in table.names else _near_miss(part, names)
    way_out = "--drop-unmeasured leaves rows out whose target is no variable"
    if not any(meanings):
        way_out = f"no target is a variable{_named_elsewhere([wrong[c] for c in counts], table)}"
    raise InputError(
        f"{path}: {table.row(first)}, column {options.perturbation_column!r}: unknown perturbation "
        f"label {shortened(part)}{gone}, expected a variable ({few(list(names), part)}) or a label "
        f"of unperturbed rows ({', '.join(map(repr, shown))}){which}; {others}: {way_out}"
    )


def _named_elsewhere(targets: Sequence[str], table: Table) -> str:
    """Which column of ``var`` has the most targets among its names, if any has."""
    found = {c: len({*words} & {*targets}) for c, words in table.other_names.items()}
    best = max(found, key=found.get, default=None)
    if best is None or not found[best]:
        return ""
    return f"; {found[best]} of them are in the column {best!r} of var: --names-column takes it"


def _separator(label: str, is_control, variables: set[str]) -> str:
    """What a label has between targets that are all known; empty if there is no such thing."""
    for separator in SEPARATORS:
        parts = [part.strip() for part in label.split(separator)]
        understood = all(part in variables or is_control(part) for part in parts)
        if understood and any(part in variables for part in parts):
            return separator
    return ""


def _near_miss(label: str, names: Sequence[str]) -> str:
    """What a label that is no variable may have been meant for.

    Advice to leave such rows out would lose every perturbed one where labels name guides, or are
    written in another case.
    """
    for name in names:
        if name.lower() == label.lower():
            return f" (variables are matched in exactly their case: {name!r})"
    begun = [name for name in names if label.startswith(name) and not label[len(name)].isalnum()]
    if begun:
        return f" (a guide of {max(begun, key=len)!r}? labels name variables)"
    return ""


def _counted(counts: Counter, why: str) -> str:
    return f"{sum(counts.values())} rows {why}: {_most_common(counts)}"


def _most_common(counts: Counter) -> str:
    return listing([f"{shortened(label)} {number}" for label, number in counts.most_common()], 5)


# Values


def _about_values(own: OwnTable, layers: Sequence[str], options: TableOptions) -> list[str]:
    found = []
    suspects = [j for j in _no_variables(own.X) if not own.intervened[:, j].any()]
    # Those are named for another reason.
    nearly = _nearly_constant(own.X[:, suspects])
    suspects = [own.names[j] for k, j in enumerate(suspects) if k not in nearly]
    if suspects:
        found.append(
            f"{listing([repr(name) for name in suspects])}: whole numbers beside others, or "
            "numbers of rows; is each a variable? --ignore-column leaves one out that is not"
        )
    if not options.normalise and looks_like_counts(own.X):
        there = f" (layers here: {', '.join(layers)})" if layers else ""
        found.append(
            "the values are whole numbers, as raw counts are; SDCD and its rivals expect values "
            "that are normalised and on a log scale: --normalise does so, --layer takes another "
            f"matrix of an .h5ad{there}"
        )
    return found


def _no_variables(X: np.ndarray) -> list[int]:
    """Columns that may be batches or numbers of rows.

    They count the rows, or are whole where less than half of the columns are.
    """
    whole = np.arange(X.shape[1])
    for start in range(0, len(X), 1024):
        block = X[start : start + 1024, whole]
        whole = whole[(block == np.rint(block)).all(axis=0)]
        if not whole.size:
            return []
    if 2 * len(whole) < X.shape[1]:
        return whole.tolist()
    return [j for j in whole.tolist() if (np.diff(X[:, j]) == 1).all()]


def looks_like_counts(X: np.ndarray) -> bool:
    """Whether all values are whole, not negative, and more than zeros and ones."""
    largest = 0.0
    for start in range(0, len(X), 1024):
        block = X[start : start + 1024]
        if block.min() < 0 or not (block == np.rint(block)).all():
            return False
        largest = max(largest, float(block.max()))
    return largest > 1


def _normalise(path: Path, own: OwnTable, row: Callable[[int], str]) -> None:
    """Values over their row's total, times the median total, as log(1 + x): float32 (n, d)."""
    X = own.X
    for start in range(0, len(X), 1024):
        block = X[start : start + 1024]
        wrong = (block < 0) | (block != np.rint(block))
        if wrong.any():
            r, j = np.argwhere(wrong)[0]
            raise InputError(
                f"{path}: {row(start + r)}, column {own.names[j]!r}: {block[r, j]:g}, expected a "
                "count (a whole number from 0 on) for --normalise; values that are normalised "
                "already are read without it"
            )
    totals = X.sum(axis=1, dtype=np.float64)
    if not np.median(totals):
        raise InputError(f"{path}: most rows are all zero, expected counts for --normalise")
    empty = np.flatnonzero(totals == 0)
    if empty.size:
        own.warnings.append(
            f"{row(empty[0])}: no count at all, as in {empty.size} row(s); they stay zero"
        )
    factors = np.median(totals) / np.where(totals > 0, totals, 1)
    own.X = np.empty(X.shape, dtype=np.float32)
    for start in range(0, len(X), 1024):
        rows = slice(start, start + 1024)
        own.X[rows] = np.log1p(X[rows] * factors[rows, None])
