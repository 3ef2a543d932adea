"""What an edit costs in a step of decoding, counted: hook calls, tensor operations, copies."""

from collections import Counter
from contextlib import contextmanager

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from transformers import DynamicCache

from covec.edits import scope
from covec.edits.algebra import Add
from covec.models.positions import Position

COPIES = {"clone", "copy_", "_to_copy", "_copy_from", "cat", "stack", "contiguous"}


class Counting(TorchDispatchMode):
    """Counts the tensor operations that run within it, by name."""

    def __init__(self):
        super().__init__()
        self.names = Counter()

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        self.names[function.overloadpacket.__name__] += 1
        return function(*args, **(kwargs or {}))


def adding(model, sites, row=0):
    shift = torch.full((model.width,), 0.1 + row)
    return [Add(site=site, position=Position("all"), shift=shift) for site in sites]


def operations_of_a_step(model, edits, rows=1):
    """Operations of one pass over one new token a row, after a prompt and a first step under the same edits."""
    prompt, token = torch.tensor([[5, 6, 7]] * rows), torch.tensor([[8]] * rows)
    with torch.no_grad(), model.edit(*edits):
        cache = DynamicCache(config=model.config)
        for ids in (prompt, token):
            model.module(ids, past_key_values=cache, use_cache=True)
        with Counting() as counted:
            model.module(token, past_key_values=cache, use_cache=True)
    return counted.names


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize("pattern", ["resid.1", "resid.*"])
def test_a_shift_is_one_addition_a_site_and_step(tiny, pattern, rows):
    sites = tiny.select(pattern)
    more = operations_of_a_step(tiny, adding(tiny, sites), rows)
    more.subtract(operations_of_a_step(tiny, [], rows))
    assert {name: count for name, count in more.items() if count} == {"add": len(sites)}


@pytest.mark.parametrize("pattern", ["resid.1", "resid.*"])
def test_as_many_shifts_as_rows_cost_as_little_as_one(tiny, pattern):
    sites = tiny.select(pattern)
    prompts, counted = ["one two", "three", "four five six"], []
    for edits in ([adding(tiny, sites, row) for row in range(3)], [[]] * 3):
        steps = []
        with stepwise(tiny, steps):
            tiny.generate(prompts, edits=edits, max_new_tokens=6, do_sample=False, eos_token_id=None)
        counted.append(steps[-1])
    (more, said), (plain, _) = counted
    more.subtract(plain)
    read = {"select": 1, "_local_scalar_dense": 1} if said else {}  # where the text stands, which older versions say
    assert {name: count for name, count in more.items() if count} == {"add": len(sites), **read}


@contextmanager
def stepwise(model, steps):
    """Count the operations of every pass of the network, and note whether the call says where it stands."""
    body = model.anatomy.body

    class Called(type(body)):
        def __call__(self, *args, **kwargs):
            with Counting() as counted:
                found = super().__call__(*args, **kwargs)
            steps.append((counted.names, kwargs.get("cache_position") is not None))
            return found

    kind = type(body)
    body.__class__ = Called
    try:
        yield
    finally:
        body.__class__ = kind


@pytest.mark.parametrize("pattern", ["resid.1", "resid.*"])
def test_a_hook_is_called_once_a_site_and_pass(tiny, pattern, monkeypatch):
    sites, called = tiny.select(pattern), []
    act = scope._act
    monkeypatch.setattr(scope, "_act", lambda model, key, hidden: called.append(key) or act(model, key, hidden))
    tiny.generate("one two", edits=adding(tiny, sites), max_new_tokens=5, eos_token_id=None)
    assert Counter(called) == {(tiny.anatomy.tap(site).module, "out"): 5 for site in sites}


def test_a_hook_stands_where_an_edit_acts_and_nowhere_else(tiny):
    def hooked():
        return {name for name, part in tiny.module.named_modules() if part._forward_hooks or part._forward_pre_hooks}

    at_rest = hooked()
    names = {part: name for name, part in tiny.module.named_modules()}
    with tiny.edit(adding(tiny, tiny.select("resid.1"))):
        assert hooked() - at_rest == {names[tiny.anatomy.body], names[tiny.anatomy.blocks[1]]}
    assert hooked() == at_rest == set()


def test_masked_tokens_cost_one_choice_a_site(tiny):
    (site,) = tiny.select("resid.1")
    shift = Add(site=site, position=Position("0"), shift=torch.ones(tiny.width))
    more = operations_of_a_step(tiny, [shift])
    more.subtract(operations_of_a_step(tiny, []))
    assert more["where"] == 1
    assert not sum(more[name] for name in COPIES)
