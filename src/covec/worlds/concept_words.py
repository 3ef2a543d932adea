"""Words that express a concept, some of one token and some of several to most tokenizers; written for covec."""

from __future__ import annotations

_WORDS = {
    "animal": "dog cat horse rabbit elephant giraffe squirrel hedgehog wolf sheep",
    "food": "bread cheese soup pasta sausage pancake omelette chocolate salad rice",
    "colour": "red blue green yellow purple turquoise scarlet beige violet orange",
    "body": "hand foot shoulder elbow ankle stomach eyebrow knee forehead neck",
    "vehicle": "car truck bicycle tractor helicopter motorcycle submarine train boat van",
    "clothing": "shirt trousers jacket cardigan sweater scarf raincoat shoe hat glove",
    "weather": "rain snow thunderstorm drizzle hurricane fog blizzard sunshine hail wind",
    "feeling": "joy anger sadness jealousy loneliness fear gratitude disgust pride shame",
}
_FURTHER = {  # no guide is made of them
    "animal": "cow pig bird fish mouse lion tiger bear fox deer goat duck chicken snake frog monkey animal puppy",
    "food": "meal dinner lunch breakfast meat fish egg butter milk cake pie fruit apple vegetable potato pizza food",
}
CONCEPTS = tuple(_WORDS)


def words(concept: str) -> tuple[str, ...]:
    """Ten words of `concept`, one of `CONCEPTS`."""
    return tuple(_WORDS[concept].split())


def further_words(concept: str) -> tuple[str, ...]:
    """Other words of `concept`, animal or food."""
    return tuple(_FURTHER[concept].split())
