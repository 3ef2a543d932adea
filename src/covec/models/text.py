"""Text models: a live transformers model with its tokenizer, the names of its sites, and one-line forwards to verbs."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import cached_property
from typing import Any

import torch
from torch import nn

from covec import registry
from covec.errors import ModelError
from covec.models.addends import SUBLAYERS, straying
from covec.models.anatomy import Anatomy, dissect, text_config
from covec.models.fingerprint import fingerprint, state
from covec.models.leaks import heeds_mask, looks_ahead, padding_leaks
from covec.models.sites import Site, select
from covec.models.tokens import Input, Span, TokenTable, tokenize


class TextModel:
    """A language model that covec can read and edit.

    Parameters
    ----------
    module
        A live transformers model, in the dtype and on the device in which it is to run. covec adds no hook to it
        outside a scope and changes none of its settings.
    tokenizer
        Its fast tokenizer.
    name
        What to call it in reports; the name it was loaded by.
    source
        Where it was loaded from, so that it can be read again in another dtype; None for a live model.
    """

    accepts = ("text", "chat")

    def __init__(self, module: nn.Module, tokenizer: Any, *, name: str = "", source: str | None = None) -> None:
        if not getattr(tokenizer, "is_fast", False):
            raise ModelError("the tokenizer gives no character offsets: load its fast version (use_fast=True)")
        _check_default_device()
        self.module = module
        self.tokenizer = tokenizer
        self.source = source
        self.config: Any = module.config
        self.name = name or getattr(self.config, "name_or_path", "") or type(module).__name__
        if prompt := _learned_prompt(module):
            raise ModelError(
                f"{self.name} has learned a prompt that stands before every text ({prompt}), and covec reads texts as "
                "they are: load the model without it"
            )
        self.anatomy: Anatomy = dissect(module, self.config)
        self._fingerprint: tuple[Any, str] | None = None
        self._addends_known = False

    @property
    def blocks(self) -> int:
        """Number of blocks."""
        return len(self.anatomy.blocks)

    @property
    def width(self) -> int:
        """Width of the residual stream."""
        return self.anatomy.width

    @property
    def device(self) -> torch.device:
        """Where token ids go: the device of the first weight in memory, the processor where all are offloaded."""
        held = (weight.device for weight in self.module.parameters() if not weight.is_meta)
        return next(held, torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        """Dtype of the first floating parameter, in which captures run."""
        return next(weight.dtype for weight in self.module.parameters() if weight.is_floating_point())

    @cached_property
    def causal(self) -> bool:
        """Whether a token sees only those before it, so that padding on the right needs no mask.

        Where no part of the network says so, it is measured.
        """
        parts = [part for block in self.anatomy.blocks for part in block.modules()]
        said = [part.is_causal for part in parts if isinstance(getattr(part, "is_causal", None), bool)]
        if said or not self._can_generate:
            return bool(said) and all(said)
        self.check_settled()  # else the measure would be random
        text = self.tokenizer("one two three, four and five").input_ids
        return not looks_ahead(self.anatomy.body, text)

    @property
    def generates(self) -> bool:
        """Whether the model continues the text that it reads: it is causal, with a head and no decoder beside."""
        return self.causal and self._can_generate

    @property
    def _can_generate(self) -> bool:
        return self.has_head and bool(self.module.can_generate())  # type: ignore[operator]

    @property
    def has_head(self) -> bool:
        """Whether the model gives logits over its vocabulary, from the stream that covec reads (no decoder's)."""
        decoder = getattr(self.config, "is_encoder_decoder", False)
        return not decoder and self.module.get_output_embeddings() is not None  # type: ignore[operator]

    @cached_property
    def context(self) -> int | None:
        """The most tokens the model reads at once, None where it sets no limit."""
        for name, part in self.anatomy.body.named_modules():
            if isinstance(part, nn.Embedding) and "position" in name and part.padding_idx is not None:
                return part.num_embeddings - part.padding_idx - 1  # positions are counted from the padding's on
        config = text_config(self.config)
        limits = (getattr(config, name, None) for name in ("max_position_embeddings", "max_seq_len"))
        return next((int(limit) for limit in limits if limit), None)

    @cached_property
    def together(self) -> int | None:
        """The length up to which rows may share a batch, None for any.

        Beyond it a pass turns the positions of all its rows by other angles (Phi-3's long context), so that a row would
        depend on its longest neighbour. Where padding leaks it is 0: no rows share one.
        """
        if not heeds_mask(self.anatomy.blocks) and self._leaks():
            return 0
        config = text_config(self.config)
        rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
        if "longrope" not in (rope.get("rope_type"), rope.get("type")):
            return None
        name = "original_max_position_embeddings"
        return rope.get(name) or getattr(config, name, None) or config.max_position_embeddings

    def _leaks(self) -> bool:
        short, long = (self.tokenizer(text).input_ids for text in ("one two", "one two three, four and five"))
        return padding_leaks(self.anatomy.body, short, long, self.pad_id, left=self.generates)

    @property
    def pad_id(self) -> int:
        """The id that fills the end of shorter rows; its rows are never read."""
        for found in (self.tokenizer.pad_token_id, self.tokenizer.eos_token_id):
            if found is not None:
                return int(found)
        return 0

    @property
    def sites(self) -> tuple[Site, ...]:
        """All named sites, in the model's order."""
        return tuple(self.anatomy.taps)

    @property
    def fingerprint(self) -> str:
        """Digest of architecture, tokenizer and weights rounded to bfloat16, taken again where one has changed."""
        now = state(self.module, self.tokenizer)
        if self._fingerprint is None or self._fingerprint[0] != now:
            self._fingerprint = (now, fingerprint(self.module, self.tokenizer))
        return self._fingerprint[1]

    def select(self, patterns: str | Site | Sequence[str | Site]) -> tuple[Site, ...]:
        """The sites that `patterns` choose; a dotted module path must exist."""
        sites = select(patterns, self.sites)
        for site in sites:
            self.anatomy.tap(site)
        return sites

    def check_whole(self) -> None:
        """Refuse a module of which parts were replaced since it was loaded: sites would be those of the old parts.

        A default device of torch's other than the processor is refused, too.
        """
        _check_default_device()
        if path := self.anatomy.replaced(self.module):
            raise ModelError(
                f"{self.name} has another module at {path} than when it was loaded (adapters, a quantised part): "
                "load it as it is now, covec.load(module, tokenizer)"
            )

    def check_settled(self) -> None:
        """Refuse, beside what `check_whole` does, training mode that makes activations random or changes the module."""
        self.check_whole()
        if drop := next(_dropping(self.module), None):
            raise ModelError(f"{self.name} is in training mode, where {drop} is at work: call model.module.eval()")

    def check_addends(self, sites: Iterable[Site]) -> None:
        """Warn, once, where one of `sites` is what a sublayer gives, and its block adds something else."""
        if self._addends_known or all(site.kind not in SUBLAYERS for site in sites):
            return
        if next(_dropping(self.module), None):  # the measure would be random
            return
        self._addends_known = True
        if (block := straying(self.anatomy, self.tokenizer("one two three, four and five").input_ids)) is not None:
            warnings.warn(
                f"{self.name} multiplies, norms or mixes what its sublayers give before it adds that to the stream "
                f"(first in block {block}): its attn, mlp and mixer sites are what they give",
                stacklevel=4,
            )

    def describe(self) -> dict[str, Any]:
        """What a vector or report keeps of the model."""
        return {
            "name": self.name,
            "architecture": type(getattr(self.module, "_orig_mod", self.module)).__name__,  # torch.compile wraps it
            "model_type": getattr(self.config, "model_type", ""),
            "blocks": self.blocks,
            "width": self.width,
            "dtype": str(self.dtype).removeprefix("torch."),
            "device": str(self.device),
            "fingerprint": self.fingerprint,
        }

    def tokenize(
        self, inputs: Sequence[Input], *, spans: Sequence[Span | None] | None = None, **options: Any
    ) -> TokenTable:
        """Token ids, character offsets and layout of every input: see `covec.models.tokens.tokenize`."""
        return tokenize(self.tokenizer, inputs, spans=spans, context=self.context, **options)

    def capture(self, inputs: Sequence[Input], sites: Any = "resid.*", position: Any = "last", **options: Any) -> Any:
        """Activations of `inputs` at `sites`: see `covec.activations.capture.capture`."""
        return registry.resolve("activations.capture")(self, inputs, sites, position, **options)

    def moments(
        self, inputs: Iterable[Input], sites: Any = "resid.*", position: Any = "content/none", **options: Any
    ) -> Any:
        """Moments of what a stream of `inputs` shows at `sites`: see `covec.activations.tally.moments`."""
        return registry.resolve("activations.moments")(self, inputs, sites, position, **options)

    def store(
        self,
        inputs: Iterable[Input],
        folder: Any,
        sites: Any = "resid.*",
        position: Any = "content/none",
        **options: Any,
    ) -> Any:
        """A store on disk of what `inputs` show at `sites`: see `covec.activations.store.write_store`."""
        return registry.resolve("activations.store")(self, inputs, folder, sites, position, **options)

    def edit(self, *edits: Any, force: bool = False) -> AbstractContextManager[Any]:
        """A scope in which `edits` act on every pass of this model: see `covec.edits.scope.edit`."""
        return registry.resolve("edits.scope")(self, *edits, force=force)

    def patch_weights(self, vector: Any, strength: float = 1.0, *, force: bool = False) -> AbstractContextManager[Any]:
        """A scope in which a weight vector is added to the parameters: see `covec.edits.weights.patch_weights`."""
        return registry.resolve("edits.patch_weights")(self, vector, strength, force=force)

    def bake(self, edits: Any, out: Any, *, force: bool = False) -> Any:
        """Save a copy with `edits` in its weights as an ordinary checkpoint: see `covec.edits.bake.bake`."""
        return registry.resolve("edits.bake")(self, edits, out, force=force)

    def generate(self, inputs: Any, **options: Any) -> Any:
        """Continuations of `inputs`, without the prompt: see `covec.edits.generation.generate`."""
        return registry.resolve("edits.generate")(self, inputs, **options)

    def detect(self, vectors: Any, inputs: Any, **options: Any) -> Any:
        """Scores of concept vectors on `inputs`: see `covec.detect`."""
        return registry.resolve("detect.detect")(self, vectors, inputs, **options)

    def watch(self, *vectors: Any, force: bool = False) -> AbstractContextManager[Any]:
        """A scope that logs the score of `vectors` at every token read and written: see `covec.detect`."""
        return registry.resolve("detect.watch")(self, *vectors, force=force)

    def __repr__(self) -> str:
        return f"TextModel({self.name}: {self.blocks} blocks, width {self.width}, {self.dtype}, {self.device})"


def _check_default_device() -> None:
    """Vectors and rows lie on the processor, and what is made without a word of its device must, too."""
    if (device := torch.empty(0).device).type != "cpu":  # older versions of torch do not name what a scope sets
        raise ModelError(
            f"torch's default device is {device}, and what covec makes lies on the processor: leave the default, and "
            "say where the model runs with covec.load(..., device=...)"
        )


def _learned_prompt(module: Any) -> str | None:
    """The name of an adapter that is a prompt (PEFT's prompt and prefix tuning), where there is one."""
    known = getattr(module, "peft_config", None)
    learned = known.items() if isinstance(known, Mapping) else ()
    return next((name for name, config in learned if getattr(config, "is_prompt_learning", False)), None)


def _dropping(module: nn.Module) -> Iterator[str]:
    """Names of all dropout and jitter at work: layers of it, and rates that parts of the network hold themselves; and
    of norms that take their statistics from the batch, and change by it.
    """
    for name, part in module.named_modules():
        if not part.training:
            continue
        if isinstance(part, nn.modules.dropout._DropoutNd) and part.p:
            yield name
        if isinstance(part, nn.modules.batchnorm._NormBase) and part.track_running_stats:
            yield name
        for key, value in vars(part).items():
            if ("drop" in key or "jitter" in key) and isinstance(value, float) and value:
                yield f"{name}.{key}"
