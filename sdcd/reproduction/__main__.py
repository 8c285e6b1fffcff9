"""``python -m sdcd.reproduction``: fill the ledger, say what it lacks, draw the report from it."""

import argparse
import math
import signal
import sys
from pathlib import Path

from sdcd.errors import FitKilled, InputError
from sdcd.experiments.configuration import read_yaml
from sdcd.experiments.plan import Plan, make_plan
from sdcd.reproduction import ledger
from sdcd.reproduction.look import look, older_than_the_code
from sdcd.reproduction.run import adopt, missing, run
from sdcd.reproduction.standing import standing, write_standing

ROOT = Path(__file__).resolve().parents[2]


def main() -> int:
    """Read the arguments and do what they say."""
    parser = argparse.ArgumentParser(prog="python -m sdcd.reproduction", description=__doc__)
    parser.add_argument("--scale", default="weekend", help="of config.yaml (default: weekend)")
    parser.add_argument(
        "--folder", default=ROOT / "reproduction", type=Path, help="where the ledger lies"
    )
    commands = parser.add_subparsers(dest="command", required=True)
    runs = commands.add_parser("run", help="make the fits that the ledger lacks")
    runs.add_argument("--hours", type=float, default=math.inf, help="start no fit after so many")
    runs.add_argument("--methods", nargs="*", default=[], help="only these")
    runs.add_argument(
        "--stale", action="store_true", help="also those made by other code, or impossible before"
    )
    commands.add_parser("missing", help="what the ledger lacks, and what it would cost")
    adopts = commands.add_parser("adopt", help="add the fits that the workflow has made")
    adopts.add_argument("results", type=Path, help="the folder of that --scale, as results/weekend")
    looks = commands.add_parser("look", help="draw the report from the ledger, without a fit")
    looks.add_argument("--results", type=Path, default=Path("results/reproduction"))
    stands = commands.add_parser("standing", help="what the ledger reproduces, in one sentence")
    stands.add_argument("--write", type=Path, metavar="PAGE", help="put it into this page as well")
    options = parser.parse_args()
    try:
        # The other two may begin a ledger.
        if options.command not in ("run", "adopt") and not options.folder.is_dir():
            raise InputError(f"--folder {options.folder}: no such folder, expected a ledger's")
        plan = _plan(options.scale)
        if options.command == "run":
            only = tuple(options.methods)
            made = run(plan, options.folder, hours=options.hours, only=only, stale=options.stale)
            print(f"{made} fits made")
        elif options.command == "adopt":
            print(f"{adopt(plan, options.folder, options.results)} fits added")
        elif options.command == "missing":
            _say_missing(plan, options.folder)
        elif options.command == "standing":
            sentence = standing(plan, options.folder)
            print(sentence.strip("*"))
            if options.write:
                write_standing(options.write, sentence)
        else:
            report = look(plan, options.folder, options.results)
            older = older_than_the_code(ledger.planned(plan, ledger.read(options.folder)))
            for name, (some, all_) in older.items():
                print(f"made by other code than today's: {some} of {all_} fits of {name}")
            if older:
                print("these count all the same; 'run --stale' would make them again")
            print(f"report: {report.resolve()}")
    except InputError as error:
        return _end(str(error), 2)
    except FitKilled as error:
        return _end(str(error), 4)
    except KeyboardInterrupt:
        return _end("interrupted", 128 + signal.SIGINT)
    return 0


def _end(line: str, code: int) -> int:
    print(f"python -m sdcd.reproduction: {line}", file=sys.stderr)
    return code


def _plan(scale: str) -> Plan:
    schema = read_yaml(ROOT / "workflow/schemas/config.schema.yaml")
    return make_plan({**read_yaml(ROOT / "config.yaml"), "scale": scale}, schema)


def _say_missing(plan: Plan, folder: Path) -> None:
    by_method: dict[str, list[float]] = {}
    for cost, _, name in missing(plan, folder):
        by_method.setdefault(name, []).append(cost)
    for name, costs in sorted(by_method.items(), key=lambda item: sum(item[1])):
        print(f"{name:<22}{len(costs):>6} fits{sum(costs) / 3600:>9.2f} core-hours")
    total = sum(sum(costs) for costs in by_method.values())
    print(f"{'all':<22}{sum(map(len, by_method.values())):>6} fits{total / 3600:>9.2f} core-hours")


if __name__ == "__main__":
    sys.exit(main())
