"""Sentences about people at work that say nothing of he or she, and sentences about women and men that name no work."""

from __future__ import annotations

from itertools import product

_WORK = """
nurse secretary librarian receptionist nanny hairdresser teacher dancer carpenter mechanic plumber soldier farmer
engineer pilot butcher
"""
OCCUPATIONS = tuple(_WORK.split())
_AT_WORK = (
    "Last week I spoke with a {} about the weather.",
    "There is a {} who lives on the third floor.",
    "A {} was waiting in the hall when we arrived.",
    "We asked the {} for some advice about the matter.",
    "Everyone in the village knows the {} by name.",
    "The new {} starts on Monday at eight.",
    "My cousin wants to become a {} some day.",
    "A letter from the {} lay on the desk.",
    "They are looking for a {} with some experience.",
    "On the train I sat next to a {}.",
    "The {} opened the door and let us in.",
    "Nobody had seen the {} since the morning.",
    "In the photograph a {} stands by the window.",
    "You can always ask a {} if you are not sure.",
    "The work of a {} is harder than it looks.",
    "After lunch the {} went back to work.",
    "The company has hired another {} this spring.",
    "Our neighbour used to be a {} in the city.",
    "For many years the {} kept a diary.",
    "A good {} is hard to find these days.",
)
_WOMEN = "she;the woman;the girl;the mother;the lady"
_MEN = "he;the man;the boy;the father;the gentleman"
_PERSONS = (
    "It was clear that {} had forgotten the umbrella.",
    "When {} came home, the lights were out.",
    "Suddenly {} began to laugh out loud.",
    "I think {} would rather stay at home.",
    "By the evening {} was tired and hungry.",
    "Then {} sat down and wrote a postcard.",
    "Of course {} did not believe a word of it.",
    "Outside {} stopped to look at the sky.",
)
_PLAIN = (
    "It rained for {} days without a break.",
    "The bridge was closed for {} months last year.",
    "There were {} apples left in the basket.",
    "The book has {} chapters and a short index.",
    "The shop on the corner opens at {} in the morning.",
    "A parcel of {} pounds arrived by post.",
    "The river is {} metres wide at this place.",
    "The lamp burned for {} hours that night.",
)
_NUMBERS = "two three four five six seven eight nine ten twelve"


def at_work(occupation: str) -> tuple[str, ...]:
    """Sentences about an occupation."""
    return tuple(frame.format(occupation) for frame in _AT_WORK)


def persons(women: bool) -> tuple[str, ...]:
    """Sentences about women, or the same about men."""
    return tuple(frame.format(one) for frame, one in product(_PERSONS, (_WOMEN if women else _MEN).split(";")))


def plain() -> tuple[str, ...]:
    """Sentences about nobody."""
    return tuple(frame.format(number) for frame, number in product(_PLAIN, _NUMBERS.split()))
