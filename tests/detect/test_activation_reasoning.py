"""Rules over detectors: what follows, in which order, with which proof, and what is no rule."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from covec.concepts.vector import ConceptVector
from covec.detect import Detection
from covec.detect._rules import Formula, Rules
from covec.detect.activation_reasoning import ActivationReasoning
from covec.errors import CovecError
from covec.models.text import TextModel
from tiny import tiny_model

NAMES = ("a", "b", "c")


def reasoned(rules: str, scores: dict[str, float]):
    detections = [Detection("a text", name, score, None, score > 0.25) for name, score in scores.items()]
    return ActivationReasoning(rules).reason(detections, dict.fromkeys(scores, 0.25))


def test_a_chain_is_followed_to_its_end_whatever_the_order_of_the_rules():
    rules = ["d -> e", "a and b -> c", "c or z -> d", "missing -> z", "not b -> missing"]
    found = reasoned("\n".join(rules), {"a": 1.0, "b": 0.5})
    assert found.holding == ("a", "b", "c", "d", "e")
    assert found["e"].margin == found["c"].margin == pytest.approx(0.25)  # the weaker of a and b
    assert not found["z"].holds
    assert str(found["e"]).splitlines() == [
        "e holds (+0.25) by rules, line 1: d -> e",
        "  d holds (+0.25) by rules, line 3: c or z -> d",
        "    c holds (+0.25) by rules, line 2: a and b -> c",
        "      a holds (+0.75): read in the text",
        "      b holds (+0.25): read in the text",
        "    z fails (-0.25) by rules, line 4: missing -> z",
        "      missing fails (-0.25) by rules, line 5: not b -> missing",
        "        b holds (+0.25): read in the text",
    ]


def test_a_score_at_the_threshold_does_not_fire_and_its_negation_holds():
    found = reasoned("not a -> b", {"a": 0.25})
    assert found.holding == ("b",)


def test_a_concept_with_a_vector_and_rules_holds_where_one_says_so():
    assert reasoned("a -> b", {"a": 1.0, "b": 0.0})["b"].rule is not None
    assert reasoned("a -> b", {"a": 0.0, "b": 1.0})["b"].rule is None
    assert not reasoned("a -> b", {"a": 0.0, "b": 0.0})["b"].holds


def test_strengths_are_those_of_the_best_rule():
    found = reasoned("a -> c\nb -> c", {"a": 0.5, "b": 1.0})
    assert (found["c"].margin, str(found["c"].rule)) == (0.75, "b -> c")


def formulas():
    leaves = st.sampled_from(NAMES).map(lambda name: Formula("", concept=name))
    return st.recursive(
        leaves,
        lambda below: (
            below.map(lambda one: Formula("not", (one,)))
            | st.tuples(st.sampled_from(["and", "or"]), st.lists(below, min_size=2, max_size=3)).map(
                lambda found: Formula(found[0], tuple(found[1]))
            )
        ),
        max_leaves=6,
    )


def written(formula: Formula) -> str:
    if not formula.operator:
        return formula.concept
    parts = [written(part) for part in formula.parts]
    return f"not ({parts[0]})" if formula.operator == "not" else f"({f' {formula.operator} '.join(parts)})"


def truth(formula: Formula, facts: dict[str, bool]) -> bool:
    if not formula.operator:
        return facts[formula.concept]
    found = [truth(part, facts) for part in formula.parts]
    return {"not": not found[0], "and": all(found), "or": any(found)}[formula.operator]


@given(formulas())
@settings(max_examples=60, deadline=None)
def test_margins_agree_with_truth_tables(formula):
    rule = f"{written(formula)} -> result"
    assert Rules.parse(rule).rules[0].text == rule
    for values in product([True, False], repeat=len(NAMES)):
        facts = dict(zip(NAMES, values, strict=True))
        scores = {name: 1.0 + index if facts[name] else -1.0 - index for index, name in enumerate(NAMES)}
        found = reasoned(rule, scores)
        assert found["result"].holds == truth(formula, facts)


def test_and_binds_more_than_or_and_names_may_stand_in_quotes():
    rule = Rules.parse('a or b and not "good words" implies c.d-e  # a remark').rules[0]
    assert written(rule.body) == "(a or (b and not (good words)))"
    assert rule.head == "c.d-e"
    assert Rules.parse("# nothing\n\na → b").rules[0].place == "rules, line 3"


@pytest.mark.parametrize(
    ("rules", "message"),
    [
        ("", "there is no rule"),
        ("a b -> c", "line 1: expected '->'"),
        ("a -> b c", "line 1: one concept must follow"),
        ("a -> not b", "line 1: one concept must follow"),
        ("a -> b -> c", "line 1: one concept must follow"),
        ("a ->", "line 1: a concept is missing"),
        ("(a and b -> c", "line 1: a bracket is not closed"),
        ("a & b -> c", "line 1: '&' has no meaning"),
        ("x -> y\na and -> c", "line 2: a concept is missing"),
        ("(" * 4000 + "a", "brackets too deep"),
        ("not " * 4000 + "a -> b", "brackets too deep"),
        ("a -> a", "run in a circle, 'a' -> 'a'"),
        ("a -> b\nnot c -> a\nb -> c", "run in a circle"),
    ],
)
def test_what_is_no_rule_is_told_in_a_line(rules, message):
    with pytest.raises(CovecError, match=message.replace("(", r"\(")) as caught:
        ActivationReasoning(rules)
    assert "\n" not in str(caught.value)


def test_an_unknown_concept_is_told_with_its_line_and_the_vectors_there_are():
    with pytest.raises(CovecError, match=r"line 2: 'd' has neither a vector nor a rule.*'a', 'b'"):
        reasoned("a -> c\nc and d -> e", {"a": 1.0, "b": 1.0})


def test_rules_come_from_a_file_that_errors_name(tmp_path):
    path = tmp_path / "rules.txt"
    path.write_text("\ufeffa -> b\n", encoding="utf-8")
    assert ActivationReasoning.read(path).rules.rules[0].head == "b"
    path.write_text("a -> b\nb ->\n")
    with pytest.raises(CovecError, match=r"rules\.txt, line 2"):
        ActivationReasoning.read(path)
    path.write_bytes(b"\xff\xfe\x00a")
    with pytest.raises(CovecError, match="no text in UTF-8"):
        ActivationReasoning.read(path)
    with pytest.raises(CovecError, match="there is no file"):
        ActivationReasoning.read(tmp_path / "none.txt")


def test_one_pass_over_a_model_gives_the_proof_with_its_tokens():
    model = TextModel(*tiny_model("llama"))
    rows = model.capture(["The hotel was clean.", "Water boils."], "resid.1", "content/none")["resid.1"]
    vectors = []
    for index, name in enumerate(("clean", "hot water")):
        direction = torch.linalg.qr(rows.T[:, :6]).Q[:, index]
        means = rows.mean(0) + direction, rows.mean(0) - direction
        vectors.append(ConceptVector.from_direction(name, "resid.1", direction, *means, aggregator="max"))
    reasoner = ActivationReasoning('clean or "hot water" -> fine\nnot fine -> dull')
    texts = ["The hotel was clean.", "Water boils at 100 degrees.", "A dull film."]
    found = reasoner.detect(model, vectors, texts)
    plain = model.detect(vectors, texts)
    for row, one in enumerate(found):
        scores = [plain[2 * row + place].score for place in (0, 1)]
        assert one["fine"].margin == pytest.approx(max(scores))
        assert one["fine"].holds != one["dull"].holds
        assert "most at" in str(one["fine"])
        assert one.to_json()["propositions"][2]["concept"] == "fine"
    alone = reasoner.detect(model, vectors, texts[0])
    assert np.isclose(alone["fine"].margin, found[0]["fine"].margin, atol=1e-4)
    with pytest.raises(CovecError, match="two vectors are called 'clean'"):
        reasoner.detect(model, [vectors[0], vectors[0]], texts)
    with pytest.raises(CovecError, match="'hot water' has neither"):
        reasoner.detect(model, vectors[:1], texts)
