"""Group numbers."""

import numpy as np
import pytest

from covec.errors import CovecError
from covec.statistics.groups import group_codes


def test_rows_without_a_group_stand_alone():
    assert group_codes(["a", None, "a", "b", None], 5).tolist() == [0, 1, 0, 2, 3]
    assert group_codes(None, 3).tolist() == [0, 1, 2]
    assert group_codes(np.array([7, 7, 3]), 3).tolist() == [0, 0, 1]


def test_one_group_a_row():
    with pytest.raises(CovecError, match="2 groups for 3 rows"):
        group_codes(["a", "b"], 3)
