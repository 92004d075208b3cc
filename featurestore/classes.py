"""Classes of functions without measurements, predicted from what is known of them.

Low, medium or high of each resource, and the dominant resource, are learned from the functions that were measured:
from their memory limit and time limit, how long they run and how much that varies, and what they and their co-runners
do to each other, by the co-runner's dominant resource. A class is predicted only where functions that were left out
of the learning show that it is told better than by always naming the most frequent one.
"""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import f1_score
from sklearn.model_selection import KFold, cross_val_predict
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler

from featurestore.interference.evidence import Floats
from featurestore.profiles import RESOURCES

#: Fewer measured functions teach no class; so many parts they are cut into for the held-out score.
_LEAST, _FOLDS = 20, 5


@dataclass(frozen=True, slots=True)
class Classes:
    """*predicted* by target ("dominant" and the resources): a name for each function, "" where none is stated;
    *scores* by target: macro-F1 on held-out functions, that of the majority class, and the number of functions."""

    predicted: Mapping[str, list[str]]
    scores: Mapping[str, Mapping[str, float]]


def effects(probability: sparse.coo_matrix, dominant: Sequence[str]) -> Floats:
    """Return what each function suffers from, and does to, functions of each dominant resource [F, 8].

    *probability* [F, F] victim by aggressor of interfering, where it is known, zeros included; *dominant* "" where
    not measured. A function's own class takes no part in its own row. NaN where it met none of that resource.
    """
    apart = probability.row != probability.col
    at = (probability.row[apart], probability.col[apart])
    values = sparse.csr_matrix((probability.data[apart], at), shape=probability.shape)
    known = sparse.csr_matrix((np.ones(len(at[0])), at), shape=probability.shape)
    of = np.array([[name == resource for resource in RESOURCES] for name in dominant], float).reshape(-1, 4)
    sums = np.concatenate([values @ of, values.T @ of], axis=1)
    counts = np.concatenate([known @ of, known.T @ of], axis=1)
    found: Floats = np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
    return found


def predict(known: Floats, targets: Mapping[str, Sequence[str]]) -> Classes:
    """Learn each of *targets* (a class for each function, "" where not measured) from what is *known* [F, k].

    NaN is filled with the median of the column. Deterministic.
    """
    predicted: dict[str, list[str]] = {}
    scores: dict[str, Mapping[str, float]] = {}
    usable = known[:, np.isfinite(known).any(axis=0)] if known.size else known
    for target, classes in targets.items():
        names = np.array(list(classes), dtype=object).astype(str)
        predicted[target] = [""] * len(names)
        rows = np.flatnonzero(names != "")
        if len(rows) < _LEAST or usable.shape[1] == 0 or len(set(names[rows])) < 2:
            continue
        scores[target] = score = _score(usable[rows], names[rows])
        rest = np.flatnonzero(names == "")
        if len(rest) and score["macro_f1"] > score["majority"]:
            learned = _pipeline().fit(usable[rows], names[rows])
            for row, name in zip(rest, learned.predict(usable[rest]), strict=True):
                predicted[target][row] = str(name)
    return Classes(predicted, scores)


def _score(known: Floats, names: np.ndarray[tuple[int], np.dtype[np.str_]]) -> Mapping[str, float]:
    folds = KFold(_FOLDS, shuffle=True, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a fold may lack a rare class or a column altogether
        held_out = cross_val_predict(_pipeline(), known, names, cv=folds)
    present, counts = np.unique(names, return_counts=True)
    majority = np.full(len(names), present[np.argmax(counts)])
    return {
        "macro_f1": float(f1_score(names, held_out, average="macro", zero_division=0)),
        "majority": float(f1_score(names, majority, average="macro", zero_division=0)),
        "functions": len(names),
    }


def _pipeline() -> Pipeline:
    return make_pipeline(
        SimpleImputer(strategy="median", keep_empty_features=True),
        StandardScaler(),
        LogisticRegression(max_iter=1000, class_weight="balanced"),
    )
