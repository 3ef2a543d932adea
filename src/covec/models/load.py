"""`covec.load`: a text model from a name, a folder, the Hugging Face Hub or a live transformers model."""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import snapshot_download
from huggingface_hub.errors import (
    GatedRepoError,
    HfHubHTTPError,
    HFValidationError,
    LocalEntryNotFoundError,
    RepositoryNotFoundError,
)
from safetensors import SafetensorError
from torch import nn

from covec.errors import BudgetError, ModelError
from covec.models.embedded import EMBEDDED, fetch
from covec.models.fingerprint import fingerprint
from covec.models.hardware import choose_device, choose_dtype, hand_back_freed_memory, out_of_memory
from covec.models.text import TextModel
from covec.progress import Progress, silent

_SMALL = ["*.json", "*.txt", "*.jinja", "*.model", "*.py"]
_WEIGHTS = "*.safetensors"
_OLD_WEIGHTS = "*.bin"  # read by transformers as tensors only, without pickled code
_ELSEWHERE = ["*/*", "consolidated*", "training_args.bin", "optimizer.bin"]
_HTTP_ERROR: Any = HfHubHTTPError.__mro__[1]  # the base error of whichever HTTP library the Hub's client uses


def load(
    source: str | Path | nn.Module,
    tokenizer: Any = None,
    *,
    device: str | torch.device = "auto",
    dtype: str | torch.dtype = "auto",
    trust_remote_code: bool = False,
    progress: Progress = silent,
) -> TextModel:
    """A text model, ready to be read and edited.

    Parameters
    ----------
    source
        The name of an embedded model (`smollm2-135m`), a local folder, a Hub id, or a live transformers model.
    tokenizer
        A tokenizer, or the folder or Hub id of one; needed with a live model, else that of `source`.
    device
        `auto` (the first CUDA device, else the processor) or a device of torch.
    dtype
        `auto` (bfloat16 where the device multiplies it natively, else float32) or a floating dtype of torch.
    trust_remote_code
        Whether to run code that comes with the model. Never unless you say so.
    progress
        Where to tell of downloads and conversions.

    Raises
    ------
    ModelError, BudgetError
        Where the model cannot be had, or does not fit into memory; the line says why and how to mend it.
    """
    if isinstance(source, nn.Module):
        return _live(source, tokenizer, device, dtype, trust_remote_code)
    if not isinstance(source, str | Path) or not str(source):
        raise ModelError(f"no model {source!r}: give a name, a folder, an id of the Hub or a live transformers model")
    where = choose_device(device)
    kind = choose_dtype(dtype, where)
    name = str(source)
    folder = _folder(name, progress)
    given = folder if tokenizer is None else tokenizer
    with _one_line(name), quietly():
        module = _module(name, folder, where, kind, trust_remote_code)
    tokenizer = _tokenizer(name, given, trust_remote_code, progress)
    hand_back_freed_memory()
    return TextModel(module, tokenizer, name=name, source=str(folder))


def reread(model: TextModel, dtype: torch.dtype) -> TextModel | None:
    """The same model read again in `dtype`; None where it cannot be: a live, changed or quantised one."""
    if model.source is None or getattr(model.config, "quantization_config", None):
        return None
    reader: Any = type(model.module)
    with _one_line(model.name), quietly():
        again = reader.from_pretrained(model.source, dtype=dtype, **_place(model.device))
    if fingerprint(again, model.tokenizer) != fingerprint(model.module, model.tokenizer):
        return None  # its weights were changed since it was loaded
    _page_in(again)
    return TextModel(again, model.tokenizer, name=model.name, source=model.source)


