"""Another network under a model that has learned."""

from __future__ import annotations

import numpy as np
import pytest

from scail import IncrementalClassifier
from scail.networks.pretrained import has_pretrained
from tests.classifier.little import little, little_images

pytestmark = pytest.mark.skipif(
    not has_pretrained("efficientnet-lite0"), reason="the pretrained weights are not installed"
)


def frozen(**given) -> IncrementalClassifier:
    return little(**{"backbone": "efficientnet-lite0@32", "backbone_weights": "pretrained", "epochs": None, **given})


@pytest.mark.parametrize("method", ["slda", pytest.param("ranpac", marks=pytest.mark.soak)])
def test_with_all_images_kept_it_is_as_if_it_had_begun_with_the_other_network(method, tmp_path):
    images, labels = little_images("a", "b", "c", each=4)
    one = frozen(memory=12, method=method).learn(images, labels).embed_again("efficientnet-lite0@40")
    two = frozen(memory=12, method=method, backbone="efficientnet-lite0@40").learn(images, labels)
    np.testing.assert_allclose(one.decision_function(images), two.decision_function(images), rtol=1e-3, atol=1e-3)
    one.learn(*little_images("d")).save(tmp_path / "model")
    again = IncrementalClassifier.load(tmp_path / "model", verbose=False)
    assert again.classes_ == ("a", "b", "c", "d")
    assert np.array_equal(again.predict(images), one.predict(images))


def test_it_says_what_is_lost(capsys):
    clf = frozen(memory=3).learn(*little_images("a", "b", "c", each=4)).learn(*little_images("d", each=4))
    clf.verbose = True
    clf.embed_again("efficientnet-lite0@40")
    said = capsys.readouterr().out
    assert "3 of 16 learned images are kept as exemplars" in said and "the others are lost to the model" in said
    assert "1 class(es) have no exemplar and cannot be predicted now: d" in said
    assert "d" not in clf.predict(little_images("d")[0])


def test_without_exemplars_or_on_a_trained_network_it_is_an_error():
    with pytest.raises(ValueError, match="no exemplars are kept"):
        frozen(memory=0).learn(*little_images("a", "b")).embed_again("efficientnet-lite0@40")
    with pytest.raises(ValueError, match="has trained its network, which cannot be exchanged"):
        little(method="ft").learn(*little_images("a", "b")).embed_again("efficientnet-lite0@40")
