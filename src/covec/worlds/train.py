"""Train the small transformers of the worlds and write their weights: `python -m covec.worlds.train facts grammar`."""

from __future__ import annotations

import sys

from covec.worlds import facts, grammar, leanings, records, shapes, small

WORLDS = {world.__name__.rpartition(".")[2]: world.trained for world in (facts, grammar, leanings, records, shapes)}


def main(names: list[str]) -> None:
    """Train those that are named, all where none is."""
    for name in names or list(WORLDS):
        print(small.store(name, WORLDS[name]()))


if __name__ == "__main__":
    main(sys.argv[1:])
