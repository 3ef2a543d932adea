"""Categories of words, most of them one token to a language model, written for covec."""

from __future__ import annotations

_LISTED = {
    "animals": """dog cat horse cow sheep pig goat lion tiger bear wolf fox rabbit mouse rat deer elephant monkey snake
        frog turtle fish shark whale dolphin bird eagle owl duck chicken goose bee ant spider butterfly beetle lizard
        crocodile camel donkey squirrel bat seal penguin parrot crow hawk salmon""",
    "colours": """red blue green yellow orange purple pink brown black white grey gray violet crimson turquoise gold
        silver scarlet indigo beige maroon cyan magenta teal olive navy tan ivory amber lavender""",
    "countries": """France Germany Spain Italy Portugal England Scotland Ireland Norway Sweden Finland Denmark Poland
        Russia Ukraine Greece Turkey Egypt Morocco Kenya Nigeria Ethiopia India China Japan Korea Vietnam Thailand
        Indonesia Australia Canada Mexico Brazil Argentina Chile Peru Colombia Cuba Iran Iraq Israel Pakistan
        Switzerland Austria Belgium Hungary Netherlands""",
    "months": "January February March April May June July August September October November December",
    "numbers": """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
        seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million
        billion dozen""",
    "body parts": """head face eye ear nose mouth tongue tooth lip chin neck throat shoulder arm elbow wrist hand finger
        thumb chest stomach waist hip leg knee ankle foot toe skin bone brain heart lung liver kidney muscle spine
        skull forehead cheek""",
    "verbs in -ing": """running walking talking eating drinking sleeping reading writing singing dancing playing working
        cooking driving flying swimming climbing fighting laughing crying shouting listening watching waiting thinking
        learning teaching building painting drawing cleaning washing cutting pulling pushing throwing catching holding
        giving taking buying selling""",
    "names": """John Mary James Robert Michael William David Richard Thomas Charles Daniel Matthew Anthony Mark Paul
        Steven Andrew George Edward Peter Henry Alice Emma Sarah Anna Elizabeth Jennifer Linda Susan Jessica Karen
        Nancy Lisa Margaret Helen Laura Julia Emily Rachel Rebecca""",
}


def word_categories() -> dict[str, tuple[str, ...]]:
    """The words of each category, without repeats."""
    return {name: tuple(dict.fromkeys(text.split())) for name, text in _LISTED.items()}
