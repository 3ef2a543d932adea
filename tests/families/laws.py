"""What every family keeps, one function a law: it raises `AssertionError` where a family does not.

The docstring of a law is its line in docs/families.md.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn

import covec
from comparing import close
from covec.activations.capture import forward
from covec.activations.split import Split
from covec.checks.doctor import doctor as examine
from covec.edits.algebra import Ablate, Add, Edit
from covec.errors import ModelError
from covec.models.batching import pad
from covec.models.positions import Position
from covec.models.sites import Site
from covec.models.taps import hidden_of
from covec.models.text import TextModel
from families.zoo import EXPERTS, HEADS, SITES, Family

TEXTS = ["The hotel was clean and the people were kind.", "x", "A dull film: two hours", "ice melts at 0"]
ANYWHERE = ("all", "content", "prompt", "last", "last+generated", "generated", "from-2", "3")

Law = Callable[[Family, TextModel], None]
LAWS: dict[str, Law] = {}


def law(function: Law) -> Law:
    """Put `function` among the laws, under its name."""
    LAWS[function.__name__] = function
    return function


def applies(name: str, family: Family, model: TextModel) -> bool:
    """Whether a law speaks of a family: of those that write, of those that do not, or of all."""
    of_some = {"cache", "padding", "decoding", "own_calls"}
    if name == "bfloat16":  # where a router chooses, rounding may choose other experts
        return EXPERTS not in family.lacks.values()
    return model.generates if name in of_some else not model.causal if name == "encoders" else True


def present(model: TextModel, kinds: str) -> list[Site]:
    """The first site of each kind in every block."""
    return [site for site in model.sites if site.kind in kinds.split() and site.head <= 0]


def shift(model: TextModel, site: Site, size: float = 2.0, position: str = "content") -> Add:
    """An edit that adds a random vector of the site's own width."""
    width = model.capture(["x"], [site], "last")[site].shape[1]
    values = size * torch.randn(width, generator=torch.Generator().manual_seed(3))
    return Add(site=site, shift=values, position=Position.parse(position))


def logits(model: TextModel, text: str = TEXTS[0]) -> Tensor:
    """What the whole model gives for a text: logits, or the last hidden states where it has no head."""
    ids = model.tokenizer(text, return_tensors="pt").input_ids
    with torch.no_grad():
        output = model.module(ids)
    return output.logits if model.has_head else output.last_hidden_state


@contextmanager
def listening(modules: Sequence[nn.Module], end: str = "out") -> Iterator[list[Tensor]]:
    """What `modules` give (or take), in the order in which they run: read by plain hooks, without covec."""
    seen: list[Tensor] = []
    handles = [
        module.register_forward_hook(lambda _, args, output: seen.append(hidden_of(output).clone()))
        if end == "out"
        else module.register_forward_pre_hook(lambda _, args: seen.append(args[0].clone()))
        for module in modules
    ]
    try:
        yield seen
    finally:
        for handle in handles:
            handle.remove()


@law
def sites(family: Family, model: TextModel) -> None:
    """its sites are found, in every block and with as many heads as it has; others are refused in one line"""
    assert {site.kind for site in model.sites} == family.kinds
    for kind in family.kinds - {"embed", "final"}:
        blocks = {site.block for site in model.sites if site.kind == kind}
        assert family.mixes or blocks == set(range(model.blocks))
        heads = {"head": HEADS, "key": family.shared, "value": family.shared}.get(kind, 1)
        assert len([site for site in model.sites if site.kind == kind]) == heads * len(blocks)
    if family.mixes:
        mixed = {site.block for site in model.sites if site.kind in ("attn", "mixer")}
        assert mixed == set(range(model.blocks))
    for absent in {
        "embed": "embed",
        "final": "final",
        "head": "head.0.0",
        "key": "key.0.0",
        "value": "value.0.0",
    }.items():
        assert absent[0] in family.kinds or _refused(model, absent[1])
    for kind in set(SITES) - family.kinds - {"embed", "final", "head", "key", "value"}:
        assert _refused(model, f"{kind}.0")


