"""The page of the bench of steering: whole, self-contained, escaped, and plain about what beats what."""

import numpy as np

from covec.bench.steering.result import Row, SteeringBench
from covec.report import steering as report
from pages import Text

CONCEPTS = ("food", "<script>alert(1)</script>")
PROMPTS = tuple(f"Prompt {place} & so" for place in range(8))
DOSES = (0.1, 1.0)
KINDS = {
    "unsteered": "plain", "style-vectors": "method", "addition": "method", "shuffled-labels": "null",
    "wrong-concept": "null", "random-direction": "null", "prompting": "prompt", "few-shot-prompting": "prompt",
}  # fmt: skip


def made(gain=0.7, concepts=CONCEPTS, kinds=KINDS) -> SteeringBench:
    rng = np.random.default_rng(0)

    def row(concept, method, kind, dose) -> Row:
        level = gain if kind == "method" else 0.1
        presence = tuple(np.clip(level + 0.02 * rng.standard_normal(len(PROMPTS)), 0.01, 1))
        others = {name: 0.1 for name in concepts if name != concept}
        one = (1.0,) * len(PROMPTS)
        return Row(
            concept, method, kind, dose, dose, dose, presence, others, one, (0.0,) * len(PROMPTS), one, 0.9,
            tuple(f"<b>text</b> {place}" for place in range(len(PROMPTS))), 0.5,
        )  # fmt: skip

    rows = [
        row(concept, method, kind, dose)
        for concept in concepts
        for method, kind in kinds.items()
        for dose in (DOSES if kind in ("method", "null") else (None,))
    ]
    model = {"name": "tiny<b>", "architecture": "X", "blocks": 4, "width": 32, "dtype": "float32"}
    settings = {"doses": list(DOSES), "site": "resid.2", "seed": 0, "versions": {"covec": "1"}}
    return SteeringBench(model, PROMPTS, tuple(rows), settings, ("a note",), 1.0, 0)


def test_every_tag_is_closed_and_nothing_is_fetched_or_run():
    page = report.page(made()).decode()
    parser = Text()
    parser.feed(page)
    assert not parser.open
    assert "<script>alert" not in page
    assert "<b>text</b>" not in page
    assert "src=" not in page


def test_it_says_in_words_what_beats_what():
    said = report.verdicts(made())
    assert len(said) == 5
    assert all("beats" in text for text in said)
    assert "worse" in report.verdicts(made(gain=0.05))[0]
    assert "no different" in report.verdicts(made(gain=0.1))[3]


def test_every_way_and_text_is_shown():
    page = report.page(made()).decode()
    for name in KINDS:
        assert name in page
    assert "addition, 0.1 nats" in page or "style-vectors, 0.1 nats" in page
    assert page.count('class="prompt"') == len(CONCEPTS) * report.SHOWN


def test_a_page_without_methods_is_a_page():
    page = report.page(made(kinds={"unsteered": "plain", "prompting": "prompt"})).decode()
    assert "All ways" in page
