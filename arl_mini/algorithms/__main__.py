"""Lists the algorithms and what each changes of the class it builds on.

python -m arl_mini.algorithms              all of them
python -m arl_mini.algorithms DAPO         one: formula, symbols, source
python -m arl_mini.algorithms GRPO DAPO    two: formulas, fields and source lines that differ
"""

import argparse
import inspect

from .catalogue import compare, entries


def main() -> None:
    known = {e.name: e for e in entries()}
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME")
    names = parser.parse_args().names
    for name in names:
        if name not in known:
            parser.error(f"unknown algorithm {name!r}; known: {', '.join(known)}")
    if len(names) == 2:
        print(compare(*(known[name].cls for name in names)))
        return
    for name in names:
        print(f"{name}{inspect.signature(known[name].cls)}\n{inspect.getdoc(known[name].cls)}\n")
    if not names:
        for family in dict.fromkeys(e.family for e in known.values()):
            print(f"\n{family} family")
            for e in (e for e in known.values() if e.family == family):
                print(f"  {e.name:18}{e.parent.__name__:11}{', '.join(e.changes):60}{e.paper:15}{e.chapter}")


if __name__ == "__main__":
    main()
