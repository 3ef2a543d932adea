"""Null vectors are run for real where their estimates alone would decide."""

import numpy as np
import pytest

from covec.measure.used import _run_for_real


@pytest.mark.parametrize(
    ("estimates", "real", "reach", "expected"),
    [
        ([0.1, 0.3, 0.2], [0, 0.5, 0.4], 1.0, [0.1, 0.5, 0.4]),  # none comes near: the two largest alone
        ([9.0, 8.0, 7.0, 0.1], [0.1, 0.2, 0.3, 5], 1.0, [0.1, 0.2, 0.3, 0.1]),  # absurd estimates decide nothing
        ([9.0, 8.0, 7.0, 6.0], [0.1, 0.2, 2, 5], 1.0, [0.1, 0.2, 2, 6.0]),  # one that is real is enough
        ([9.0, 8.0, 7.0, 6.0], [3, 0.2, 2, 5], 1.0, [3, 0.2, 7.0, 6.0]),
        ([1.0, 1.0, 1.0], [0, 0, 0], 1.0, [0, 0, 0]),  # what equals the vector's effect comes up to it
    ],
)
def test_estimates_that_could_decide_are_run_for_real(estimates, real, reach, expected) -> None:
    steps = []
    found = _run_for_real(np.array(estimates), lambda index: real[index], reach, 2, lambda: steps.append(1))
    assert found == expected
    assert len(steps) == 2
