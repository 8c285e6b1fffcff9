"""Generate one data set of the paper."""

import argparse

import _script

from sdcd.data.dataset import write_dataset
from sdcd.simulation import simulate_family


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--family", choices=["observational", "interventional", "dcdi"], default="observational"
    )
    parser.add_argument("--d", type=int, required=True, help="variables")
    parser.add_argument("--s", type=int, required=True, help="edges per variable")
    parser.add_argument("--seed", type=int, required=True)
    parser.add_argument("--fraction", type=float, default=0.0, help="of the interventions kept")
    parser.add_argument("--mechanism", default="", help="L, NL-Add or NL-NN (family dcdi)")
    parser.add_argument("--n-observational", type=int, default=10_000, help="rows")
    parser.add_argument("--n-per-intervention", type=int, default=500, help="rows")
    parser.add_argument("--out", required=True, help="where the .npz goes")
    a = parser.parse_args()

    dataset = simulate_family(
        a.family,
        a.d,
        a.s,
        a.seed,
        fraction=a.fraction,
        mechanism=a.mechanism,
        n_observational=a.n_observational,
        n_per_intervention=a.n_per_intervention,
    )
    write_dataset(a.out, dataset)


if __name__ == "__main__":
    _script.run(main)
