"""What a user did wrong, and the mend.

Every error a user can cause derives from `CovecError`, is one line long and says what is wrong, where, and how to mend
it. The command line prints that line and exits with 2; anything else is a fault of covec and keeps its traceback.
"""

from __future__ import annotations


class CovecError(Exception):
    """Base of all errors that a user can mend."""


class ExamplesError(CovecError, ValueError):
    """The examples cannot be read or do not carry what is asked of them; scikit-learn's tools expect a `ValueError`."""


class ModelError(CovecError):
    """The model, a site or a position in it cannot be had."""


class FileError(CovecError):
    """A file that covec reads or writes is missing, damaged, foreign or cannot be written."""


class BudgetError(CovecError):
    """The work does not fit the memory or time that was allowed."""
