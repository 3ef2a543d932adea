"""What `watch` logs: every token read and written, once, after the edits, whatever the decoding."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from covec.concepts.vector import ConceptVector
from covec.errors import CovecError
from covec.models.text import TextModel
from tiny import tiny_model

PROMPTS = ["The hotel", "A dull film: two hours", "x"]


def vector(model: TextModel, site: str = "resid.1", name: str = "some") -> ConceptVector:
    direction = torch.randn(model.width, generator=torch.Generator().manual_seed(0))
    return ConceptVector.from_direction(name, site, direction, scale=2.0, scale_from="spread")


def watched(model: TextModel, some: ConceptVector, edits: Any = (), **options: Any) -> dict[tuple[int, int], Any]:
    with model.edit(edits), model.watch(some) as log:
        model.generate(PROMPTS, max_new_tokens=6, **options)
    found = {(seen.row, seen.index): (seen.token, seen.score, seen.generated) for seen in log.rows}
    assert len(found) == len(log.rows)
    return found


def same(one: dict[tuple[int, int], Any], other: dict[tuple[int, int], Any]) -> bool:
    close = all(
        one[key][0] == other[key][0]
        and one[key][2] == other[key][2]
        and one[key][1] == pytest.approx(other[key][1], abs=1e-3)
        for key in one
    )
    return one.keys() == other.keys() and close


@pytest.mark.parametrize("options", [{"use_cache": False}, {"batch_tokens": 1}, {"num_beams": 1}])
def test_the_log_does_not_depend_on_cache_or_batch(tiny: TextModel, options: dict[str, Any]) -> None:
    some = vector(tiny)
    assert same(watched(tiny, some), watched(tiny, some, **options))


def test_prompts_score_as_detect_says_and_written_tokens_follow(tiny: TextModel) -> None:
    some = vector(tiny)
    log = watched(tiny, some)
    for row, prompt in enumerate(PROMPTS):
        detection = tiny.detect(some, prompt)
        size = len(detection.tokens)
        scores = [log[row, index][1] for index in range(size)]
        assert scores == pytest.approx([token.score for token in detection.tokens], abs=1e-3)
        written = [index for at, index in log if at == row and log[at, index][2]]
        assert written == list(range(size, size + len(written)))
        assert len(written) <= 5  # the last token is written and not read


def test_what_was_written_is_in_the_log(tiny: TextModel) -> None:
    some = vector(tiny)
    with tiny.watch(some) as log:
        text = tiny.generate("The hotel", max_new_tokens=6)
    written = "".join(seen.token for seen in log.rows if seen.generated)
    assert text.encode(errors="ignore").startswith(written.rstrip("�").encode(errors="ignore"))


@pytest.mark.parametrize("site", ["resid.0", "attn.0", "head.0.1", "neuron.0", "final"])
def test_any_site_can_be_watched(tiny: TextModel, site: str) -> None:
    width = tiny.capture(["a"], site)[site].shape[1]
    some = ConceptVector.from_direction("some", site, torch.ones(width), scale=1.0, scale_from="spread")
    detection = tiny.detect(some, "The hotel")
    with tiny.watch(some) as log:
        tiny.module(tiny.tokenizer("The hotel", return_tensors="pt").input_ids)
    found = [seen.score for seen in log.rows]
    assert found == pytest.approx([token.score for token in detection.tokens], abs=1e-3)


def test_it_sees_what_the_edits_leave_whichever_scope_was_opened_first(tiny: TextModel) -> None:
    some = vector(tiny)
    ids = tiny.tokenizer("The hotel was clean", return_tensors="pt").input_ids
    logs = []
    with tiny.watch(some) as plain:
        tiny.module(ids)
    with tiny.edit(some.add(2.0, position="all")), tiny.watch(some) as log:
        tiny.module(ids)
    logs.append(log)
    with tiny.watch(some) as log, tiny.edit(some.add(2.0, position="all")):
        tiny.module(ids)
    logs.append(log)
    for log in logs:
        rise = [b.score - a.score for a, b in zip(plain.rows[1:], log.rows[1:], strict=True)]  # type: ignore[operator]
        assert rise == pytest.approx([2.0] * len(rise), abs=1e-3)


def test_ablated_tokens_score_nothing_also_when_written(tiny: TextModel) -> None:
    some = vector(tiny)
    log = watched(tiny, some, some.ablate(to="zero", position="all"))
    assert max(abs(score) for _, score, _ in log.values() if score is not None) < 1e-3


def test_edits_of_single_rows_are_seen_in_their_row(tiny: TextModel) -> None:
    some = vector(tiny)
    with tiny.watch(some) as log:
        tiny.generate(PROMPTS[:2], edits=[[], [some.ablate(to="zero")]], max_new_tokens=4)
    highest = {row: max(abs(seen.score) for seen in log.rows if seen.row == row and seen.score) for row in (0, 1)}
    assert highest[1] < 1e-3 < highest[0]


def test_a_text_that_has_ended_is_logged_no_further() -> None:
    module, tokenizer = tiny_model("llama")
    model = TextModel(module, tokenizer)
    first = int(module.generate(**tokenizer(["The hotel"], return_tensors="pt"), max_new_tokens=1)[0, -1])
    module.generation_config.eos_token_id = [first]  # the first row ends at once
    some = vector(model)
    with model.watch(some) as log:
        model.generate(["The hotel", "A dull film"], max_new_tokens=5)
    assert not any(seen.row == 0 and seen.generated for seen in log.rows)
    assert any(seen.row == 1 and seen.generated for seen in log.rows)


def test_calls_are_counted_and_captures_logged(llama: TextModel, seven: ConceptVector, other: ConceptVector) -> None:
    with llama.watch([seven, other]) as log:
        llama.generate(PROMPTS, max_new_tokens=2, batch_tokens=1)
        llama.capture(["a 7", "b", "a 7"], "resid.3")
    assert {seen.call for seen in log.rows} == {0, 1}
    assert {seen.row for seen in log.rows if seen.call == 0} == {0, 1, 2}
    assert {seen.row for seen in log.rows if seen.call == 1} == {0, 1}  # the third runs with the first
    assert {seen.concept for seen in log.rows} == {"seven", "other"}
    at_seven = [seen.score for seen in log.rows if seen.token == "7" and seen.concept == "seven"]
    assert at_seven == pytest.approx([0.5], abs=1e-4)


def test_every_beam_is_logged_and_named(tiny: TextModel) -> None:
    with tiny.watch(vector(tiny)) as log:
        tiny.generate(PROMPTS[:2], num_beams=3, max_new_tokens=4)
    prompts = {(seen.row, seen.beam, seen.index) for seen in log.rows if not seen.generated}
    assert {beam for _, beam, _ in prompts} == {0, 1, 2}
    assert {row for row, _, _ in prompts} == {0, 1}


def test_the_scope_leaves_nothing_behind_and_changes_nothing(tiny: TextModel) -> None:
    def hooks() -> list[int]:
        return [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in tiny.module.modules()]

    plain, installed = tiny.generate(PROMPTS, max_new_tokens=6), hooks()
    with tiny.watch(vector(tiny)) as log:
        assert tiny.generate(PROMPTS, max_new_tokens=6) == plain
    size = len(log.rows)
    tiny.generate(PROMPTS, max_new_tokens=2)
    assert len(log.rows) == size
    assert hooks() == installed


def test_tables_and_notebooks(llama: TextModel, seven: ConceptVector) -> None:
    with llama.watch(seven) as log:
        llama.generate(["a 7 <b>", "b"], max_new_tokens=2)
    table = log.table()
    assert list(table.columns) == ["call", "row", "beam", "index", "token", "concept", "score", "generated"]
    assert table[["row", "index"]].to_numpy().tolist() == sorted(table[["row", "index"]].to_numpy().tolist())
    drawn = log._repr_html_()
    assert drawn.count("<p") == 2
    assert "&lt;" in drawn
    assert "scores of seven" in repr(log)


def test_other_models_vectors_are_refused_unless_forced(seven: ConceptVector) -> None:
    stranger = TextModel(*tiny_model("llama", seed=1), name="stranger")
    with pytest.raises(CovecError, match="found in tiny-llama"):
        stranger.watch(seven)  # at the call, before any block is entered
    with stranger.watch(seven, force=True) as log:
        stranger.capture(["a 7"], "resid.3")
    assert len(log.rows) == len(stranger.tokenizer("a 7").input_ids)


@pytest.mark.parametrize(
    ("given", "said"), [((), "no concept vector"), (("louder",), "str is no"), ((3,), "int is no")]
)
def test_what_is_no_vector_is_refused_at_the_call(llama: TextModel, given: tuple, said: str) -> None:
    with pytest.raises(CovecError, match=said):
        llama.watch(*given)