def _refused(model: TextModel, site: str) -> bool:
    with pytest.raises(ModelError, match=rf"^no site '{site}' in this model; it has .*resid\.0"):
        model.capture(["x"], site)
    return True


@law
def blocks(family: Family, model: TextModel) -> None:
    """`embed` is what block 0 takes, `resid.k` what block k gives"""
    with listening(model.anatomy.blocks[:1], "in") as taken, listening(model.anatomy.blocks) as given:
        logits(model)
    found = model.capture(TEXTS[:1], ["embed", "resid.*"], "all")
    assert torch.equal(found["embed"], taken[0][0])
    for block in range(model.blocks):
        assert torch.equal(found[f"resid.{block}"], given[block][0])


@law
def hidden_states(family: Family, model: TextModel) -> None:
    """`resid.k` is transformers' `hidden_states[k + 1]`, but for the last; `final` is `last_hidden_state`"""
    ids = model.tokenizer(TEXTS[0], return_tensors="pt").input_ids
    with torch.no_grad():
        given = model.anatomy.body(ids, output_hidden_states=True)
    found = model.capture(TEXTS[:1], "resid.*", "all")
    for block in range(model.blocks - 1):
        assert close(found[f"resid.{block}"], given.hidden_states[block + 1][0])
    last = "final" if "final" in family.kinds else f"resid.{model.blocks - 1}"
    assert close(model.capture(TEXTS[:1], last, "all")[last], given.last_hidden_state[0])


@law
def stream(family: Family, model: TextModel) -> None:
    """`resid.k - resid.(k-1) = attn.k + mlp.k`, with `mixer.k` in place of attention where blocks have one"""
    kinds = "attn mlp mixer"
    found = model.capture(TEXTS, ["embed", "resid.*", *present(model, kinds)], "all")
    for block in range(model.blocks):
        before = found["embed" if block == 0 else f"resid.{block - 1}"]
        added = sum(found[site] for site in present(model, kinds) if site.block == block)
        assert close(found[f"resid.{block}"] - before, added, size=found[f"resid.{block}"])


@law
def heads(family: Family, model: TextModel) -> None:
    """heads side by side are what the output projection takes; keys and neurons what their projections give and take"""
    wanted = {"head": (family.out, "in"), "key": (family.key, "out"), "neuron": (family.down, "in")}
    for kind, (path, end) in wanted.items():
        for block in {site.block for site in model.sites if site.kind == kind}:
            here = [site for site in model.sites if site.kind == kind and site.block == block]
            found = model.capture([TEXTS[0]], here, "all")
            with listening([model.anatomy.blocks[block].get_submodule(path)], end) as raw:
                logits(model)
            assert torch.equal(torch.cat([found[site] for site in here], 1), raw[0].reshape(len(found[here[0]]), -1))


@law
def batches(family: Family, model: TextModel) -> None:
    """rows do not depend on the batch, its order or its padding, to 1e-4 of their largest entry"""
    together = model.capture(TEXTS, model.sites, "all")
    turned = model.capture(TEXTS[::-1], model.sites, "all")
    for index, text in enumerate(TEXTS):
        alone = model.capture([text], model.sites, "all")
        for site in model.sites:
            assert close(together.of(index, site), alone[site])
            assert close(turned.of(len(TEXTS) - 1 - index, site), alone[site])


@law
def early_exit(family: Family, model: TextModel) -> None:
    """a capture stops after its deepest site, and never runs the language head"""
    head = model.module.get_output_embeddings() if model.has_head else None  # type: ignore[operator]
    with listening([model.anatomy.blocks[1]]) as later, listening([head] if head else []) as spoken:
        model.capture(TEXTS, ["embed", *present(model, "resid attn mlp")[:1]], "last")
        assert not later
        model.capture(TEXTS, model.sites, "last")
        assert later
        assert not spoken


@law
def untouched(family: Family, model: TextModel) -> None:
    """logits are the same bits before, during an edit that adds nothing, and after one that does; no hook stays"""
    plain, before = logits(model), _hooks(model)
    for site in present(model, " ".join(family.kinds)):
        with model.edit(shift(model, site, 0.0)):
            assert torch.equal(logits(model), plain)
        with model.edit(shift(model, site)):
            assert not torch.equal(logits(model), plain)
        assert torch.equal(logits(model), plain)
    assert _hooks(model) == before


