"""What belongs to one call of a model under edits, whoever makes it.

A call that covec makes brings its plan. One that a user makes (`model.module(...)`, `model.module.generate(...)`) gets
its plan here, from token ids and attention mask; it lasts for all passes of a generation and for the cache that a pass
leaves behind. Blocks that are recomputed for their gradients run under the pass they belong to, and compiled code,
which would not see hooks that came after it, runs as it was written while there are edits.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from functools import wraps
from inspect import signature
from types import SimpleNamespace
from typing import Any, cast
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from covec.errors import ModelError
from covec.models.plan import (
    Pass,
    Plan,
    begin_pass,
    current_pass,
    current_plan,
    edits_in_force,
    end_pass,
    is_running,
    passing,
    planned,
)
from covec.models.positions import Layout
from covec.models.taps import Borne, uncompiled
from covec.models.text import TextModel
from covec.models.tokens import special_ids

_by_cache: WeakKeyDictionary[Any, Pass] = WeakKeyDictionary()  # the last pass that filled it


def follow(model: TextModel) -> Callable[[], None]:
    """Give every pass of `model` its plan, from now until the function that is returned is called."""
    body, scope = model.anatomy.body, ExitStack()
    begin, end = Borne(lambda _, args, kwargs: _begin(model, args, kwargs)), Borne(lambda _, args, output: _end(output))
    scope.callback(body.register_forward_pre_hook(begin, with_kwargs=True).remove)
    scope.callback(body.register_forward_hook(end, always_call=True).remove)
    for part in body.modules():
        if getattr(part, "gradient_checkpointing", False):
            again = _recomputing(part._gradient_checkpointing_func)  # type: ignore[arg-type]
            scope.callback(_instead(part, "_gradient_checkpointing_func", again))
    scope.enter_context(uncompiled())
    return scope.close


def follow_generation(model: TextModel) -> Callable[[], None]:
    """Give every generation of `model.module` one plan for all its passes, until the returned function is called."""
    if not hasattr(model.module, "generate"):
        return lambda: None
    return _instead(model.module, "generate", _generating(model))


def _begin(model: TextModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Before a forward pass: find the plan it belongs to and where its columns start."""
    if kwargs.get("pixel_values") is not None and edits_in_force(model.anatomy.body):
        raise ModelError(
            "covec reads and edits text, not images: give token ids alone, or call the model outside a scope"
        )
    ids = args[0] if args else kwargs.get("input_ids")
    shown = kwargs["inputs_embeds"] if ids is None else ids
    cache = _cache_of(kwargs)
    start = 0 if cache is None else _tokens_in(cache, kwargs)
    plan = current_plan(model.anatomy.body)
    if plan is not None and is_running(plan):  # a hook calls the model once more
        plan = None
    if plan is None and (edits := edits_in_force(model.anatomy.body)):
        plan = _going_on(cache, edits, start) if start else plan_of(model, shown, kwargs.get("attention_mask"), edits)
    if plan is not None and cache is None:
        _begins_anew(plan, shown.shape[1])
    if plan is not None and shown.shape[0] % len(plan.layouts):
        raise ModelError(
            f"a text of {len(plan.layouts)} rows goes on with {shown.shape[0]}, and which they are is not known: keep "
            "all rows, or begin anew"
        )
    now = None if plan is None else Pass(plan, shown.shape[0], start, shown.shape[1], shown.device, ids)
    if now is not None and cache is not None:
        _by_cache[cache] = now
    begin_pass(now)


def _end(output: Any) -> None:
    """After a forward pass: a cache that it made belongs to its plan."""
    now = current_pass()
    if now is not None and isinstance(output, Mapping) and (cache := _cache_of(output)) is not None:
        _by_cache[cache] = now
    end_pass()


