"""Options about a person's own table, which several commands read."""

import argparse

from sdcd.cli._files import note
from sdcd.errors import InputError

ABOUT_TABLES = """\
        Your own table (.csv, .tsv, either .gz, .parquet, .h5ad, .zarr) has one column a variable
        and one row a sample. A cell of the perturbation column holds the name of the variable that
        was perturbed in this row, several separated by commas (--separator), or a label of
        unperturbed rows (--control). In .h5ad and .zarr the variables are those of X, the
        perturbation column is one of obs. A first column without a name (row names) is ignored.
"""


def add_table_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that say how a table is read."""
    add = parser.add_argument_group("reading your own table").add_argument
    add(
        "--perturbation-column",
        metavar="COLUMN",
        help="which variables were perturbed in a row (without: none in any row)",
    )
    add(
        "--control",
        action="append",
        metavar="LABEL",
        help="label of unperturbed rows, may be repeated (default: 'control', 'ctrl' and "
        "'non-targeting' in any case)",
    )
    add(
        "--separator",
        metavar="TEXT",
        help="between the targets of one row (default: a comma), as '+' in GENE1+GENE2",
    )
    add(
        "--unlabelled",
        choices=("refuse", "control", "drop"),
        help="what rows without a label are (default: refused)",
    )
    add(
        "--drop-label",
        action="append",
        metavar="LABEL",
        help="leave out rows with this label; may be repeated",
    )
    add(
        "--drop-unmeasured",
        action="store_true",
        help="leave out rows with a target that is no variable",
    )
    add(
        "--drop-constant",
        action="store_true",
        help="leave out constant and nearly constant columns",
    )
    add(
        "--ignore-column",
        action="append",
        metavar="COLUMN",
        help="a column that is no variable; may be repeated",
    )
    add("--layer", metavar="NAME", help="of .h5ad or .zarr, instead of X; 'raw' is raw.X")
    add(
        "--names-column",
        metavar="COLUMN",
        help="of var in .h5ad or .zarr: the variables' names, instead of var_names",
    )
    add(
        "--normalise",
        action="store_true",
        help="counts: divide by the row's total, multiply by the median total, take log(1 + x)",
    )
    add(
        "--standardise",
        choices=("auto", "yes", "no"),
        default="auto",
        help="give each column mean 0 and standard deviation 1; auto: own tables, but not .npz",
    )


def table_options(options: argparse.Namespace):
    """The :class:`~sdcd.data.own_data.TableOptions` that the options say."""
    from sdcd.data.own_data import TableOptions

    if options.separator is not None and not options.separator.strip():
        raise InputError("--separator: blank, expected what stands between targets")
    return TableOptions(
        perturbation_column=options.perturbation_column,
        controls=None if options.control is None else tuple(options.control),
        separator=(options.separator or ",").strip(),
        unlabelled=options.unlabelled or "refuse",
        drop_labels=tuple(options.drop_label or ()),
        drop_unmeasured=options.drop_unmeasured,
        ignore_columns=tuple(options.ignore_column or ()),
        drop_constant=options.drop_constant,
        layer=options.layer,
        names_column=options.names_column,
        normalise=options.normalise,
    )


def read_described(options: argparse.Namespace, path):
    """Read a data set as the options say, checked for a fit.

    Returns
    -------
    sdcd.data.dataset.Described
    """
    from sdcd.data.dataset import describe_dataset
    from sdcd.data.own_data import check_as_fitted

    read = describe_dataset(path, table_options(options), standardise=options.standardise)
    check_as_fitted(path, read.dataset)
    return read


def tell(read, path, what: str) -> None:
    """Say on standard error what was read; ``what`` begins the first line."""
    dataset = read.dataset
    perturbed = int(dataset.intervened.any(axis=1).sum())
    note(f"{what}{path}: {dataset.d} variables, {dataset.n} rows, {perturbed} of them perturbed")
    for line in read.summary():
        note(line)