def _hooks(model: TextModel) -> list[int]:
    """How many hooks every module has (transformers puts some of its own)."""
    return [len(part._forward_hooks) + len(part._forward_pre_hooks) for part in model.module.modules()]


@law
def moves(family: Family, model: TextModel) -> None:
    """an edit moves its site by what it says, on the tokens it names and on no others"""
    for site in present(model, " ".join(family.kinds)):
        before = model.capture(TEXTS[:1], [site], "all")[site]
        edit = shift(model, site, position="from-3")
        with model.edit(edit):
            after = model.capture(TEXTS[:1], [site], "all")[site]
        assert close(after[3:] - before[3:], edit.shift.expand_as(before[3:]), size=before[3:] + edit.shift)
        if model.causal:
            assert torch.equal(after[:3], before[:3])


@law
def algebra(family: Family, model: TextModel) -> None:
    """adding and subtracting is nothing; ablating twice is ablating once, and leaves nothing of the direction"""
    for site in present(model, " ".join(family.kinds)):
        plain = model.capture(TEXTS, [site], "all")[site]
        there = shift(model, site)
        back = Add(site=site, shift=-there.shift, position=there.position)
        assert close(_under(model, [there, back], site), plain)
        direction = there.shift / there.shift.norm()
        gone = Ablate(site=site, directions=direction[None], targets=torch.zeros(1), position=Position("all"))
        once = _under(model, [gone], site)
        assert close(_under(model, [gone, gone], site), once)
        assert ((once @ direction).abs() <= 1e-4 * plain.abs().amax(1)).all()


def _under(model: TextModel, edits: list[Edit], site: Site) -> Tensor:
    with model.edit(*edits):
        return model.capture(TEXTS, [site], "all")[site]


@law
def cache(family: Family, model: TextModel) -> None:
    """greedy texts under an edit are the same with and without cache, at every position"""
    plain = _ids(model, TEXTS)
    for position in ANYWHERE:
        with model.edit(shift(model, Site("resid", 0), 3.0, position)):
            cached = _ids(model, TEXTS, use_cache=True)
            assert _ids(model, TEXTS, use_cache=False) == cached
            assert position == "3" or cached != plain


@law
def padding(family: Family, model: TextModel) -> None:
    """texts written in a batch, padded on the left, are those that are written alone, with and without an edit"""
    assert _ids(model, TEXTS) == [_ids(model, [text])[0] for text in TEXTS]
    with model.edit(shift(model, Site("resid", 0), 3.0, "last+generated")):
        assert _ids(model, TEXTS) == [_ids(model, [text])[0] for text in TEXTS]


def _ids(model: TextModel, texts: list[str], **options: Any) -> list[str]:
    """Texts of exactly six new tokens each: at their end a model would stop and tell less."""
    return model.generate(texts, max_new_tokens=6, min_new_tokens=6, **options)  # type: ignore[no-any-return]


@law
def decoding(family: Family, model: TextModel) -> None:
    """sampled and beamed texts under an edit are the same with and without cache, alone and in a batch"""
    with model.edit(shift(model, Site("resid", 0), 3.0, "last+generated")):
        for options in ({"do_sample": True, "seed": 2}, {"num_beams": 2}):
            texts = _ids(model, TEXTS, use_cache=True, **options)
            assert _ids(model, TEXTS, use_cache=False, **options) == texts
            assert [_ids(model, [text], **options)[0] for text in TEXTS] == texts


@law
def own_calls(family: Family, model: TextModel) -> None:
    """transformers' own `generate`, and passes made one by one with its cache, are edited as covec's"""
    ids, mask = _padded_left(model)
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False}
    module: Any = model.module
    with model.edit(shift(model, Site("resid", 0), 3.0, "from-2")):
        expected = model.generate(TEXTS, **settings)
        written = module.generate(ids, attention_mask=mask, pad_token_id=model.pad_id, **settings)
        read, cached = ids[:1, mask[0].argmax() :], {}
        for _ in range(4):
            output = _step(module, read[:, -1:] if cached else read, cached, read.shape[1] - 1)
            cached = {name: output[name] for name in ("cache", "past_key_values", "cache_params") if output.get(name)}
            read = torch.cat([read, output.logits[:, -1:].argmax(-1)], 1)
    assert model.tokenizer.batch_decode(written[:, ids.shape[1] :], skip_special_tokens=True) == expected
    assert torch.equal(read[:, -4:], written[:1, ids.shape[1] :])


