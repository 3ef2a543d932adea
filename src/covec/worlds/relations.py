"""Relations that a small model knows, in texts that call for an object after a few solved examples.

Written for covec. Every object has several subjects; some objects are several tokens to most tokenizers, and so are
many subjects.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from covec.concepts.examples import Examples

SOLVED = 4  # facts, of as many objects, that each text begins with and that none asks for
_RELATIONS = {
    "official language": (
        "The official language of {} is",
        {
            "Spanish": "Mexico, Argentina, Chile, Peru, Colombia, Cuba, Venezuela, Spain, Ecuador, Bolivia, Uruguay",
            "Arabic": "Egypt, Iraq, Syria, Jordan, Yemen, Libya, Kuwait, Saudi Arabia, Oman, Qatar, Bahrain",
            "English": "Canada, Australia, Ireland, Nigeria, Ghana, Kenya, Jamaica, New Zealand, England, Scotland",
            "French": "France, Senegal, Haiti, Mali, Niger, Gabon, Benin, Monaco, Togo",
            "Portuguese": "Portugal, Brazil, Angola, Mozambique, Cape Verde",
            "German": "Germany, Austria, Liechtenstein, Switzerland, Bavaria",
        },
    ),
    "continent": (
        "{} is a country on the continent of",
        {
            "Europe": "France, Poland, Italy, Sweden, Greece, Norway, Hungary, Portugal, Finland, Ireland, Austria",
            "Asia": "China, Japan, India, Thailand, Vietnam, Nepal, Mongolia, Pakistan, Malaysia, Laos, Cambodia",
            "Africa": "Kenya, Nigeria, Egypt, Ghana, Morocco, Uganda, Zambia, Senegal, Ethiopia, Mali, Tunisia",
            "South America": "Brazil, Peru, Chile, Bolivia, Colombia, Ecuador, Argentina, Uruguay, Paraguay, Venezuela",
        },
    ),
    "country of a city": (
        "{} is a city in",
        {
            "France": "Paris, Lyon, Marseille, Nice, Bordeaux, Toulouse, Strasbourg, Lille, Nantes",
            "Germany": "Berlin, Munich, Hamburg, Cologne, Frankfurt, Dresden, Stuttgart, Leipzig, Hanover",
            "Italy": "Rome, Milan, Naples, Venice, Florence, Turin, Bologna, Verona, Genoa",
            "Japan": "Tokyo, Osaka, Kyoto, Nagoya, Hiroshima, Sapporo, Yokohama, Kobe, Nagasaki",
            "China": "Beijing, Shanghai, Wuhan, Shenzhen, Guangzhou, Nanjing, Chengdu, Tianjin, Harbin",
            "India": "Delhi, Mumbai, Chennai, Kolkata, Bangalore, Hyderabad, Pune, Jaipur, Lucknow",
            "Spain": "Madrid, Barcelona, Seville, Valencia, Granada, Bilbao, Malaga, Toledo, Zaragoza",
            "Canada": "Toronto, Montreal, Vancouver, Ottawa, Calgary, Winnipeg, Edmonton, Halifax, Quebec",
        },
    ),
    "kind of animal": (
        "The {} is a kind of",
        {
            "bird": "eagle, sparrow, owl, penguin, parrot, crow, duck, swan, robin, hawk, pigeon",
            "fish": "salmon, tuna, trout, cod, herring, carp, shark, perch, sardine, pike, haddock",
            "insect": "ant, bee, beetle, butterfly, mosquito, wasp, cricket, moth, fly, grasshopper, dragonfly",
            "reptile": "snake, lizard, turtle, crocodile, alligator, gecko, iguana, cobra, tortoise, python, viper",
        },
    ),
    "kind of food": (
        "The {} is a kind of",
        {
            "fruit": "apple, banana, orange, grape, mango, peach, cherry, plum, pear, lemon, apricot",
            "vegetable": "carrot, cabbage, spinach, broccoli, lettuce, onion, celery, radish, cauliflower, leek",
            "grain": "wheat, rice, barley, oat, rye, millet, corn, quinoa, sorghum, buckwheat",
            "spice": "cinnamon, pepper, ginger, turmeric, cumin, nutmeg, saffron, cardamom, paprika, clove, coriander",
        },
    ),
    "field of work": (
        "The {} belongs to the field of",
        {
            "sports": "goalkeeper, referee, tennis player, sprinter, boxer, swimmer, jockey, gymnast, footballer",
            "medicine": "surgeon, nurse, dentist, pharmacist, radiologist, midwife, psychiatrist, cardiologist, doctor",
            "law": "judge, lawyer, attorney, barrister, solicitor, prosecutor, notary, magistrate, advocate",
            "music": "violinist, pianist, drummer, conductor, singer, guitarist, organist, composer, cellist",
            "education": "teacher, professor, tutor, lecturer, headmaster, principal, schoolmaster, dean, instructor",
        },
    ),
}
RELATIONS = tuple(_RELATIONS)


@dataclass(frozen=True)
class Relation:
    """One relation: what each text begins with, its template, and the facts that are asked for."""

    name: str
    solved: str
    template: str
    facts: tuple[tuple[str, str], ...]  # subject and object

    @property
    def objects(self) -> tuple[str, ...]:
        """All objects, in order."""
        return tuple(dict.fromkeys(called for _, called in self.facts))

    def text(self, subject: str) -> tuple[str, tuple[int, int]]:
        """The text that calls for the object of `subject`, and where the subject stands in it."""
        start = len(self.solved) + self.template.index("{}")
        return self.solved + self.template.format(subject), (start, start + len(subject))

    def examples(self, concept: str) -> Examples:
        """All texts, with the spans of their subjects and a column `object`; positives are those of one object."""
        texts, spans = zip(*(self.text(subject) for subject, _ in self.facts), strict=True)
        objects = tuple(called for _, called in self.facts)
        return Examples(texts, np.array(objects) == concept, spans=spans, extra={"object": objects}, name=concept)


def relation(name: str) -> Relation:
    """The relation called `name`, one of `RELATIONS`."""
    template, subjects = _RELATIONS[name]
    first: list[tuple[str, str]] = []
    facts: list[tuple[str, str]] = []
    for called, listed in subjects.items():
        known = listed.split(", ")
        shown = len(first) < SOLVED
        first += [(known[0], called)] * shown
        facts += [(subject, called) for subject in known[shown:]]
    solved = "".join(f"{template.format(subject)} {called}.\n" for subject, called in first)
    return Relation(name, solved, template, tuple(facts))
