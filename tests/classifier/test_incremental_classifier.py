from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from scail import IncrementalClassifier
from scail.benchmark.configuration import settle
from scail.benchmark.incremental import Watch, steps_of
from scail.benchmark.trajectory import trajectories_in
from scail.classifier.answering import Answerer
from scail.classifier.odds import best_odds
from scail.classifier.settings import check_method, heads_on, open_methods
from scail.heads.evidence import TENSORS
from scail.methods import METHODS, head_of
from scail.runtime.devices import fabric_of
from scail.storage.store import Store
from tests.classifier.little import little, little_images


def one_of_each_trainer(memory):
    """A method of every trainer: the others of the same trainer are heads on the same trajectory."""
    return [(name, memory) for name in {METHODS[name].trainer: name for name in open_methods(memory)}.values()]


def same_evidence(one, two):
    return all(torch.equal(getattr(one, name), getattr(two, name)) for name in TENSORS)


def same_network(one, two):
    one, two = one.state_dict(), two.state_dict()
    return one.keys() == two.keys() and all(torch.equal(one[name], two[name]) for name in one)


def test_it_learns_predicts_and_tells_its_classes():
    clf = little(epochs=(20, 10), memory=20).learn(*little_images("ant", "bee"))
    clf.learn(*little_images("cat"))
    assert clf.classes_ == ("ant", "bee", "cat")
    assert clf.states_ == (("ant", "bee"), ("cat",))
    images, labels = little_images("ant", "bee", "cat", seed=1)
    chances = clf.predict_proba(images)
    assert chances.shape == (18, 3) and np.allclose(chances.sum(1), 1, atol=1e-5)
    assert [clf.classes_[c] for c in chances.argmax(1)] == clf.predict(images).tolist()
    right = np.mean(clf.predict(images) == np.array(labels))
    assert clf.score(images, labels) == pytest.approx(right) and right > 0.6
    for best, row in zip(clf.top_k(images, 2), chances, strict=True):
        assert [name for name, _ in best] == [clf.classes_[c] for c in (-row).argsort(kind="stable")[:2]]
    assert len(clf.top_k(images[:1], 50)[0]) == 3  # no more than there are


def test_whole_numbers_as_labels_come_back_as_whole_numbers(tmp_path):
    images, _ = little_images("a", "b", each=3)
    clf = little().learn(images, np.array([3, 3, 3, 10, 10, 10]))
    assert clf.classes_ == (3, 10) and clf.states_ == ((3, 10),)
    found = clf.predict(images)
    assert np.issubdtype(found.dtype, np.integer) and set(found.tolist()) <= {3, 10}
    assert clf.score(images, found) == 1 and clf.top_k(images[:1])[0][0][0] in (3, 10)
    clf.learn(*little_images("c", each=3)).save(tmp_path / "m")
    again = IncrementalClassifier.load(tmp_path / "m", verbose=False)
    assert again.classes_ == (3, 10, "c") == Answerer.open(tmp_path / "m").classes
    mixed = again.predict(np.concatenate([images, little_images("c", each=3)[0]]))
    assert {type(label) for label in mixed.tolist()} <= {int, str}
    assert again.forget(3).rename("10", 11).classes_ == (11, "c")
    assert 0 <= clf.score(images, [3] * 6) <= 1


@pytest.mark.parametrize(("method", "memory"), one_of_each_trainer(12) + one_of_each_trainer(0))
def test_every_method_learns_more_of_a_class_one_class_alone_and_known_classes_only(method, memory, tmp_path):
    clf = little(method=method, memory=memory).learn(*little_images("a", "b", "c"))
    beside = ("i",) if METHODS[method].kind.apart else ()  # there a class that is new alone is refused
    clf.learn(*little_images("d", *beside, "a", seed=2))  # one new class, and more of an old one
    clf.learn(*little_images("b", "d", seed=3))  # nothing new
    clf.learn(*little_images("e", "f", seed=4))
    assert clf.states_ == (("a", "b", "c"), ("d", *beside), ("e", "f"))
    images, _ = little_images(*"abcdef", seed=5)
    again = IncrementalClassifier.load(clf.save(tmp_path / "m") and tmp_path / "m", verbose=False)
    for name in heads_on(clf.model_.settings):
        scores = clf.use(name).decision_function(images)
        assert scores.shape == (36, 6 + len(beside)) and not np.isnan(scores).any()
        assert (scores > -np.inf).any(1).all()
        assert np.array_equal(again.use(name).decision_function(images), scores)
    # What was read goes on as what was not.
    more = little_images("g", "h", seed=6)
    assert same_network(again.learn(*more).model_.learned.network, clf.learn(*more).model_.learned.network)