def _step(module: Any, ids: Tensor, cached: dict[str, Any], place: int) -> Any:
    """One pass over tokens that follow those in the cache; older versions of Mamba ask where they stand."""
    asked = cached and "cache_position" in inspect.signature(module.forward).parameters
    place_of = {"cache_position": torch.tensor([place])} if asked else {}
    with torch.no_grad():
        return module(ids, use_cache=True, **cached, **place_of)


def _padded_left(model: TextModel) -> tuple[Tensor, Tensor]:
    rows = [model.tokenizer(text).input_ids for text in TEXTS]
    longest = max(map(len, rows))
    ids = torch.tensor([[model.pad_id] * (longest - len(row)) + row for row in rows])
    return ids, torch.tensor([[0] * (longest - len(row)) + [1] * len(row) for row in rows])


@law
def split(family: Family, model: TextModel) -> None:
    """the blocks above a site, run alone from what those below gave, give what the whole gives, edited or not"""
    tokens = model.tokenize(TEXTS)
    batch = pad(tokens, range(len(TEXTS)), pad_id=model.pad_id, masked=not model.causal, device=model.device)
    real = torch.tensor([[place < len(item.ids) for place in range(batch.ids.shape[1])] for item in tokens])
    for site in present(model, "embed resid attn mlp mixer final"):
        upper = Split(model, site)
        edit = shift(model, site, position="all")
        with torch.no_grad():
            stream = upper.encode(batch)
            assert close(upper.decode(batch, stream)[real], forward(model, batch)[0][real])
            changed = upper.decode(batch, stream, lambda hidden, edit=edit: hidden + edit.shift)
            with model.edit(edit):
                assert close(changed[real], forward(model, batch)[0][real])


@law
def encoders(family: Family, model: TextModel) -> None:
    """what is no decoder refuses in one line to write, and to edit what it would write"""
    with pytest.raises(ModelError, match="does not continue texts, it is an encoder") as told:
        model.generate(TEXTS)
    assert "\n" not in str(told.value)
    with (
        pytest.raises(ModelError, match="generates no text: .* cannot be 'generated'"),
        model.edit(Add(site=Site("resid", 0), shift=torch.zeros(model.width), position=Position("generated"))),
    ):
        pass


@law
def bfloat16(family: Family, model: TextModel) -> None:
    """in bfloat16 rows depend on their batch by at most 3e-2 of their largest entry, and edits act"""
    half = TextModel(copy.deepcopy(model.module).bfloat16(), model.tokenizer)
    together = half.capture(TEXTS, half.sites, "all")
    for index, text in enumerate(TEXTS):
        alone = half.capture([text], half.sites, "all")
        for site in half.sites:
            assert close(together.of(index, site), alone[site], tolerance=3e-2)
    plain = logits(half)
    for site in present(half, " ".join(family.kinds)):
        with half.edit(shift(half, site)):
            assert not torch.equal(logits(half), plain)
        assert torch.equal(logits(half), plain)


@law
def doctor(family: Family, model: TextModel) -> None:
    """`covec doctor` finds nothing wrong"""
    assert not [check for check in examine(model).checks if not check.passed]


@law
def loading(family: Family, model: TextModel) -> None:
    """`covec.load` takes the live model, and its body without a head, and reads the same rows from both"""
    whole = covec.load(model.module, model.tokenizer)
    body = covec.load(model.anatomy.body, model.tokenizer)
    assert not body.has_head
    assert whole.causal == model.causal >= body.causal  # a body that does not tell is read with a mask
    assert body.sites == whole.sites == model.sites
    one, other = (some.capture(TEXTS, some.sites, "all") for some in (whole, body))
    for site in model.sites:
        assert close(one[site], other[site])
