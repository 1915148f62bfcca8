"""FeTrIL: past classes are represented by features of new ones, moved to their means (Petit et al. 2023)."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from scail.heads.evidence import Evidence
from scail.heads.linear_head import LinearHead
from scail.heads.ncm import ncm


def fetril(evidence: Evidence, strength: float = 1.0, tolerance: float = 1e-4) -> LinearHead:
    """One linear SVM per class, on unit-length features of the new classes and pseudo-features of the past ones.

    Not exact: what a past class is told apart by depends on which classes are new. `strength` is the SVMs' C. Where no
    image of a new class is at hand, as when it was forgotten, there is nothing to move: the nearest mean decides.
    """
    if len(evidence.new_labels_M) == 0:
        return ncm(evidence)
    features_ND, labels_N = with_pseudo_features(evidence)
    count_C = evidence.known_moments.count_C
    weight_CD, bias_C = torch.zeros(len(count_C), features_ND.shape[1]), torch.full((len(count_C),), -torch.inf)
    at_hand = torch.unique(labels_N).tolist()
    if len(at_hand) == 1:
        bias_C[at_hand[0]] = 0.0  # nothing to tell it apart from
        return LinearHead(weight_CD, bias_C, unit_features=True)
    unit, labels = F.normalize(features_ND, dim=1).numpy(), labels_N.numpy()
    from joblib import Parallel, delayed
    from sklearn.svm import LinearSVC

    def fit(label: int) -> tuple[np.ndarray[tuple[int], np.dtype[np.float64]], float]:
        # The primal solver draws no random numbers.
        svm = LinearSVC(C=strength, tol=tolerance, dual=False).fit(unit, labels == label)
        return svm.coef_[0], float(svm.intercept_[0])

    found = Parallel(n_jobs=-1, prefer="threads")(delayed(fit)(label) for label in at_hand)
    for label, (row, offset) in zip(at_hand, found, strict=True):
        weight_CD[label], bias_C[label] = torch.from_numpy(row).float(), offset
    return LinearHead(weight_CD, bias_C, unit_features=True)


def with_pseudo_features(evidence: Evidence) -> tuple[Tensor, Tensor]:
    """Features and labels: of the new classes as they are; of each past class those of the new class whose mean is the
    most similar (by cosine), moved from that mean to its own."""
    moments, new_MD = evidence.known_moments, evidence.new_features_MD.double()
    new = torch.unique(evidence.new_labels_M)
    mean_CD = moments.mean_CD
    new_mean_CD = mean_CD.clone()
    for c in new.tolist():  # of the images at hand, so that the moved ones have the mean of the past class
        new_mean_CD[c] = new_MD[evidence.new_labels_M == c].mean(0)
    features, labels = [new_MD], [evidence.new_labels_M]
    is_new = torch.isin(torch.arange(len(mean_CD)), new)
    for past in ((~is_new) & (moments.count_C > 0)).nonzero().flatten().tolist():
        likeness = F.cosine_similarity(mean_CD[past][None], new_mean_CD[new], dim=1)
        nearest = int(new[likeness.argmax()])
        of_nearest = new_MD[evidence.new_labels_M == nearest]
        features.append(of_nearest + mean_CD[past] - new_mean_CD[nearest])
        labels.append(torch.full((len(of_nearest),), past))
    return torch.cat(features), torch.cat(labels)