def test_every_method_that_can_learn_from_an_open_stream_was_tried():
    tried = set()
    for name, memory in one_of_each_trainer(12) + one_of_each_trainer(0):
        tried |= set(heads_on(SimpleNamespace(method=name, memory=memory, select=check_method(name, memory)[1])))
    assert tried == set(METHODS) - {"full"}


@pytest.mark.parametrize("trainer", ["fine_tune", "balanced", "e2e", "bic", "frozen_svm"])
@pytest.mark.parametrize("select", ["random", "herding"])
def test_it_is_the_benchmarks_learner_to_the_bit(tiny, tmp_path, trainer, select):
    name = next(n for n, m in METHODS.items() if m.trainer == trainer)
    configuration = settle(tiny.but(methods=(name,), select=(select,)))
    clf = IncrementalClassifier(
        tiny.exemplars.memory, f"{name}:{select}", recipe=configuration.experiment, mirror=False, accelerator="cpu",
        verbose=False,
    )  # fmt: skip
    trajectory = trajectories_in(configuration)[0]
    for step in steps_of(trajectory, Store(tmp_path), fabric_of(configuration.experiment.machine), Watch()):
        state = step.state
        images = configuration.dataset.train.images[state.train_indices]
        names = [state.class_names[c - state.past_classes] for c in state.train_labels.tolist()]
        clf.learn(images, names)
        mine = clf.model_
        assert same_network(mine.learned.network, step.learned.network)
        assert same_evidence(mine.learned.evidence, step.learned.evidence)
        assert torch.equal(mine.exemplars.images, configuration.dataset.train.images[step.learned.memory.indices])
        features = torch.rand(5, mine.learned.network.feature_size)
        theirs = head_of(name, configuration.experiment.heads, step.learned).scores(features)
        assert torch.equal(mine.head().scores(features), theirs)


@pytest.mark.parametrize(("memory", "said"), [(2, True), (3, False)])
def test_bic_says_when_it_cannot_hold_out_anything(memory, said, capsys):
    clf = little(memory=memory, method="bic", verbose=True).learn(*little_images("a", "b"))
    first = capsys.readouterr().out
    clf.learn(*little_images("c"))
    assert "nothing is corrected" not in first
    assert ("no past class has two exemplars" in capsys.readouterr().out) == said


@pytest.mark.parametrize(("method", "distils"), [("ft", False), ("bic", False), ("auto", True), ("ft_distill", True)])
def test_distillation_does_not_heed_labels_of_known_classes_and_says_so(method, distils, capsys):
    clf = little(memory=8, method=method, verbose=True).learn(*little_images("a", "b"))
    capsys.readouterr()
    clf.learn(*little_images("a", "c"))
    assert ("what it said before, whatever their label" in capsys.readouterr().out) == distils


def test_more_of_an_old_class_is_rehearsed_and_said(capsys):
    clf = little(memory=8, verbose=True).learn(*little_images("a", "b"))
    before = clf.model_
    capsys.readouterr()
    more, _ = little_images("a", each=9, seed=7)
    clf.learn(np.concatenate([more, little_images("c")[0]]), ["a"] * 9 + ["c"] * 6)
    said = capsys.readouterr().out
    assert "9 more images of 1 known class(es), a: trained on now, beside the new classes" in said
    assert "which pictures of them are kept is decided anew" in said
    after = clf.model_
    old, new = before.learned.evidence, after.learned.evidence
    assert torch.equal(new.initial_weight_CD[:2], old.initial_weight_CD)
    assert new.first_state_C.tolist() == [0, 0, 1]
    assert new.train_count_C.tolist() == [4 + 9, 4, 6]  # its exemplars and the new images took part
    kept = after.exemplars.images[after.exemplars.memory.exemplars[0]]
    fresh = {image.tobytes() for image in more}
    assert any(image.numpy().tobytes() in fresh for image in kept)  # the best of old and new ones
    untouched = after.exemplars.images[after.exemplars.memory.exemplars[1]]
    assert torch.equal(untouched, before.exemplars.images[before.exemplars.memory.exemplars[1]][: len(untouched)])


