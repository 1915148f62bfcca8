"""What a head may see.

Shapes: C classes seen so far, of which the first `past` arrived before the current state; D features; S states so far;
E exemplars in memory; M training images of the current state's new classes.
"""

from __future__ import annotations

from dataclasses import dataclass, fields

from torch import Tensor

from scail.moments import Moments


@dataclass(frozen=True)
class Evidence:
    """What a learner with bounded memory may keep after a state, and no more."""

    weight_CD: Tensor
    """The current linear layer."""
    bias_C: Tensor
    initial_weight_CD: Tensor
    """Initial classifiers: each class's row as learned in the state where the class was new."""
    initial_bias_C: Tensor
    first_state_C: Tensor
    """The state in which each class was new."""
    train_count_C: Tensor
    """Training images of each class in the current state (exemplars, for past classes)."""
    initial_score_C: Tensor
    """Mean raw score of each class on its own training images in its initial state."""
    exemplar_score_C: Tensor
    """Mean raw score of each class on its own exemplars now; 0 for a class without exemplars."""
    top_score_S: Tensor
    """Per state, the mean over its new classes' training images of the highest raw score."""
    exemplar_features_ED: Tensor
    exemplar_labels_E: Tensor
    new_features_MD: Tensor
    new_labels_M: Tensor
    moments: Moments | None = None
    """Where the network never moves: the moments of all features ever seen."""

    @property
    def known_moments(self) -> Moments:
        """The moments; an error where the network moves, and there are none."""
        if self.moments is None:
            raise ValueError("this head is made of moments, which only a frozen network has")
        return self.moments

    @property
    def state(self) -> int:
        """The current state k."""
        return int(self.first_state_C[-1])

    @property
    def past(self) -> int:
        """How many classes are past classes."""
        return int((self.first_state_C < self.state).sum())


TENSORS = tuple(f.name for f in fields(Evidence) if f.name != "moments")
"""What of the evidence is one tensor each."""
