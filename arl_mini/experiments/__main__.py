"""`python -m arl_mini.experiments`: lists or records the experiments."""

import argparse

from . import EXPERIMENTS, record
from . import __doc__ as about


def main() -> None:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--seeds", nargs="*", type=int, default=[])
    chosen = parser.parse_args()
    unknown = [name for name in chosen.names if name not in EXPERIMENTS]
    if unknown:
        parser.error(f"unknown experiment {unknown[0]!r}; known: {', '.join(EXPERIMENTS)}")
    if not chosen.names:
        for name, experiment in EXPERIMENTS.items():
            print(f"{name:24} {experiment.about}")
    for name in chosen.names:
        for line in record(name, chosen.seeds):
            print(line, flush=True)


if __name__ == "__main__":
    main()