def test_known_classes_alone_do_not_make_a_new_state():
    clf = little(memory=9).learn(*little_images("a", "b")).learn(*little_images("c"))
    before = clf.model_.learned
    clf.learn(*little_images("a", "b", seed=3))
    after = clf.model_.learned
    assert clf.states_ == (("a", "b"), ("c",))
    assert not same_network(before.network, after.network)
    assert after.evidence.state == 1 and after.evidence.past == 2
    assert len(after.evidence.top_score_S) == 2
    # The newest classes are those of state 1, with what is at hand of them: exemplars.
    assert set(after.evidence.new_labels_M.tolist()) == {2}
    assert len(after.evidence.new_labels_M) == len(before.memory.exemplars[2])
    assert clf.model_.calls == 3


def test_without_a_memory_known_classes_alone_can_be_learned_too():
    clf = little(method="scail", memory=0).learn(*little_images("a", "b")).learn(*little_images("c"))
    scores = clf.learn(*little_images("a", seed=3)).model_.learned.evidence.top_score_S
    assert len(scores) == 2 and scores.isfinite().all()


def test_auto_is_a_method_like_others():
    clf = little(method="auto:random").learn(*little_images("a", "b")).learn(*little_images("c"))
    assert (clf.model_.settings.method, clf.model_.settings.select) == ("icarl_duet", "random")
    assert clf.use("ft_distill").use("auto").model_.settings.method == "icarl_duet"
    assert little(memory=0).learn(*little_images("a", "b")).model_.settings.method == "lwf"
    with pytest.raises(ValueError, match="method 'auto' would need another training than scail had"):
        little(method="scail").learn(*little_images("a", "b")).use("auto")


def test_a_single_class_can_begin(capsys):
    clf = little(verbose=True).learn(*little_images("a"))
    assert "only one class is known" in capsys.readouterr().out
    assert clf.predict(little_images("a")[0]).tolist() == ["a"] * 6
    assert clf.learn(*little_images("b")).classes_ == ("a", "b")


def test_one_image_can_be_a_class():
    clf = little().learn(*little_images("a", "b"))
    assert clf.learn(*little_images("c", each=1)).classes_ == ("a", "b", "c")


def test_an_svm_needs_two_classes_and_says_so_before_it_trains():
    clf = little(method="deesil")
    with pytest.raises(ValueError, match="only one class is at hand, and it needs two"):
        clf.learn(*little_images("a"))
    clf.learn(*little_images("a", "b")).learn(*little_images("c"))  # with exemplars of others one is enough
    with pytest.raises(ValueError, match="and it needs two"):
        little(method="deesil", memory=0).learn(*little_images("a", "b")).learn(*little_images("c"))


