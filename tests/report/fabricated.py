"""A study as a run on SmolLM2-135M would fill it, made up: 30 blocks, two positions, seven finders, 420 cells."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import torch

from covec.concepts.vector import ConceptVector
from covec.measure.used import Used
from covec.models.positions import Position
from covec.models.sites import Site
from covec.statistics.figure import Figure
from covec.studies.result import Cell, Illustrations, Studies, Study

FINDERS = {  # how far each falls short of the best, and whether its labels can be permuted cheaply
    "logistic": (0.0, False),
    "ridge": (0.01, True),
    "raptor": (0.005, False),
    "linear-svm": (0.02, False),
    "whitened-difference": (0.015, True),
    "mean-difference": (0.09, True),
    "pca-pairs": (0.2, False),
}
MODEL = {
    "name": "smollm2-135m",
    "architecture": "LlamaForCausalLM",
    "blocks": 30,
    "width": 576,
    "dtype": "bfloat16",
    "device": "cpu",
    "fingerprint": "3f0c9a1d5be27744",
}
SENTENCES = (
    ("A warm, funny and wonderfully acted little film.", True),
    ("Two hours of my life that I shall never get back: dull, loud and pointless.", False),
    ("Not the best of the series, but the ending made me cry and smile at once.", True),
    ("The plot falls apart after ten minutes and the jokes are painful.", False),
    ("Every frame is gorgeous.", True),
    ("I wanted to like it; I could not even finish it.", False),
)

HOSTILE = (
    '</title></script><script>window.pwned=1</script><img src=x onerror="window.pwned=1">\'"`{{7*7}}{% raw %}&lt;\u202e'
)


def cells(rng: np.random.Generator, depth: float = 1.0) -> tuple[Cell, ...]:
    """The whole sweep: a hump over the blocks, the finders one below the other."""
    made = []
    for position in (Position("last"), Position("content", "mean")):
        for block in range(30):
            hump = 0.56 + 0.37 * depth * math.exp(-(((block - 17) / 11) ** 2)) - 0.02 * (position.pool == "mean")
            for finder, (short, linear) in FINDERS.items():
                value = min(0.995, max(0.45, hump - short * depth + rng.normal(0, 0.008)))
                spread = 0.035 + 0.03 * (1 - value)
                figure = Figure(
                    value,
                    value - spread * 1.3,
                    min(1.0, value + spread * 0.8),
                    0.6 + rng.normal(0, 0.006) if linear else None,
                    120,
                    "validation, logit-DeLong",
                )
                p = (1 / 201 if value > 0.7 else 0.4) if linear else None
                made.append(Cell(Site("resid", block), position, finder, figure, value - 0.08, p))
    return tuple(made)


def vector(name: str, rng: np.random.Generator, site: str = "resid.17") -> ConceptVector:
    """A vector with class means, calibration and provenance."""
    means = torch.from_numpy(rng.normal(size=(2, 576))).float()
    return ConceptVector.from_direction(
        name,
        site,
        means[0] - means[1],
        means[0],
        means[1],
        calibration=(4.1, 0.2),
        method="logistic",
        model=MODEL,
        data={"name": "sentiment.jsonl", "digest": "b51d3c0e77aa", "n": 600},
        seed=0,
        versions={"covec": "0.1.0", "torch": "2.13.0"},
        figures={"auroc": Figure(0.93, 0.88, 0.96, 0.5, 120, "test, logit-DeLong")},
    )


def tokens(text: str, rng: np.random.Generator) -> tuple[dict[str, Any], ...]:
    """Words as tokens with made-up scores; the first has none, as the embedded model's."""
    found, start = [], 0
    for index, word in enumerate(text.split(" ")):
        end = start + len(word)
        begin = start - (index > 0)
        score = None if index == 0 else float(rng.normal(0, 0.6))
        found.append({"token": text[begin:end], "start": begin, "end": end, "score": score})
        start = end + 1
    return tuple(found)


def illustrations(rng: np.random.Generator) -> Illustrations:
    """Token scores, steered samples and nearest tokens."""
    texts = []
    for text, label in SENTENCES:
        score = (0.5 if label else -0.5) + float(rng.normal(0, 0.35))
        probability = 1 / (1 + math.exp(-4.1 * score - 0.2))
        texts.append(
            {"text": text, "label": label, "score": score, "probability": probability, "tokens": tokens(text, rng)}
        )
    said = {
        -2.0: " a complete disaster. The room was dirty, the staff rude, and the food was the worst I have ever had.",
        -1.0: " a bit of a disappointment. The room was small and there was no hot water in the morning.",
        0.0: " located in the centre of the city, a short walk from the station. The rooms are on three floors.",
        1.0: " a lovely place to stay. The rooms are bright and the people at the desk were kind to us.",
        2.0: " absolutely wonderful! The most beautiful and loving place, and the breakfast was delicious.",
    }
    steered = tuple(
        {"prompt": prompt, "strength": strength, "text": text}
        for prompt in ("The hotel was", "When I opened the letter,")
        for strength, text in said.items()
    )
    toward = (
        (" wonderful", 0.31),
        (" delightful", 0.29),
        (" beautifully", 0.27),
        (" Amazing", 0.22),
        ("joy", 0.2),
        (" superb", 0.19),
        (" heart", 0.17),
        ("!", 0.15),
    )
    away = (
        (" worst", -0.33),
        (" horrible", -0.31),
        (" failed", -0.25),
        (" useless", -0.24),
        (" nothing", -0.2),
        ("dull", -0.18),
        (" waste", -0.17),
        (" error", -0.15),
    )
    return Illustrations(tuple(texts), steered, toward, away)


