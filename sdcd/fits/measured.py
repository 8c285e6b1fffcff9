"""The cost table from what fits have cost: ``python -m sdcd.fits.measured RESULTS...``.

Reads the records of fits (``fits/**/*.json``) in folders of results and writes their means into
``costs.csv``, so that its measured rows are never typed.
"""

import argparse
import csv
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from sdcd.data.pairs import write_rows
from sdcd.files import read_json
from sdcd.fits.costs import COLUMNS, TABLE, USUAL_ROWS, USUAL_ROWS_PER_INTERVENTION
from sdcd.methods.contract import Method
from sdcd.methods.registry import methods


def measured(
    records: Iterable[Mapping], known: Mapping[str, Method], rows_of: Callable[[str, int], int]
) -> list[dict[str, object]]:
    """One row for each method and d: mean seconds and largest memory of its fits.

    Parameters
    ----------
    records : iterable of mapping
        Records of fits. Those count that ended well, on one thread and in one piece, with the
        method's default settings and the table's number of rows.
    known : mapping of str to Method
        The methods of the table.
    rows_of : function
        Rows of a data set in the table, from the method's name and d.
    """
    groups: dict[tuple[str, int], list[Mapping]] = {}
    for record in records:
        name, chosen = record.get("method"), known.get(record.get("method"))
        if chosen is None or record.get("status") != "ok" or record.get("threads") != 1:
            continue
        if record.get("params") != chosen.parameters({}) or "first_stage" in record:
            continue
        if "targets" in record or record.get("diagnostics", {}).get("resumed_after_s"):
            continue
        if record.get("n_rows") == rows_of(name, record["n_variables"]):
            groups.setdefault((name, record["n_variables"]), []).append(record)
    rows = []
    for (name, d), group in sorted(groups.items()):
        seconds = sum(map(_cost, group)) / len(group)
        processors = sorted({record["machine"]["cpu"] for record in group})
        fits = "one fit" if len(group) == 1 else f"mean of {len(group)} fits"
        rows.append(
            {
                "method": name,
                "d": d,
                "n": rows_of(name, d),
                "seconds": f"{seconds:.3g}" if seconds < 1000 else f"{seconds:.0f}",
                "peak_rss_mb": round(max(record["peak_rss_mb"] for record in group)),
                "source": f"measured: one core of {' and '.join(processors)}, {fits}",
            }
        )
    return rows


def _cost(record: Mapping) -> float:
    """Seconds of the fit on a free core.

    The clock also counts waiting for the core, the processor's time also imports: the cost is at
    most the smaller. Older records have the clock's alone.
    """
    return min(record["seconds"], record.get("processor_seconds", record["seconds"]))


def usual_rows(table: Sequence[Mapping]) -> Callable[[str, int], int]:
    """Rows of a data set in the table, from a method's name and d.

    Where a method's rows differ with d, its data have interventions on every variable, as the
    paper's; else they are the method's, :data:`~sdcd.fits.costs.USUAL_ROWS` if the table has none.
    """
    found: dict[str, set[int]] = {}
    for row in table:
        found.setdefault(row["method"], set()).add(int(row["n"]))

    def rows_of(method: str, d: int) -> int:
        rows = found.get(method, {USUAL_ROWS})
        return min(rows) if len(rows) == 1 else USUAL_ROWS + USUAL_ROWS_PER_INTERVENTION * d

    return rows_of


def merged(table: Sequence[Mapping], rows: Sequence[Mapping]) -> list[Mapping]:
    """The table with ``rows`` in place of its own of the same method and d, ordered by d.

    Methods keep their order, new ones come last; all other rows, logged, assumed or measured, stay
    as they are.
    """
    new = {(row["method"], int(row["d"])): row for row in rows}
    kept = [row for row in table if (row["method"], int(row["d"])) not in new]
    order = list(dict.fromkeys(row["method"] for row in [*table, *rows]))
    return sorted(
        [*kept, *new.values()], key=lambda row: (order.index(row["method"]), int(row["d"]))
    )


def falling(table: Sequence[Mapping]) -> list[str]:
    """Where a larger problem is said to take less time: a line each."""
    return [
        f"{row['method']}: {row['seconds']} s at d = {row['d']}, after {last['seconds']} s at "
        f"d = {last['d']}"
        for last, row in itertools.pairwise(table)
        if last["method"] == row["method"] and float(row["seconds"]) < float(last["seconds"])
    ]


def main(arguments: Sequence[str] | None = None) -> int:
    """Rewrite the table, unless a larger problem would then take less time."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("results", nargs="+", type=Path, help="folders of results")
    parser.add_argument("--table", type=Path, default=TABLE, help="the table (that of the package)")
    options = parser.parse_args(arguments)
    with open(options.table, newline="", encoding="utf-8") as stream:
        table = list(csv.DictReader(stream))
    paths = sorted(path for folder in options.results for path in folder.glob("fits/**/*.json"))
    rows = measured(map(read_json, paths), methods(), usual_rows(table))
    table = merged(table, rows)
    print(f"{len(paths)} records, {len(rows)} rows measured")
    if faults := falling(table):
        print("nothing written, more fits are needed:", *faults, sep="\n  ")
        return 1
    write_rows(options.table, COLUMNS, ([row[name] for name in COLUMNS] for row in table))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