@pytest.mark.parametrize("method", ["packnet", "progressive"])
def test_one_new_class_beside_images_of_a_known_one_is_refused_where_new_classes_learn_alone(method):
    clf = little(method=method, memory=0).learn(*little_images("a", "b"))
    with pytest.raises(ValueError, match=f"method {method}: only one new class is at hand, and it needs two"):
        clf.learn(*little_images("a", "c"))
    assert clf.learn(*little_images("a", "c", "d")).classes_ == ("a", "b", "c", "d")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"method": "full"}, "cannot keep learning; with a memory of 12 images: ft, "),
        ({"method": "lwf"}, "has no memory by definition: give memory 0"),
        ({"method": "ft_nomem"}, "has no memory by definition"),
        ({"method": "icarl", "memory": 0}, "needs exemplars, but memory is 0"),
        ({"method": "nosuch"}, "unknown method 'nosuch'; known: auto, ft, "),
        ({"method": "scail:best"}, "random or herding"),
        ({"memory": -1}, "memory is -1 images, expected 0 or more"),
        ({"backbone": "vgg"}, "unknown network 'vgg'; known: resnet18"),
        ({"recipe": "fast"}, "unknown recipe 'fast'; known: auto, quick"),
        ({"validation": 1.5}, "validation is 1.5, expected a share"),
        ({"validation": 0.1, "memory": 5}, "there is no place for one"),
        ({"epochs": 0}, "epochs is 0, expected 1 or more"),
        ({"seed": -1}, "seed is -1"),
        ({"accelerator": "tpu-of-tomorrow"}, "use auto or cpu"),
        ({"backbone_weights": "nosuch.safetensors"}, "backbone weights nosuch.safetensors: No such file"),
    ],
)
def test_what_cannot_be_is_a_clear_error_and_nothing_is_learned(given, message):
    clf = little(**given)
    with pytest.raises(ValueError, match=message):
        clf.learn(*little_images("a", "b"))
    assert not clf.has_learned


def test_a_learn_that_fails_leaves_everything_as_it_was():
    clf = little().learn(*little_images("a", "b"))
    before, images = clf.model_, little_images("a", "b")[0]
    scores = clf.decision_function(images)
    with pytest.raises(ValueError, match="expected one label for each image"):
        clf.learn(images, ["c"])
    with pytest.raises(ValueError, match="images without labels cannot be learned"):
        clf.learn(images)
    with pytest.raises(ValueError, match="Images without labels"):
        clf.learn(images, [None] * len(images))

    def fail(progress):
        raise RuntimeError("the lamp went out")

    with pytest.raises(RuntimeError):
        clf._learn(*little_images("c"), report=fail)
    assert clf.model_ is before
    assert np.array_equal(clf.decision_function(images), scores)


def test_before_the_first_learn_it_says_that_nothing_was_learned():
    with pytest.raises(ValueError, match="nothing was learned yet"):
        little().predict(little_images("a")[0])


def test_heads_of_one_trajectory_can_be_switched_without_training():
    clf = little(method="scail").learn(*little_images("a", "b", "c")).learn(*little_images("d", "e"))
    network, images = clf.model_.learned.network, little_images(*"abcde", seed=2)[0]
    scores = {}
    for name in heads_on(clf.model_.settings):
        scores[name] = clf.use(name).decision_function(images)
        assert clf.model_.learned.network is network
    assert {"ft", "ft_init_l2", "scail", "ft_nem", "ft_slda"} <= scores.keys()
    assert "icarl" not in scores and "ft_nomem" not in scores
    assert not np.array_equal(scores["ft"], scores["ft_init_l2"])
    assert np.array_equal(clf.use("scail").decision_function(images), scores["scail"])
    for other in ("icarl", "ft_nomem", "scail:random", "full", "nosuch"):
        with pytest.raises(ValueError, match=r"without training these can be used: ft, ft_nem, .*scail"):
            clf.use(other)
    assert clf.use("scail:herding").method == "scail:herding"


def test_the_best_k_are_those_of_the_scores_whatever_the_head():
    clf = little(method="scail").learn(*little_images("a", "b", "c")).learn(*little_images("d", "e"))
    images = little_images(*"abcde", seed=2)[0]
    for name in heads_on(clf.model_.settings):
        scores = clf.use(name).decision_function(images)
        for found, of_image in zip(clf.top_k(images, 4), scores, strict=True):
            possible = int(np.isfinite(of_image).sum())  # a probability may be 0 by rounding, the class is possible
            assert len(found) == min(4, possible)
            order = [of_image[clf.classes_.index(c)] for c, _ in found]
            assert order == sorted(order, reverse=True) and order[0] == of_image.max()