def used(rng: np.random.Generator) -> Used:
    """A concept that the model uses."""
    strengths = (-2.0, -1.5, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0)
    curve = tuple(
        {
            "strength": s,
            "readout": 0.1 + 0.9 * math.tanh(0.62 * s),
            "kl": 0.055 * s * s,
            "low": 0.1 + 0.9 * math.tanh(0.62 * s) - 0.12,
            "high": 0.1 + 0.9 * math.tanh(0.62 * s) + 0.12,
        }
        for s in strengths
    )
    return Used(
        verdict="used",
        add=Figure(0.52, 0.47, 0.58, 0.02, 50, "slope over strengths -1 to 1, bootstrap over prompts"),
        ablate=Figure(0.21, 0.15, 0.27, 0.01, 100, "closed gap, bootstrap over inputs"),
        kl=Figure(0.055, n=1200, how="nats a token, strength 1"),
        at_equal_kl=Figure(0.71, how="effect of adding at 0.1 nats a token"),
        isotropic=Figure(0.01, high=0.04, n=100, how="random directions of the same norm"),
        add_nulls=tuple(float(x) for x in rng.normal(0.02, 0.08, 19)),
        ablate_nulls=tuple(float(x) for x in rng.normal(0.01, 0.03, 19)),
        curve=curve,
        gap=0.72,
        dtype="float32",
    )


def study(name: str = "sentiment", seed: int = 0, **changes: Any) -> Study:
    """A whole study; `changes` replace its fields."""
    rng = np.random.default_rng(seed)
    sweep = cells(rng)
    best = max(sweep, key=lambda cell: cell.auroc.value)
    made = Study(
        concept=name,
        model=MODEL,
        n={
            "rows": 600,
            "positive": 304,
            "negative": 296,
            "train": 360,
            "validation": 120,
            "test": 120,
            "groups": 597,
            "duplicates": 3,
        },
        regime="holdout",
        selected=best,
        test={
            "auroc": Figure(0.932, 0.877, 0.963, 0.5, 120, "test rows, logit-DeLong"),
            "accuracy": Figure(0.867, 0.794, 0.917, 0.5, 120, "test rows, Wilson"),
        },
        p_test=1 / 10001,
        p_sweep=1 / 201,
        stability=Figure(0.71, 0.68, 0.74, 0.12, 20, "mean cosine over half-splits"),
        bag_of_words={
            "auroc": Figure(0.781, 0.695, 0.849, 0.5, 120, "test rows, logit-DeLong"),
            "accuracy": Figure(0.708, 0.621, 0.782, 0.5, 120, "test rows, Wilson"),
        },
        random_direction=Figure(0.51, None, 0.62, None, 100, "median and 95th percentile of 100 directions"),
        cue=Figure(0.56, 0.45, 0.66, 0.5, 120, "length"),
        beyond_words=Figure(0.151, 0.07, 0.231, 0.0, 120, "paired DeLong"),
        used=used(rng),
        verdict="found-and-used",
        best=vector(name, rng, str(best.site)),
        cells=sweep,
        illustrations=illustrations(rng),
        warnings=(),
        notes=("skipped: pca-pairs (needs pairs)",),
        settings={
            "sites": "resid.*",
            "position": "last,mean",
            "split_seed": 0,
            "seed": 0,
            "nulls": 19,
            "versions": {"python": "3.11.2"},
        },
        looks=1,
        seconds=41.3,
    )
    return dataclasses.replace(made, **changes)


def studies(names: tuple[str, ...] = ("sentiment", "truth", "french")) -> Studies:
    """Several concepts studied together."""
    made = {}
    for seed, name in enumerate(names):
        others = {
            other: Figure(0.5 + 0.03 * index, 0.4, 0.7, 0.5, 120) for index, other in enumerate(names) if other != name
        }
        made[name] = study(name, seed, wrong_concepts=others)
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(len(names), 6))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    cosines = {"resid.17": {"concepts": list(names), "matrix": (rows @ rows.T).tolist()}}
    return Studies(made, cosines, ("the concepts share 12 texts",), 63.0)


def hostile_study() -> Study:
    """A study whose every text tries to become part of the page."""
    made = study()
    token = {"token": HOSTILE, "start": 0, "end": len(HOSTILE), "score": 0.4}
    text = {"text": HOSTILE * 2, "label": HOSTILE, "score": 0.3, "probability": None, "tokens": (token,)}
    shown = Illustrations((text,), ({"prompt": HOSTILE, "strength": 1.0, "text": HOSTILE},), ((HOSTILE, 0.2),), ())
    cell = Cell(made.selected.site, made.selected.position, HOSTILE, Figure(0.99, 0.98, 1.0), 0.9)
    return dataclasses.replace(
        made,
        concept=HOSTILE,
        model={**made.model, "name": HOSTILE, HOSTILE: HOSTILE},
        selected=cell,
        cells=(*made.cells[:40], cell),
        wrong_concepts={HOSTILE: Figure(0.5, how=HOSTILE)},
        illustrations=shown,
        warnings=(HOSTILE,),
        notes=(HOSTILE,),
        settings={HOSTILE: {HOSTILE: [HOSTILE]}},
        used=dataclasses.replace(made.used, why=HOSTILE, dtype=HOSTILE),
    )


def hostile_studies() -> Studies:
    """Two concepts, one of them hostile, and a hostile matrix."""
    made = hostile_study()
    matrix = {"concepts": [HOSTILE, "b"], "matrix": [[1.0, 0.2], [0.2, 1.0]]}
    return Studies({HOSTILE: made, "b": study("b")}, {HOSTILE: matrix}, (HOSTILE,))
