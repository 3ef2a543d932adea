"""How the claim of several axes measures."""

import numpy as np
import pytest

from covec.claims import political_vectors as claim
from covec.find.political_vectors import Confounds
from covec.statistics.figure import Figure
from covec.worlds.poles import AXES, TOPICS, WORDS, statements


def test_selectivity_is_the_largest_less_the_mean():
    areas = {"pooled": dict(zip(AXES, map(Figure, (1.0, 0.5, 0.5, 0.4)), strict=True))}
    assert claim._selectivity(Confounds(areas, np.eye(4)), "pooled") == pytest.approx(0.4)


def test_statements_come_in_pairs_on_every_topic_and_axis():
    found = statements()
    assert len(found) == 2 * 2 * len(TOPICS) * len(AXES)
    assert found.labels[::2].all()
    assert not found.labels[1::2].any()
    assert set(found.groups) == set(TOPICS)
    assert set(WORDS) == set(AXES)


def test_within_pairs_the_other_axes_cancel():
    rng = np.random.default_rng(0)
    truth = np.linalg.qr(rng.standard_normal((64, 5)))[0].T[:4]
    paired, alone = (claim._rows(truth, 1, 400, rng, within=within).numpy() for within in (True, False))
    paired_gap, alone_gap = ((rows[::2] - rows[1::2]).mean(0) @ truth.T for rows in (paired, alone))
    assert paired_gap == pytest.approx([0, 2, 0, 0], abs=0.1)
    assert alone_gap == pytest.approx([1.2, 2, 1.2, 1.2], abs=0.3)