def test_another_seed_is_another_classifier_the_same_seed_the_same():
    def learned(seed):
        clf = little(seed=seed).learn(*little_images("a", "b")).learn(*little_images("c"))
        return clf.model_.learned.network

    assert same_network(learned(1), learned(1))
    assert not same_network(learned(1), learned(2))


def test_the_memory_never_exceeds_its_budget_over_a_hundred_calls():
    clf = little(memory=15, validation=0.2)
    names = [f"class {i % 24}" for i in range(100)]  # new ones at first, then more of old ones
    for i, name in enumerate(names):
        clf.learn(*little_images(name, f"class {i // 2 % 24}", each=3, seed=i))
        model = clf.model_
        assert len(model.exemplars.images) + len(model.held_out.images) <= 15
        assert len(model.exemplars.images) == len(model.exemplars.memory) <= 12
        assert len(model.held_out.images) == len(model.held_out.memory) <= 3
    assert len(clf.classes_) == 24 and model.calls == 100
    assert len(model.history) <= 100


def test_where_images_are_held_out_the_odds_are_fitted_to_them():
    images, labels = little_images("a", "b", each=10)
    model = little(memory=20, validation=0.3, method="ft").learn(images, labels).model_
    held_out = model.held_out
    assert model.odds == best_odds(model.scores(held_out.images), held_out.memory.labels)
    without = little(memory=20, method="ft").learn(images, labels).model_
    assert without.odds == best_odds(without.scores(without.exemplars.images), without.exemplars.memory.labels)


def test_held_out_images_are_not_trained_on_and_measure_the_past():
    images, labels = little_images("a", "b", each=10)
    clf = little(memory=20, validation=0.3).learn(images, labels)
    model = clf.model_
    assert model.learned.evidence.train_count_C.tolist() == [7, 7]
    assert len(model.held_out.images) == 6 and model.accuracy["images"] == 6 and model.difference is None
    kept = {image.numpy().tobytes() for image in model.exemplars.images}
    assert not kept & {image.numpy().tobytes() for image in model.held_out.images}
    before = model.scores(model.held_out.images).argmax(1)
    clf.learn(*little_images("c", each=10))
    after = clf.model_.scores(model.held_out.images).argmax(1)
    truth = model.held_out.memory.labels
    expected = {
        name: [3, int((before[truth == c] == c).sum()), int((after[truth == c] == c).sum())]
        for c, name in enumerate("ab")
    }
    assert clf.model_.difference == expected


def test_first_it_says_how_long_it_will_take(capsys):
    little(verbose=True, epochs=2).learn(*little_images("a", "b"))
    said = capsys.readouterr().out
    assert "network: resnet8, for small images (8 pixels), 12 of them, on a CPU" in said
    assert "up to 2 epochs of 12 images: up to 0 s" in said


def test_people_of_scikit_learn_can_copy_it():
    from sklearn.base import clone

    clf = little(method="ft", memory=7)
    copy = clone(clf)
    assert copy.get_params() == clf.get_params() and copy is not clf
    assert copy.set_params(memory=9).memory == 9
    with pytest.raises(ValueError, match="no parameter 'colour'"):
        clf.set_params(colour="red")
    clf.learn(*little_images("a", "b"))
    with pytest.raises(ValueError, match="it has learned already"):
        clf.set_params(memory=3)
    assert "2 classes in 1 states" in repr(clf)


def test_a_class_can_be_forgotten():
    clf = little(method="scail", memory=20, validation=0.2).learn(*little_images("a", "b", "c", each=10))
    clf.learn(*little_images("d", "e", each=10))
    images, _ = little_images("a", "c", seed=3)
    before, model = clf.decision_function(images), clf.model_
    clf.use("ft")
    raw = clf.decision_function(images)
    clf.forget("b")
    assert clf.classes_ == ("a", "c", "d", "e")
    assert np.allclose(clf.decision_function(images), raw[:, [0, 2, 3, 4]], atol=1e-5)  # the others answer as before
    after = clf.model_
    gone = {image.numpy().tobytes() for image in model.exemplars.images[model.exemplars.memory.exemplars[1]]}
    gone |= {image.numpy().tobytes() for image in model.held_out.images[model.held_out.memory.exemplars[1]]}
    assert gone and not gone & {i.numpy().tobytes() for i in (*after.exemplars.images, *after.held_out.images)}
    assert "'b'" not in repr(after.history) and "b" not in after.difference
    for name in heads_on(after.settings):
        assert not np.isnan(clf.use(name).decision_function(images)).any()
    assert clf.learn(*little_images("b", "f")).classes_ == ("a", "c", "d", "e", "b", "f")
    assert before.shape == (12, 5)
    with pytest.raises(ValueError, match="'nobody' is not known; known are 'a', 'c'"):
        clf.forget("nobody")


