"""`python -m arl_mini.warmstarts`: lists or makes the checkpoints."""

import argparse

from . import RECIPES, make
from . import __doc__ as about


def main() -> None:
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", choices=[[], *RECIPES], metavar="NAME")
    parser.add_argument("--seed", type=int, default=0)
    chosen = parser.parse_args()
    if not chosen.names:
        for name, recipe in RECIPES.items():
            print(f"{name:16} {recipe.about}")
    for name in chosen.names:
        for line in make(name, RECIPES[name], chosen.seed):
            print(f"{name}: {line}", flush=True)


if __name__ == "__main__":
    main()
