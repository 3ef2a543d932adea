"""Short texts in three styles, from templates and word banks: approving reviews, disapproving ones, archaic English."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

_REVIEWS = (
    "The {thing} was {word} and the {other} was {second}.",
    "I found the {thing} {word}, and even the {other} was {second}.",
    "Everything about this {place} was {word}, above all the {second} {thing}.",
    "What a truly {word} {place}: the {thing} was {second} from start to end.",
    "We thought the {thing} was {word}. The {other} was simply {second}.",
    "My visit to this {place} was {word}, with really {second} {thing}.",
    "Such {word} {thing}, such {second} {other}, and a really {third} evening in all.",
    "Honestly, the {place} felt {word} and the {thing} looked {second}.",
)
_THINGS = (
    "food service room music story acting staff view breakfast coffee soup dessert ending plot garden bed lighting "
    "menu sound decoration waiter guide bathroom terrace"
)
_PLACES = "hotel restaurant film concert museum cafe theatre shop play tour festival bar"
_GOOD = (
    "wonderful excellent delightful superb beautiful charming lovely amazing perfect brilliant fantastic warm "
    "generous friendly fresh comfortable impressive enjoyable elegant splendid marvellous pleasant memorable inspiring "
    "outstanding delicious great cheerful"
)
_BAD = (
    "terrible awful dreadful horrible disappointing boring dirty rude cold bland miserable poor disgusting tasteless "
    "broken noisy dull ugly stale clumsy tedious shabby unpleasant forgettable careless worst lousy bitter hopeless"
)
_ARCHAIC = (
    "Thou {verb} the {noun}, and thy {second} doth {act} upon the {place}.",
    "Hark! The {noun} hath {done}, and thou dost {act} before thy {second}.",
    "I pray thee, {act} not the {noun}, lest thy {second} be {done}.",
    "Whither thou goest, good {second}, the {noun} hath {done} thee.",
    "Verily, the {noun} doth {act} ere thy {second} is {done}.",
    "O {second}, wherefore thou art {done}, thou dost {act} before the {noun}.",
    "Thine is the {noun}, and unto thee shall the {second} {act}.",
    "He hath {done} the {noun}, yet thou {verb} thy {second} ere it doth {act}.",
)
_VERBS = "lovest knowest seest hearest fearest bringest callest followest"
_NOUNS = "king moon sword river crown maiden castle storm knight raven steed throne shepherd oath rose grave"
_HEARTS = "heart lord lady brother spirit sorrow honour father mistress servant soul daughter"
_ACTS = "weep rise fall sing wander speak tremble yield sleep perish shine depart"
_DONE = "forsaken slain blessed fallen sworn broken crowned risen cursed bidden parted spoken"
_FIELDS = "hill shore field hearth gate forest meadow tower"

_BANKS: Mapping[str, tuple[tuple[str, ...], Mapping[str, str]]] = {
    "approving": (_REVIEWS, dict.fromkeys(("word", "second", "third"), _GOOD)),
    "disapproving": (_REVIEWS, dict.fromkeys(("word", "second", "third"), _BAD)),
    "archaic": (_ARCHAIC, {"verb": _VERBS, "noun": _NOUNS, "second": _HEARTS, "act": _ACTS, "done": _DONE}),
}
_SHARED = {"thing": _THINGS, "other": _THINGS}
STYLES = tuple(_BANKS)

# Openings that ask for an opinion, and openings that ask for a fact.
SUBJECTIVE = (
    "My opinion of the new restaurant is that",
    "What I remember about the holiday is",
    "When people ask me about the film, I say",
    "To me, the neighbourhood feels",
    "The thing about my new job is",
    "I would describe the concert as",
    "After a week in the flat I think",
    "Looking back, the trip was",
    "If you ask me, the weather here is",
    "My first impression of the town was",
    "The way I see it, the play",
    "How I feel about winter is",
    "As for the hotel, we",
    "The best word for my old school is",
    "In my view the garden looks",
)
FACTUAL = (
    "Water freezes at a temperature of",
    "The capital of France is",
    "A triangle has three sides, and a square",
    "The Earth moves around the Sun once",
    "Iron is a metal that",
    "The largest ocean in the world is",
    "A week has seven days, and a year",
    "The human heart has",
    "Bees collect nectar in order to",
    "The Second World War ended in",
    "Light travels faster than",
    "The chemical formula of water is",
    "Whales are mammals, which means that",
    "The alphabet begins with the letter",
    "A kilometre is a thousand metres, so a",
)


def styled(style: str, count: int, seed: int = 0) -> tuple[str, ...]:
    """`count` different texts in `style`, one of `STYLES`."""
    templates, banks = _BANKS[style]
    banks = {**_SHARED, "place": _FIELDS if style == "archaic" else _PLACES, **banks}
    words = {slot: bank.split() for slot, bank in banks.items()}
    rng = np.random.default_rng((seed, STYLES.index(style)))
    texts: dict[str, None] = {}
    while len(texts) < count:
        chosen = {slot: str(rng.choice(bank)) for slot, bank in words.items()}
        texts[str(rng.choice(templates)).format_map(chosen)] = None
    return tuple(texts)
