"""Reading and writing the hidden states of a module, whatever container it takes or gives."""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import update_wrapper, wraps
from typing import Any

from torch import Tensor, is_autocast_enabled, nn
from torch.amp import autocast, is_autocast_available
from torch.utils.hooks import RemovableHandle

from covec.errors import ModelError

Visit = Callable[[Tensor], Tensor | None]

_lock = threading.Lock()
_open: list[object] = []  # blocks that need uncompiled code, on all threads
_stance: AbstractContextManager[Any] = nullcontext()


def nothing(*_: Any, **__: Any) -> None:
    """The hook that does nothing."""


class Borne:
    """A function that a module bears while a scope lasts.

    A copy of the module, by `copy.deepcopy` or `torch.save`, is another model, to which the scope does not belong: it
    bears what was there before (`otherwise`), with itself in the place of the module.
    """

    def __init__(self, function: Callable[..., Any], otherwise: Any = nothing) -> None:
        self._function, self._otherwise = function, otherwise
        update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._function(*args, **kwargs)

    def __reduce__(self) -> tuple[Any, ...]:
        return _itself, (self._otherwise,)


def _itself(value: Any) -> Any:
    return value


def hook(module: nn.Module, end: str, visit: Visit) -> RemovableHandle:
    """Call `visit(hidden)` whenever `module` runs; a tensor it returns replaces the hidden states.

    `end` is `"in"` (before the module runs) or `"out"`. Within `torch.autocast` a visit computes as outside.
    """
    visit = _exactly(visit)
    if end == "in":

        def before(_: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            if args:
                changed = visit(hidden_of(args[0]))
                return None if changed is None else ((with_hidden(args[0], changed), *args[1:]), kwargs)
            name = _input_name(kwargs)
            changed = visit(hidden_of(kwargs[name]))
            return None if changed is None else (args, {**kwargs, name: with_hidden(kwargs[name], changed)})

        return module.register_forward_pre_hook(Borne(before), with_kwargs=True)

    def after(_: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
        changed = visit(hidden_of(output))
        return None if changed is None else with_hidden(output, changed)

    return module.register_forward_hook(Borne(after))


def _exactly(visit: Visit) -> Visit:
    """`visit` as it is where nothing is cast by itself."""

    @wraps(visit)
    def exact(hidden: Tensor) -> Tensor | None:
        kind = hidden.device.type
        if not (is_autocast_available(kind) and is_autocast_enabled(kind)):
            return visit(hidden)
        with autocast(kind, enabled=False):
            return visit(hidden)

    return exact


def _input_name(named: Mapping[str, Any]) -> str:
    """The argument that holds the hidden states of a module called by names alone."""
    if "hidden_states" in named:
        return "hidden_states"
    if name := next((name for name, value in named.items() if isinstance(value, Tensor)), ""):
        return name
    raise ModelError("a module is called without a tensor, so that its input is no site: name its output")


def by_token(hidden: Tensor, shape: Sequence[int], site: object) -> Tensor:
    """`hidden` as [*shape, d] (rows, columns), also where a module sees the tokens of all rows in one list [tokens, d].

    Raises
    ------
    ModelError
        Where the module has no row for every token.
    """
    rows, columns = shape
    if hidden.ndim == 2 and len(hidden) == rows * columns:
        return hidden.view(rows, columns, -1)
    if hidden.ndim != 3 or hidden.shape[:2] != (rows, columns):
        raise ModelError(
            f"{site} gives {list(hidden.shape)} for {rows} rows of {columns} tokens, not one row a token: name another"
        )
    return hidden


@contextmanager
def uncompiled() -> Iterator[None]:
    """Within the block, compiled code runs as it was written: compiled before a hook came, it would pass it by."""
    global _stance
    if "torch._dynamo" not in sys.modules:  # nothing can have been compiled
        yield
        return
    from torch.compiler import set_stance

    with _lock:
        if not _open:
            _stance = set_stance("force_eager")
            _stance.__enter__()
        _open.append(None)
    try:
        yield
    finally:
        with _lock:
            _open.pop()
            if not _open:
                _stance.__exit__(None, None, None)


def hidden_of(output: Any) -> Tensor:
    """The hidden states in a module's output: the tensor itself, or the first of a tuple or dataclass."""
    if isinstance(output, Tensor):
        return output
    if isinstance(output, tuple | list) and output and isinstance(output[0], Tensor):
        return output[0]
    if isinstance(output, Mapping):
        for value in output.values():
            if isinstance(value, Tensor):
                return value
    raise ModelError(f"a module returned {type(output).__name__}, in which no hidden states can be found")


def with_hidden(output: Any, hidden: Tensor) -> Any:
    """`output` with its hidden states replaced, in a container of the same type."""
    if isinstance(output, Tensor):
        return hidden
    if isinstance(output, tuple) and hasattr(output, "_fields"):
        return type(output)(hidden, *output[1:])
    if isinstance(output, tuple | list):
        return type(output)([hidden, *output[1:]])
    old = hidden_of(output)
    return type(output)(**{key: hidden if value is old else value for key, value in output.items()})