def _live(module: nn.Module, tokenizer: Any, device: Any, dtype: Any, trust: bool) -> TextModel:
    name = getattr(getattr(module, "config", None), "name_or_path", "") or type(module).__name__
    if not hasattr(module, "config"):
        raise ModelError(f"{name} is no transformers model: it has no config")
    if tokenizer is None:
        raise ModelError(f"the live model {name} comes without its tokenizer: give it, covec.load(model, tokenizer)")
    model = TextModel(module, _tokenizer(name, tokenizer, trust, silent), name=name)
    moved = device != "auto" and choose_device(device).type != model.device.type
    if moved or (dtype != "auto" and choose_dtype(dtype, model.device) != model.dtype):
        raise ModelError(
            f"{name} is live and taken as it is, {model.dtype} on {model.device}: move it with model.to(...)"
        )
    return model


def _folder(name: str, progress: Progress) -> Path:
    """The folder of a model or tokenizer called `name`, fetched where it is not at hand."""
    if name in EMBEDDED:
        return fetch(name, progress)
    folder = Path(name).expanduser()
    if os.path.isdir(folder):  # unlike the path's own method, not an error where the name is too long for a file
        if not (folder / "config.json").is_file() and not (folder / "tokenizer_config.json").is_file():
            raise ModelError(f"{name} has no config.json: it is no folder that transformers has saved a model to")
        return folder
    if os.path.exists(folder):
        raise ModelError(f"{name} is a file: give the folder that holds the model's config.json")
    return _from_hub(name)


def _from_hub(name: str) -> Path:
    try:
        folder = Path(snapshot_download(name, allow_patterns=[*_SMALL, _WEIGHTS], ignore_patterns=_ELSEWHERE))
        if not any(folder.glob(_WEIGHTS)):
            snapshot_download(name, allow_patterns=[*_SMALL, _OLD_WEIGHTS], ignore_patterns=_ELSEWHERE)
    except HFValidationError:
        raise ModelError(f"no model {name!r}: it is no folder here and no id of the Hub{_near(name)}") from None
    except GatedRepoError as error:
        raise ModelError(
            f"{name} is gated: ask for access on its page on the Hub, then log in with `hf auth login`"
        ) from error
    except RepositoryNotFoundError as error:
        raise ModelError(
            f"no model {name!r} on the Hub, or a private one: check the name{_near(name)}, or `hf auth login`"
        ) from error
    except LocalEntryNotFoundError as error:
        raise ModelError(
            f"no model {name!r} here: it is no folder and not in the Hugging Face cache, and there is no network to "
            f"look on the Hub{_near(name)}"
        ) from error
    except (_HTTP_ERROR, OSError) as error:
        raise ModelError(f"cannot fetch {name} from the Hub: {_first_line(error)}; try again later") from error
    return folder


def _near(name: str) -> str:
    near = difflib.get_close_matches(name.lower(), EMBEDDED, n=1, cutoff=0.5)
    return f" (did you mean {near[0]}?)" if near else f"; {' and '.join(EMBEDDED)} need no Hub"


def _module(name: str, folder: Path, device: torch.device, dtype: torch.dtype, trust: bool) -> Any:
    from transformers import AutoConfig

    if not (folder / "config.json").is_file():
        raise ModelError(f"{name} has no config.json: it holds no model that transformers can read")
    config = AutoConfig.from_pretrained(folder, trust_remote_code=trust, local_files_only=True)
    kind: dict[str, Any] = {"dtype": dtype}
    if getattr(config, "quantization_config", None):
        kind = {"dtype": "auto"}  # the checkpoint says how its weights are to be computed with
    module, told = _reader(name, config).from_pretrained(
        folder,
        config=config,
        trust_remote_code=trust,
        local_files_only=True,
        ignore_mismatched_sizes=True,  # told below, in one line
        output_loading_info=True,
        **kind,
        **_place(device),
    )
    wrong = {key for key in told["missing_keys"] if "pooler" not in key} | {key for key, *_ in told["mismatched_keys"]}
    if wrong:
        raise ModelError(
            f"{name} is not whole: {len(wrong)} weights are missing or of another shape than its config.json says, "
            f"such as {min(wrong)}"
        )
    _page_in(module)
    return module


def _place(device: torch.device) -> dict[str, Any]:
    return {} if device.type == "cpu" else {"device_map": {"": device}}


