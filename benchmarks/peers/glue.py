"""A study glued by hand: activations by steering-vectors, probes, folds and AUROCs by scikit-learn."""

from __future__ import annotations

import numpy as np
import torch
from sklearn.linear_model import LogisticRegression, RidgeClassifier
from sklearn.metrics import roc_auc_score
from sklearn.preprocessing import StandardScaler
from steering_vectors.train_steering_vector import extract_activations
from transformers import AutoModelForCausalLM, AutoTokenizer

PACKAGE = "steering-vectors"


def load(settings):
    """One task over `pairs`, whose first texts have the concept."""
    model = AutoModelForCausalLM.from_pretrained(settings["model"], dtype=getattr(torch, settings["dtype"])).eval()
    tokenizer = AutoTokenizer.from_pretrained(settings["model"])
    pairs = [tuple(pair) for pair in settings["pairs"]]
    y = np.arange(2 * len(pairs)) < len(pairs)
    train, validation, test = (np.array(settings[part]) for part in ("train", "validation", "test"))
    known = np.concatenate([train, validation])

    def study():
        sides = extract_activations(model, tokenizer, pairs, batch_size=settings["batch"], read_token_index=-1)
        sites = [torch.cat([*sides[0][layer], *sides[1][layer]]).flatten(1).numpy() for layer in sides[0]]
        best, chosen = -1.0, None
        for rows in sites:
            for finder in ("difference", "logistic", "ridge"):
                direction, _ = fit(finder, rows[train], y[train], np.array(settings["folds"]), settings)
                area = roc_auc_score(y[validation], rows[validation] @ direction)
                if area > best:
                    best, chosen = area, (finder, rows)
        finder, rows = chosen
        direction, middle = fit(finder, rows[known], y[known], np.array(settings["folds again"]), settings)
        scores = rows[test] @ direction
        p = null(sites, y, train, validation, settings["permuted"])
        return {"": np.array([best, roc_auc_score(y[test], scores), ((scores > middle) == y[test]).mean(), p])}

    return {"study": study}


def fit(finder, X, y, folds, settings):
    """A direction, and the middle between the projected class means."""
    if finder == "difference":
        direction = X[y].mean(0) - X[~y].mean(0)
    else:
        scaler = StandardScaler().fit(X)
        Z = scaler.transform(X)
        direction = chosen(finder, Z, y, folds, settings[finder]).coef_.ravel() / scaler.scale_
    return direction, (X[y].mean(0) + X[~y].mean(0)) @ direction / 2


def chosen(finder, Z, y, folds, ridges):
    """The probe with the ridge of the best out-of-fold AUROC, the larger of equals."""

    def probe(ridge):
        if finder == "ridge":
            return RidgeClassifier(alpha=len(y) * ridge)
        return LogisticRegression(C=1 / (len(y) * ridge), max_iter=1000)

    def area(ridge):
        outputs = np.empty(len(y))
        for fold in range(5):
            held_out = folds == fold
            outputs[held_out] = probe(ridge).fit(Z[~held_out], y[~held_out]).decision_function(Z[held_out])
        return roc_auc_score(y, outputs)

    return probe(max(ridges, key=lambda ridge: (area(ridge), ridge))).fit(Z, y)


def null(sites, y, train, validation, permuted):
    """How often the best site of a difference of means is as good under permuted labels."""

    def highest(labels):
        known, others = labels[: len(train)], labels[len(train) :]
        return max(
            roc_auc_score(others, rows[validation] @ (rows[train][known].mean(0) - rows[train][~known].mean(0)))
            for rows in sites
        )

    observed = highest(y[np.concatenate([train, validation])])
    return (1 + sum(highest(np.array(labels)) >= observed - 1e-12 for labels in permuted)) / (1 + len(permuted))
