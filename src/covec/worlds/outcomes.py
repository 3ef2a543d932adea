"""Sentences of an attempt that went well, each with one of the same attempt that went badly. Written for covec."""

from __future__ import annotations

import numpy as np

from covec.concepts.examples import Examples

_SENTENCES = """
    The attempt {succeeded|failed}.
    The team {succeeded|failed} in the end.
    Her plan {worked|did not work}.
    The engineers {solved|could not solve} the problem.
    He {passed|failed} the examination.
    The rocket {reached|never reached} its orbit.
    The company {made a profit|went bankrupt} that year.
    The climbers {reached|turned back before} the summit.
    The operation was a {success|failure}.
    Our experiment {gave the expected result|gave no result}.
    The two sides {came to|did not come to} an agreement.
    The student {found|did not find} the right answer.
    The bridge {held|collapsed} under the load.
    The new engine {ran smoothly|broke down}.
    The rescue came {in time|too late}.
    The farmers had a {good|ruined} harvest.
    The repair {fixed the leak|made the leak worse}.
    The runner {won|lost} the race.
    The application was {accepted|rejected}.
    The treatment {cured|did not help} the patient.
    Their mission {was accomplished|had to be abandoned}.
    The negotiations ended in {a deal|a deadlock}.
    The play was {a triumph|a flop}.
    She {managed|was unable} to open the safe.
    The pilot {landed safely|crashed on landing}.
    The cake {turned out perfectly|was burnt}.
    The program {ran without an error|stopped with an error}.
    The project was finished {ahead of|long after} the deadline.
    The goal was {achieved|missed}.
    The army {won|lost} the battle.
    The expedition {found|never found} the lost city.
    The investors {doubled|lost} their money.
    The lawyer {won|lost} the case.
    His invention {became a success|came to nothing}.
    The candidate {won|was defeated in} the election.
    The parachute {opened|did not open}.
    The search for the missing boat was {successful|in vain}.
    They {met|fell short of} their target.
    The signal {got through|was lost}.
    The crew {put out the fire|could not stop the fire}.
"""
TEMPLATES = tuple(line.strip() for line in _SENTENCES.strip().splitlines())
PROMPTS = (
    "The attempt has",
    "In the end, the plan",
    "After a long day of work, the team",
    "The newspaper wrote that the talks had",
    "Everybody asked whether she had",
    "The mission to the island",
    "When the test was over, the machine had",
    "They told us that the experiment",
    "The bid for the contract",
    "After three years, the company had",
    "The committee heard that the reform had",
    "He wrote home that his search had",
)  # behind each, " failed" and " succeeded" may stand


def outcomes() -> Examples:
    """All pairs: what went well is positive, and the `category` of what went badly says so."""
    texts = []
    for template in TEMPLATES:
        before, _, rest = template.partition("{")
        choice, _, after = rest.partition("}")
        texts += [f"{before}{end}{after}" for end in choice.split("|")]
    count = len(TEMPLATES)
    return Examples(
        tuple(texts),
        np.arange(2 * count) % 2 == 0,
        pairs=tuple(f"template {row // 2 + 1}" for row in range(2 * count)),
        extra={"category": ("success", "failure") * count},
        name="success",
    )
