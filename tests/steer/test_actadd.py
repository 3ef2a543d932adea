"""ActAdd: one difference a token, at the front of a text and nowhere else."""

import math

import pytest
import torch

from covec.concepts.examples import Examples
from covec.errors import CovecError
from covec.models.text import TextModel
from covec.steer.actadd import ActAdd, _padded

PAIR = ("I love it", " ")


@pytest.fixture(scope="module")
def fitted(tiny: TextModel) -> ActAdd:
    return ActAdd(PAIR, block=1).fit(tiny)


def test_the_shorter_prompt_is_filled_up_with_spaces(tiny):
    one, other = _padded(tiny, PAIR)
    assert len(one.ids) == len(other.ids)
    assert one.ids[0] == other.ids[0]
    space = tiny.tokenizer(" ", add_special_tokens=False)["input_ids"]
    assert list(other.ids[1:]) == space * (len(one.ids) - 1)


def test_every_token_has_its_own_difference(tiny, fitted):
    rows = []
    for item in _padded(tiny, PAIR):
        kept = []
        handle = tiny.anatomy.blocks[0].register_forward_hook(
            lambda _, __, out, kept=kept: kept.append(out[0] if isinstance(out, tuple) else out)
        )
        with torch.no_grad():
            tiny.module(torch.tensor([item.ids]))
        handle.remove()
        rows.append(kept[0].reshape(-1, tiny.width))
    wanted = (rows[0] - rows[1])[1:]
    edits = fitted.edits(2.0)
    assert len(edits) == len(wanted)
    for at, (edit, row) in enumerate(zip(edits, wanted, strict=True)):
        assert str(edit.site) == "resid.0"
        assert edit.position.select == str(1 + at)
        assert torch.allclose(edit.shift, 2 * row, atol=1e-4 * float(row.abs().max()))


def test_only_the_first_tokens_change_and_never_the_very_first(tiny, fitted):
    text = "The hotel was clean and the people were kind."
    plain = tiny.capture([text], "resid.0", "all/none")["resid.0"]
    with tiny.edit(*fitted.edits()):
        found = tiny.capture([text], "resid.0", "all/none")["resid.0"]
    changed = (found != plain).any(1)
    assert not changed[0]
    assert changed[1 : 1 + len(fitted.vectors)].all()
    assert not changed[1 + len(fitted.vectors) :].any()


def test_it_can_start_later(tiny):
    edits = ActAdd(PAIR, block=1, start=4).fit(tiny).edits()
    assert [edit.position.select for edit in edits] == [str(4 + at) for at in range(len(edits))]


def test_pairs_of_examples_give_their_first_pair(tiny):
    examples = Examples.from_lists(["Good day", "Nice one"], ["Bad day", "Poor one"], paired=True, name="kind")
    own, given = ActAdd(block=1).fit(tiny, examples), ActAdd(("Good day", "Bad day"), block=1).fit(tiny)
    for one, other in zip(own.edits(), given.edits(), strict=True):
        assert torch.equal(one.shift, other.shift)


def test_what_both_prompts_share_adds_nothing(tiny):
    fitted = ActAdd(("The day is good", "The day is bad"), block=1).fit(tiny)
    assert fitted.edits()[0].position.select != "1"


def test_what_cannot_be_done_is_told_in_one_line(tiny, fitted):
    with pytest.raises(CovecError, match="start at 1 or later, not 0"):
        ActAdd(PAIR, start=0).fit(tiny)
    with pytest.raises(CovecError, match="to add before, not 99"):
        ActAdd(PAIR, block=99).fit(tiny)
    with pytest.raises(CovecError, match="are the same to"):
        ActAdd(("same", "same"), block=1).fit(tiny)
    with pytest.raises(CovecError, match="takes two prompts"):
        ActAdd(("one", "")).fit(tiny)
    with pytest.raises(CovecError, match="give pair"):
        ActAdd().fit(tiny)
    with pytest.raises(CovecError, match="finite number, not nan"):
        fitted.edits(math.nan)
    with pytest.raises(CovecError, match="not fitted"):
        ActAdd().edits()
    assert fitted.edits(0.0) == ()