def _reader(name: str, config: Any) -> Any:
    """The automatic class that reads `config`'s model, with its language head where it has one, or its encoder."""
    from transformers import AutoModel, AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForTextEncoding
    from transformers.models.auto import modeling_auto

    causal = modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES
    masked = modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES
    encoders = modeling_auto.MODEL_FOR_TEXT_ENCODING_MAPPING_NAMES
    said = set(getattr(config, "architectures", None) or ())
    own = getattr(config, "auto_map", None) or {}
    if getattr(config, "is_encoder_decoder", False):
        if config.model_type in encoders:
            return AutoModelForTextEncoding
        raise ModelError(
            f"{name} ({config.model_type}) is an encoder-decoder: read it with transformers, then covec.load(model, "
            "tokenizer) reads its encoder"
        )
    if said & set(causal.values()) or "AutoModelForCausalLM" in own:
        return AutoModelForCausalLM
    if said & set(masked.values()) or "AutoModelForMaskedLM" in own:
        return AutoModelForMaskedLM
    if said & set(encoders.values()):
        return AutoModelForTextEncoding
    if config.model_type in masked:
        return AutoModel
    if config.model_type in causal:
        headless = said and not any(name.endswith(("LM", "LMHeadModel")) for name in said)
        return AutoModel if headless else AutoModelForCausalLM
    raise ModelError(f"{name} ({config.model_type}) is no text model: covec reads causal and masked language models")


def _tokenizer(name: str, given: Any, trust: bool, progress: Progress) -> Any:
    if not isinstance(given, str | Path):
        return given
    from transformers import AutoTokenizer

    folder = given if isinstance(given, Path) else _folder(given, progress)
    try:
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=trust, local_files_only=True)
        if set(tokenizer.get_vocab()) <= set(tokenizer.all_special_tokens):  # made up: there is no file of it
            raise ValueError("it holds special tokens alone")
        return tokenizer
    except (OSError, ValueError, KeyError, TypeError, ImportError) as error:
        raise ModelError(
            f"{name} has no tokenizer that can be read ({_first_line(error)}): give one, covec.load(..., tokenizer=...)"
        ) from error


def _page_in(module: nn.Module) -> None:
    """Read the mapped weights now, so that the first pass neither waits for the disk nor seems to eat memory."""
    for tensor in module.state_dict().values():
        if tensor.device.type == "cpu" and tensor.is_contiguous():
            tensor.view(-1).view(torch.uint8)[::4096].any()


@contextmanager
def quietly() -> Iterator[None]:
    """A scope in which transformers draws no bars of its own and prints no reports: what matters is raised here."""
    from transformers.utils import logging

    drawn, verbosity = logging.is_progress_bar_enabled(), logging.get_verbosity()
    logging.disable_progress_bar()
    logging.set_verbosity_error()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        if drawn:
            logging.enable_progress_bar()


@contextmanager
def _one_line(name: str) -> Iterator[None]:
    """Tell in one line what transformers tells in many."""
    try:
        yield
    except (MemoryError, OSError, ValueError, KeyError, RuntimeError, ImportError, SafetensorError) as error:
        if out_of_memory(error):
            raise BudgetError(
                f"{name} does not fit into memory, whatever the batch budget: load it in bfloat16 (--dtype bfloat16), "
                "on another device (--device), or take a smaller model"
            ) from error
        if "trust_remote_code" in str(error):
            raise ModelError(
                f"{name} brings its own code; if you trust it, load it in Python with trust_remote_code=True"
            ) from error
        raise ModelError(f"cannot read {name}: {_first_line(error)}") from error


def _first_line(error: BaseException) -> str:
    """The first sentence of an error's text, which may begin with empty lines, at most 200 characters."""
    text = re.sub(r"\s+", " ", str(error)).strip() or type(error).__name__
    return re.split(r"(?<=[a-z)])\. ", text)[0][:200].rstrip(".")