def plan_of(model: TextModel, ids: Tensor, mask: Tensor | None, edits: tuple[Any, ...]) -> Plan:
    """The plan of a call that covec did not make: layouts from its ids [rows, tokens] or embeddings, and its mask."""
    if mask is not None and not (isinstance(mask, Tensor) and mask.ndim == 2):
        raise ModelError("edits find their tokens by an attention mask [rows, tokens]: give one of that shape, or none")
    keep = np.ones(ids.shape[:2], dtype=bool) if mask is None else mask.bool().cpu().numpy()
    if (np.diff(keep, axis=1).sum(1) > 1).any() or ((~keep[:, 0]).any() and (~keep[:, -1]).any()):
        raise ModelError("edits find their tokens in rows that are padded on one side, the same in all: pad them so")
    special = np.isin(ids.cpu().numpy(), list(special_ids(model.tokenizer))) if ids.ndim == 2 else np.zeros_like(keep)
    layouts = [Layout(special[row, kept], int(kept.sum()), int(kept.sum()) - 1) for row, kept in enumerate(keep)]
    padding = "right" if (~keep[:, -1]).any() else "left"
    return Plan(layouts, padding, [edits] * len(layouts), width=ids.shape[1], owner=model.anatomy.body)


def _generating(model: TextModel) -> Callable[..., Any]:
    original: Any = model.module.generate
    names = signature(original)

    @wraps(original)
    def generate(*args: Any, **kwargs: Any) -> Any:
        plan = current_plan(model.anatomy.body) or _plan_of_generation(model, args, kwargs)
        rows = plan.edits if plan is not None else [edits_in_force(model.anatomy.body)]
        if edits := [edit for row in rows for edit in row]:
            settings = kwargs.get("generation_config") or model.module.generation_config
            _check_passes(lambda name: kwargs.get(name, getattr(settings, name, None)), edits)
        given = names.bind_partial(*args, **kwargs)
        given.arguments |= apart(given.arguments)
        with planned(plan):
            return original(*given.args, **given.kwargs)

    return generate


def apart(options: Mapping[str, Any]) -> dict[str, Any]:
    """`options` of a generation, in which functions of the user's own run apart: what they call is no pass of it."""
    found = dict(options)
    for name in ("logits_processor", "stopping_criteria"):
        if found.get(name) is not None:
            kind = type(found[name])
            found[name] = kind([each if _is_theirs(each) else _apart(each) for each in found[name]])
    if found.get("prefix_allowed_tokens_fn") is not None:
        found["prefix_allowed_tokens_fn"] = _apart(found["prefix_allowed_tokens_fn"])
    if (streamer := found.get("streamer")) is not None and not _is_theirs(streamer):
        found["streamer"] = SimpleNamespace(put=_apart(streamer.put), end=_apart(streamer.end))
    return found


def _is_theirs(value: Any) -> bool:
    """Whether it is one of transformers' own classes, which call no model and are known by their type."""
    return type(value).__module__.startswith("transformers.")


def _apart(function: Any) -> Callable[..., Any]:
    @wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with planned(None):
            return function(*args, **kwargs)

    call.__call__ = function.__call__  # type: ignore[method-assign]  # transformers looks up what it takes there
    return call


def _check_passes(setting: Callable[[str], Any], edits: Sequence[Any]) -> None:
    """Refuse what makes passes over other tokens than the text: no position, or no log, would hold in both."""
    if setting("guidance_scale") not in (None, 1):
        raise ModelError("guidance_scale reads the text once more without its prompt: leave it out within edits")
    guessing = ("prompt_lookup_num_tokens", "assistant_model", "assistant_early_exit")
    if any(edit.observes for edit in edits) and (guess := next(filter(setting, guessing), None)):
        raise ModelError(f"{guess} guesses tokens and takes some back, which a log would keep: leave it out here")


