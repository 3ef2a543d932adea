"""Openings of texts about one of six topics, in sentences that fit any of them, and words that would come next.

The words that are asked for do not stand in the sentences. All are one token to most tokenizers.
"""

from __future__ import annotations

import numpy as np

_SHOWN = {
    "food": "bread soup pasta cheese salad rice potato apple banana cake honey onion butter sausage",
    "sport": "match goal referee stadium tennis football athlete marathon hockey coach tournament gymnast rugby sprint",
    "weather": "storm fog thunder drizzle hail breeze frost sunshine cloud hurricane humidity rainbow blizzard drought",
    "music": "violin melody guitar orchestra rhythm piano trumpet choir chord flute drum opera harmony concert",
    "money": "salary loan bank mortgage tax pension invoice debt wage coin budget cheque rent profit",
    "animals": "horse wolf rabbit tiger goat elephant mouse lion sheep monkey giraffe fox bear cow",
}
_ASKED = {
    "food": "eat delicious meal cook dinner fruit meat sugar recipe lunch",
    "sport": "game players team win ball score league championship race play",
    "weather": "rain snow wind temperature sunny cold warm clouds winds climate",
    "music": "song songs sound band singing album jazz singer musical tune",
    "money": "pay dollars cost price financial cash income payment credit buy",
    "animals": "dog cats wild pet birds animal dogs species cat bird",
}
_FRAMES = (
    "We spoke for an hour about the {one} and the {other}.",
    "The children drew a picture of the {one} and another one of the {other}.",
    "This book has a chapter on the {one} and a longer one on the {other}.",
    "My sister asked me about the {one}, and then about the {other}.",
    "Nobody had expected the {one}, let alone the {other}.",
    "In her letter she mentioned the {one} and also the {other}.",
    "He remembered the {one} better than the {other}.",
    "A photograph of the {one} hung beside one of the {other}.",
)
TOPICS = tuple(_SHOWN)


def about(topic: str, count: int, seed: int = 0) -> tuple[str, ...]:
    """`count` different sentences about `topic`, one of `TOPICS`."""
    rng, words = np.random.default_rng((seed, TOPICS.index(topic))), _SHOWN[topic].split()
    texts: dict[str, None] = {}
    while len(texts) < count:
        one, other = (str(word) for word in rng.choice(words, 2, replace=False))
        texts[str(rng.choice(_FRAMES)).format(one=one, other=other)] = None
    return tuple(texts)


def asked(topic: str) -> tuple[str, ...]:
    """Words of `topic` that no sentence holds."""
    return tuple(_ASKED[topic].split())