@pytest.mark.parametrize("method", [name for name, _ in one_of_each_trainer(12)])
def test_after_forgetting_the_newest_state_every_method_goes_on(method):
    clf = little(method=method).learn(*little_images("a", "b")).learn(*little_images("c"))
    clf.forget("c")
    images = little_images("a", "b", seed=4)[0]
    for name in heads_on(clf.model_.settings):
        scores = clf.use(name).decision_function(images)
        assert scores.shape == (12, 2) and not np.isnan(scores).any()
    assert clf.model_.learned.evidence.state == 0
    clf.learn(*little_images("d", seed=5))
    assert clf.states_ == (("a", "b"), ("d",))
    assert not np.isnan(clf.decision_function(images)).any()


def test_the_last_class_cannot_be_forgotten():
    clf = little().learn(*little_images("a"))
    with pytest.raises(ValueError, match="the only one: remove the whole model"):
        clf.forget("a")


def test_a_data_set_of_torch_brings_its_labels():
    images, labels = little_images("a", "b")

    class Pairs(torch.utils.data.Dataset):
        classes = ("a", "b")

        def __len__(self):
            return len(images)

        def __getitem__(self, i):
            return images[i], "ab".index(labels[i])

    clf = little().learn(Pairs())
    assert clf.classes_ == ("a", "b")
    assert same_network(clf.model_.learned.network, little().learn(images, labels).model_.learned.network)
    assert 0 <= clf.score(Pairs()) <= 1
    assert clf.predict(Pairs()).tolist() == clf.predict(images).tolist()

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(zip(images, labels, strict=True))

    streamed = little().learn(Stream())
    assert same_network(clf.model_.learned.network, streamed.model_.learned.network)
    assert streamed.predict(Stream()).tolist() == clf.predict(images).tolist()
    with pytest.raises(ValueError, match=r"expected \(image, label\) pairs"):
        little().learn(torch.utils.data.TensorDataset(torch.zeros(3, 1, 8, 8)))


def test_a_hugging_face_data_set_brings_its_labels():
    import datasets
    from PIL import Image

    images, labels = little_images("a", "b")
    table = datasets.Dataset.from_dict(
        {"image": [Image.fromarray(image) for image in images], "label": ["ab".index(name) for name in labels]},
        features=datasets.Features({"image": datasets.Image(), "label": datasets.ClassLabel(names=["a", "b"])}),
    )
    clf = little(image_size=8).learn(table)
    assert clf.classes_ == ("a", "b")
    assert clf.model_.settings.shape == replace(clf.model_.settings.shape, channels=3, height=8, width=8)
    assert clf.predict(table[:3]["image"]).tolist() == clf.predict(table).tolist()[:3]
    unlabelled = table.cast_column("label", datasets.Value("int64")).map(lambda row: {"label": -1})
    unlabelled = unlabelled.cast_column("label", datasets.ClassLabel(names=["a", "b"]))
    with pytest.raises(ValueError, match="Images without labels cannot be learned"):
        little(image_size=8).learn(unlabelled)


def test_backbones_are_chosen_by_size_number_and_device():
    from scail.networks.pretrained import choose_backbone

    assert choose_backbone(224, 100, accelerator=False)[0] == "resnet18"
    assert choose_backbone(32, 100, accelerator=True)[0] == "resnet18-3x3"
    assert choose_backbone(32, 50_000, accelerator=False)[0] == "resnet20"
    assert choose_backbone(32, 100, accelerator=False)[0] == "resnet8"