def _plan_of_generation(model: TextModel, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Plan | None:
    """One plan for all passes of a user's own `generate`; None where its first pass tells as much."""
    edits, before, begun = edits_in_force(model.anatomy.body), None, 0
    ids = args[0] if args else kwargs.get("input_ids", kwargs.get("inputs"))
    cache = _cache_of(kwargs)
    if not edits or not isinstance(ids, Tensor):
        return None
    if cache is not None and (begun := _tokens_in(cache, {})):
        before = _plan_behind(cache, edits)
        if ids.shape[1] <= begun:  # the new tokens alone, which go on with the text in the cache
            return None
    mask, defaults = kwargs.get("attention_mask"), cast("Any", model.module.generation_config)
    pad = kwargs.get("pad_token_id", defaults.pad_token_id)
    if mask is None and pad is not None and pad != defaults.eos_token_id:
        mask = (ids != pad).long()  # what transformers takes for granted
    plan = plan_of(model, ids, mask, edits)
    if before is not None:
        _check_prefix(before, plan, begun)
    return plan


def _check_prefix(before: Plan, plan: Plan, columns: int) -> None:
    """Refuse a prefix that was edited as a text of its own at other tokens than as a part of the whole prompt."""
    rows, nowhere = len(plan.layouts), torch.device("cpu")
    if len(before.layouts) != rows:
        raise ModelError(f"the cache holds {len(before.layouts)} rows and the prompt {rows}: give as many")
    for position in {edit.position: None for row in plan.edits for edit in row if not edit.observes}:
        one, other = (Pass(each, rows, 0, columns, nowhere).mask(position) for each in (before, plan))
        if (one is None) != (other is None) or (one is not None and other is not None and not torch.equal(one, other)):
            raise ModelError(
                f"what the cache holds was edited at {position.select!r} of a text of its own, not of the whole "
                "prompt: give the prompt without the cache, or edit at 'content'"
            )


def _recomputing(original: Callable[..., Any]) -> Callable[..., Any]:
    """A checkpointing function whose recomputation, on whatever thread, runs under the pass of the first run."""

    @wraps(original)
    def checkpoint(function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        now = current_pass()

        def run(*inputs: Any, **named: Any) -> Any:
            with passing():
                begin_pass(now)
                return function(*inputs, **named)

        return original(run, *args, **kwargs)

    return checkpoint


def _instead(owner: nn.Module, name: str, replacement: Any) -> Callable[[], None]:
    """Put `replacement` on the object `owner`; the function returned takes it off again."""
    owner = getattr(owner, "_orig_mod", owner)  # torch.compile's wrapper hands on what is set, not what is deleted
    had, old = name in vars(owner), vars(owner).get(name)
    setattr(owner, name, Borne(replacement, otherwise=getattr(owner, name)))
    return lambda: setattr(owner, name, old) if had else delattr(owner, name)


def _begins_anew(plan: Plan, columns: int) -> None:
    """Without a cache every pass of a call reads the whole text; one that is not longer than the last leans on a state
    under a name of its own (RWKV), and where its tokens stand is not known.
    """
    if columns <= plan.prepared.get("columns", 0):
        raise ModelError("this model keeps what it has read where edits do not find it: generate with use_cache=False")
    plan.prepared["columns"] = columns


def _tokens_in(cache: Any, named: Mapping[str, Any]) -> int:
    """How many tokens a cache has seen; a recurrent state does not count them, so what filled it is looked up.

    Older versions of transformers say it with the call, and have static caches that miss padding whose keys are zero.
    """
    try:
        counted, said = cache.get_seq_length(), named.get("cache_position")
        return int(counted if said is None else said[0])
    except (AttributeError, ValueError):
        filled = _by_cache.get(cache)
        begun = getattr(cache, "has_previous_state", bool)()  # by someone else
        return int(begun) if filled is None else filled.start + filled.columns


def _going_on(cache: Any, edits: tuple[Any, ...], start: int) -> Plan:
    """The plan of a text that goes on behind `start` tokens in a cache, which must still hold its prompt."""
    plan = _plan_behind(cache, edits)
    if start < plan.width:
        raise ModelError("the cache was cut back into its prompt, and what goes on is another text: begin it anew")
    return plan


def _plan_behind(cache: Any, edits: tuple[Any, ...]) -> Plan:
    """The plan of the pass that filled a cache, which must have been made under the same edits."""
    filled = _by_cache.get(cache)
    if filled is None or any(row != edits for row in filled.plan.edits):
        raise ModelError("the cache was filled outside this scope, under other edits: begin the text inside it")
    return filled.plan


def _cache_of(named: Mapping[str, Any]) -> Any:
    """The cache among arguments or outputs, under its names in newer and older versions of transformers."""
    names = ("cache", "past_key_values", "cache_params")
    return next((named[name] for name in names if named.get(name) is not None), None)
