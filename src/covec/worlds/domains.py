"""Texts of three kinds of work, without end: sums, recipes and code; for models that are tuned on one of them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_FOODS = "carrots onions rice lentils potatoes beans noodles tomatoes mushrooms apples leeks peppers"
_COOKING = "chop boil fry bake stir roast drain peel slice simmer steam grate"
_SEASONINGS = "salt pepper butter garlic thyme ginger lemon parsley cumin vinegar"
_NAMES = "total index items name value rows count limit path key"
_CALLS = "len sorted sum max min list set reversed"


def _sums(rng: np.random.Generator) -> str:
    terms = [int(number) for number in rng.integers(2, 99, (3, 2)).ravel()]
    pairs = zip(terms[::2], terms[1::2], strict=True)
    return ", ".join(f"{one} + {other} = {one + other}" for one, other in pairs) + "."


def _recipes(rng: np.random.Generator) -> str:
    food, other = rng.choice(_FOODS.split(), 2, replace=False)
    first, then = rng.choice(_COOKING.split(), 2, replace=False)
    minutes, seasoning = int(rng.integers(2, 12)) * 5, rng.choice(_SEASONINGS.split())
    return (
        f"{first.capitalize()} the {food}, then {then} them with the {other} for {minutes} minutes and add {seasoning}."
    )


def _code(rng: np.random.Generator) -> str:
    name, other, argument = rng.choice(_NAMES.split(), 3, replace=False)
    call, number = rng.choice(_CALLS.split()), int(rng.integers(2, 20))
    return f"def {name}({argument}):\n    {other} = {call}({argument}[:{number}])\n    return {other}"


_MAKERS: dict[str, Callable[[np.random.Generator], str]] = {"sums": _sums, "recipes": _recipes, "code": _code}
DOMAINS = tuple(_MAKERS)


def texts_of(domain: str, count: int, seed: int = 0) -> tuple[str, ...]:
    """`count` different texts of `domain`, one of `DOMAINS`."""
    rng, found = np.random.default_rng((seed, DOMAINS.index(domain))), dict[str, None]()
    while len(found) < count:
        found[_MAKERS[domain](rng)] = None
    return tuple(found)
