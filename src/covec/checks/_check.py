"""A check: one law of a verb's contract, held against one method."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from covec.errors import CovecError

Law = Callable[[Any], None]


@dataclass(frozen=True)
class Check:
    """One law and one method.

    Parameters
    ----------
    verb, method
        What the method does (`find`, `edit`, `vector`, `detect`), and its name.
    law
        A function of the subject that raises `AssertionError`, or an error of covec, where the law is broken.
    subject
        The method as its laws take it.
    expected_failure
        Why the method cannot keep the law; None where it has to.
    """

    verb: str
    method: str
    law: Law
    subject: Any
    expected_failure: str | None = None

    @property
    def title(self) -> str:
        """The law in a few words."""
        return title(self.law)

    def run(self) -> None:
        """Raise where the law is broken, or where it was expected to be broken and is kept."""
        if not __debug__:
            raise CovecError("python -O leaves assertions out, so that every check would pass: run without -O")
        try:
            self.law(self.subject)
        except Exception as error:
            if self.expected_failure is not None and isinstance(error, AssertionError | CovecError):
                return
            error.add_note(f"The law that is broken, {self}: {words(self.law)}")
            raise
        if self.expected_failure is not None:
            raise AssertionError(f"{self}: kept after all, so strike it off the expected failures")

    def __str__(self) -> str:
        return f"{self.verb} {self.method}: {self.title}"


def title(law: Law) -> str:
    """The name of a law, in words."""
    return law.__name__.replace("_", " ")


def words(law: Law) -> str:
    """What a law says: the first paragraph of its docstring, on one line."""
    return " ".join((inspect.getdoc(law) or "").partition("\n\n")[0].split())


def checks(
    verb: str, method: str, laws: Iterable[Law], subject: Any, expected_failures: Mapping[str, str]
) -> list[Check]:
    """A check of every law; the reasons for failures that are expected stand by the law's words.

    Raises
    ------
    CovecError
        A failure is expected of a law that there is not.
    """
    by_title = {title(law): law for law in laws}
    if strange := sorted(set(expected_failures) - set(by_title)):
        raise CovecError(f"no law {strange[0]!r} for {method}; there are: {', '.join(by_title)}")
    return [Check(verb, method, law, subject, expected_failures.get(name)) for name, law in by_title.items()]


def refusal(action: Callable[[], object]) -> str:
    """The one line with which covec refuses `action`."""
    try:
        action()
    except CovecError as error:
        message = str(error)
        assert message, "the refusal says nothing"
        assert "\n" not in message, f"the refusal is longer than a line: {message}"
        return message
    raise AssertionError("what is wrong was taken")
