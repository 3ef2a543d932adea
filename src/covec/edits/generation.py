"""Generation under edits: batched, seeded a row, with different edits in different rows."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import groupby
from traceback import walk_tb
from typing import Any

import torch
from torch import Tensor

from covec.edits.calls import apart
from covec.edits.scope import check, flatten, hooks
from covec.errors import ExamplesError, ModelError
from covec.models.batching import pack, pad
from covec.models.plan import Plan, edits_in_force, planned
from covec.models.text import TextModel
from covec.models.tokens import Input, Tokenized, one_or_several
from covec.progress import Progress, silent

BATCH_TOKENS = 4096  # prompt and new tokens of one batch
_INSTEAD = {
    "max_length": "give max_new_tokens",
    "num_return_sequences": "give a prompt several times, of which each repeat is sampled anew",
    "return_dict_in_generate": "call model.module.generate inside model.edit(...)",
    "pixel_values": "covec reads and writes text, not images",
    "generation_config": "give its settings as keywords",
    "past_key_values": "covec reads each prompt whole; call model.module.generate inside model.edit(...)",
}
_ONE_TEXT = {
    "num_return_sequences": 1,
    "return_dict_in_generate": False,
    "num_beams": 1,
}  # whatever the model's own say
# What looks back at the ids of a row, where what fills up shorter rows would be taken for text; what leaves it alone.
_LOOKING_BACK: dict[str, Any] = {
    "repetition_penalty": 1.0,
    "encoder_repetition_penalty": 1.0,
    "no_repeat_ngram_size": 0,
    "encoder_no_repeat_ngram_size": 0,
    "min_length": 0,
    **dict.fromkeys(("sequence_bias", "bad_words_ids", "forced_bos_token_id", "watermarking_config", "stop_strings")),
    **dict.fromkeys(("logits_processor", "stopping_criteria")),
}


def generate(
    model: TextModel,
    inputs: Input | Sequence[Input],
    *,
    edits: Sequence[Any] | None = None,
    max_new_tokens: int = 40,
    do_sample: bool = False,
    seed: int = 0,
    force: bool = False,
    batch_tokens: int = BATCH_TOKENS,
    progress: Progress = silent,
    **options: Any,
) -> Any:
    """Continuations of `inputs`, without the prompt: a str for a str or a chat, a list for a list.

    Parameters
    ----------
    inputs
        Texts, tokenised as they are, or chats (lists of messages), which get the header of the assistant's turn.
    edits
        One list of edits an input, in addition to those of the scopes around the call.
    do_sample, seed
        Greedy unless `do_sample`; only then the seed matters. A row's text depends on its prompt, the seed and how
        often the prompt stood before it, never on its other neighbours.
    force
        Let edits made for another model through.
    options
        Further keywords of transformers' `generate`, such as `temperature`, `num_beams` or `use_cache`.
    """
    inputs, single = one_or_several(inputs)
    if edits is not None:
        edits = [edits] if single else list(edits)
    if edits is not None and len(edits) != len(inputs):
        raise ExamplesError(f"{len(edits)} lists of edits for {len(inputs)} inputs: give one list an input")
    if not model.generates:
        what = "has no language head" if model.causal else "is an encoder"
        raise ModelError(f"{model.name} does not continue texts, it {what}: load a causal language model for that")
    if max_new_tokens < 1:
        raise ExamplesError(f"max_new_tokens must be at least 1, not {max_new_tokens}")
    model.check_settled()
    options = apart({name: value for name, value in options.items() if value is not None})
    if refused := next((name for name in _INSTEAD if name in options and options[name] != _ONE_TEXT.get(name)), None):
        raise ModelError(f"generate gives one text an input and takes no {refused}: {_INSTEAD[refused]}")
    if do_sample and (other := next((name for name in _NOT_SAMPLED if options.get(name, 1) != 1), None)):
        raise ModelError(f"sampling and {_NOT_SAMPLED[other]} exclude each other: give {other} or do_sample")
    around = edits_in_force(model.anatomy.body)
    own = [flatten(row) for row in edits] if edits is not None else [()] * len(inputs)
    check(model, [edit for row in own for edit in row], force=force)
    tokens = model.tokenize(inputs, reply=True)
    _fits(model, tokens, max_new_tokens)
    repeats = _repeats(tokens)
    texts: list[str] = [""] * len(tokens)
    batches = pack([len(item.ids) + max_new_tokens for item in tokens], batch_tokens, model.together)
    if _looks_back(model, options):
        lengths = [groupby(rows, key=lambda row: len(tokens[row].ids)) for rows in batches]
        batches = [list(alike) for batch in lengths for _, alike in batch]
    with progress(f"writing {len(tokens)} texts", len(tokens)) as bar:
        for rows in batches:
            plan_edits = [(*around, *own[row]) for row in rows]
            sampler = _Sampler(seed, [(tokens[row].ids, repeats[row]) for row in rows], options) if do_sample else None
            written = _write(model, tokens, rows, plan_edits, max_new_tokens, sampler, options)
            for row, text in zip(rows, written, strict=True):
                texts[row] = text
            bar.advance(len(rows))
    return texts[0] if single else texts


def _fits(model: TextModel, tokens: Sequence[Tokenized], new: int) -> None:
    longest = max((len(item.ids) for item in tokens), default=0)
    if model.context is not None and longest + new > model.context:
        raise ExamplesError(
            f"a prompt of {longest} tokens and {new} new ones exceed the model's context of {model.context} tokens"
        )


def _looks_back(model: TextModel, options: dict[str, Any]) -> bool:
    """Whether the next token depends on more than the logits, so that rows in a batch must need no padding."""
    own = model.module.generation_config
    return any(options.get(name, getattr(own, name, None)) not in (None, off) for name, off in _LOOKING_BACK.items())


def _repeats(tokens: Sequence[Tokenized]) -> list[int]:
    seen: dict[tuple[int, ...], int] = {}
    repeats = []
    for item in tokens:
        repeats.append(seen.get(item.ids, 0))
        seen[item.ids] = repeats[-1] + 1
    return repeats


def _write(
    model: TextModel,
    tokens: Sequence[Tokenized],
    rows: Sequence[int],
    edits: Sequence[tuple[Any, ...]],
    new: int,
    sampler: _Sampler | None,
    options: dict[str, Any],
) -> list[str]:
    batch = pad(tokens, rows, pad_id=model.pad_id, masked=True, device=model.device, left=True)
    mask = torch.ones_like(batch.ids) if batch.mask is None else batch.mask
    plan = Plan(batch.layouts, "left", edits, rows, owner=model.anatomy.body)
    processors = [_numbers, *options.get("logits_processor", ())]
    settings = {**_ONE_TEXT, "do_sample": False, "temperature": None, "top_k": None, "top_p": None, **options}
    if sampler is not None:
        settings = {key: value for key, value in options.items() if key not in _WARPERS}
        settings = {**_ONE_TEXT, "do_sample": True, "temperature": 1.0, "top_k": 0, "top_p": 1.0, **settings}
        processors.append(sampler)
    settings["logits_processor"] = processors
    if "stop_strings" in options:
        settings["tokenizer"] = model.tokenizer
    try:
        with hooks(model, flatten(edits)), planned(plan), torch.no_grad():
            ids = model.module.generate(  # type: ignore[operator]
                input_ids=batch.ids, attention_mask=mask, max_new_tokens=new, pad_token_id=model.pad_id, **settings
            )
    except (ValueError, TypeError) as error:
        if not _complains_of_options(error):
            raise
        raise ModelError(f"this model's generate refuses an option: {str(error).splitlines()[0]}") from error
    return list(model.tokenizer.batch_decode(ids[:, batch.ids.shape[1] :], skip_special_tokens=True))


def _complains_of_options(error: BaseException) -> bool:
    """Whether transformers' generation itself raised `error`, and neither the network nor code of the user's own."""
    *_, (frame, _) = walk_tb(error.__traceback__)
    return str(frame.f_globals.get("__name__")).startswith("transformers.generation")


def _numbers(ids: Tensor, scores: Tensor) -> Tensor:
    """The logits as they are; refused where they are no numbers, of which a text could still be made."""
    if scores.isnan().any():
        raise ModelError("the model's logits are no numbers (NaN): use a smaller strength, or load it in float32")
    return scores


class _Sampler:
    """Chooses each row's next token by Gumbel noise keyed by (seed, prompt, repeat, step), and bars all others.

    Argmax of log-probability plus Gumbel noise is a sample of the distribution; drawn a row, it does not depend on the
    batch. Temperature, top-k and the like are transformers' own warpers, applied before.
    """

    def __init__(self, seed: int, prompts: Sequence[tuple[tuple[int, ...], int]], options: dict[str, Any]) -> None:
        self._warpers = _warpers(options)
        self._streams = [_generator(seed, ids, repeat) for ids, repeat in prompts]

    def __call__(self, ids: Tensor, scores: Tensor) -> Tensor:
        """Scores that leave one token a row [rows, vocabulary]."""
        for warper in self._warpers:
            scores = warper(ids, scores)
        empty = torch.empty(len(scores), scores.shape[1], dtype=torch.float32, device="cpu")
        noise = torch.stack([row.exponential_(generator=one) for row, one in zip(empty, self._streams, strict=True)])
        chosen = (scores.float() - noise.to(scores.device).log()).argmax(1, keepdim=True)
        return torch.full_like(scores, -torch.inf).scatter_(1, chosen, 0.0)


# Options that change the distribution: transformers' warper, and what leaves the distribution as it is.
_WARPERS: dict[str, tuple[str, Any]] = {
    "temperature": ("TemperatureLogitsWarper", 1.0),
    "top_h": ("TopHLogitsWarper", None),
    "top_k": ("TopKLogitsWarper", 0),
    "top_p": ("TopPLogitsWarper", 1.0),
    "min_p": ("MinPLogitsWarper", 0.0),
    "typical_p": ("TypicalLogitsWarper", 1.0),
    "epsilon_cutoff": ("EpsilonLogitsWarper", 0.0),
    "eta_cutoff": ("EtaLogitsWarper", 0.0),
}
_NOT_SAMPLED = {"num_beams": "beams", "watermarking_config": "watermarks"}


def _warpers(options: dict[str, Any]) -> list[Any]:
    """In the order in which transformers applies them."""
    from transformers.generation import logits_process as processors

    wanted = [(maker, options[name]) for name, (maker, off) in _WARPERS.items() if options.get(name) not in (None, off)]
    try:
        return [getattr(processors, maker)(value) for maker, value in wanted]
    except ValueError as error:
        raise ModelError(str(error).splitlines()[0]) from error
    except AttributeError as error:
        raise ModelError(f"this version of transformers cannot sample so: {error}") from error


def _generator(seed: int, ids: tuple[int, ...], repeat: int) -> torch.Generator:
    key = f"{seed}:{','.join(map(str, ids))}:{repeat}".encode()
    digest = hashlib.blake2b(key, digest_size=8).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest, "big") >> 1)
