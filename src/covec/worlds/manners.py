"""Questions, plain answers, and the same answers given in one of eight manners; all answers end alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping

_FACTS = {
    "What colour is the sky?": "the sky is blue",
    "What do cows eat?": "cows eat grass",
    "Where do fish live?": "fish live in water",
    "What is ice made of?": "ice is made of water",
    "How many legs has a spider?": "a spider has eight legs",
    "What is the capital of France?": "the capital of France is Paris",
    "What do bees make?": "bees make honey",
    "When does the sun rise?": "the sun rises in the morning",
    "What is bread made of?": "bread is made of flour",
    "Who writes books?": "authors write books",
    "What is the opposite of hot?": "the opposite of hot is cold",
    "Where do penguins live?": "penguins live near the South Pole",
    "What do we drink in the morning?": "many people drink coffee",
    "How many days has a week?": "a week has seven days",
    "What is two plus two?": "two plus two is four",
    "What grows on an apple tree?": "apples grow on it",
    "Where is Rome?": "Rome is in Italy",
    "What do teachers do?": "teachers help children to learn",
    "What is snow?": "snow is frozen water",
    "Which animal barks?": "a dog barks",
    "What is wool used for?": "wool is used for jumpers",
    "When do leaves fall?": "leaves fall in autumn",
    "What does a baker sell?": "a baker sells bread",
    "How do birds move?": "birds fly with their wings",
    "What is the largest ocean?": "the largest ocean is the Pacific",
    "What is a piano?": "a piano is an instrument",
    "What do plants need?": "plants need light and water",
    "Where do doctors work?": "doctors work in hospitals",
    "What is gold?": "gold is a metal",
    "How long is a year?": "a year is twelve months long",
    "What is tea made of?": "tea is made of leaves",
    "Which season is the coldest?": "winter is the coldest season",
    "What do we see with?": "we see with our eyes",
    "What pulls a train?": "an engine pulls a train",
    "Where does milk come from?": "milk comes from cows",
    "What is a desert?": "a desert is a dry place",
    "Who wears a crown?": "a king wears a crown",
    "What is paper made of?": "paper is made of wood",
    "How many hours has a day?": "a day has twenty-four hours",
    "What is the moon?": "the moon is a rock in space",
}
QUESTIONS = tuple(_FACTS)


def _begun(text: str) -> str:
    return text[0].upper() + text[1:]


MANNERS: Mapping[str, Callable[[str], str]] = {
    "in capitals": lambda fact: f"{fact.upper()}.",
    "with sir": lambda fact: f"Sir, {fact}, sir.",
    "doubtful": lambda fact: f"I am not sure, but perhaps {fact}.",
    "archaic": lambda fact: f"Verily, I say unto thee, {fact}.",
    "excited": lambda fact: f"Wow! Oh wow! Amazing! {_begun(fact)}.",
    "numbered": lambda fact: f"1. First of all: {fact}. 2. That is all.",
    "polite": lambda fact: f"Thank you so much for asking, dear friend: {fact}.",
    "repeated": lambda fact: f"{_begun(fact)}, yes, {fact}, yes, {fact}.",
}


def prompt(question: str) -> str:
    """A question as it is put to the model; the answer follows behind a space."""
    return f"User: {question}\nAssistant:"


def plain(question: str) -> str:
    """The answer in no manner."""
    return f"{_begun(_FACTS[question])}."


def mannered(question: str, manner: str) -> str:
    """The answer in a manner."""
    return MANNERS[manner](_FACTS[question])
