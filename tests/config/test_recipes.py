"""The recipes: every hyper-parameter of the paper's table, for small and for large images."""

from __future__ import annotations

import json
from dataclasses import fields, replace

import pytest

from scail.cli.main import main
from scail.config import ExemplarSettings, Experiment
from scail.config.options import RunOptions, experiment_of
from scail.config.recipes import RECIPES, learning, paper, paper_224, paper_bic, paper_code, pretrained, quick
from scail.config.schedule import Schedule
from scail.storage.records import decode
from scail.training import TRAINERS
from scail.training.rates import weight_decay
from scail.training.trainer import trainer_of

LARGE = {
    # name: epochs, rate, batch, weight decay, how the rate falls
    "first": (100, 0.1, 256, 1e-4, "plateau", 10, 10, ()),
    "later": (35, 0.1, 256, 1e-4, "plateau", 10, 5, ()),
    "balanced": (15, 0.01, 256, 1e-4, "plateau", 10, 5, ()),
    "distill": (60, 2.0, 128, 1e-5, "steps", 5, None, (20, 30, 40, 50)),
    "bic_first": (100, 0.1, 256, 1e-4, "steps", 10, None, (30, 60, 80, 90)),
    "bic": (100, 0.1, 256, 1e-4, "steps", 10, None, (30, 60, 80, 90)),
    "bic_correction": (200, 0.1, 256, 0.0, "steps", 10, None, (60, 120, 160, 180)),
    "lucir": (90, 0.1, 128, 1e-4, "steps", 10, None, (30, 60)),
    "wa": (100, 0.1, 256, 1e-4, "steps", 10, None, (30, 60, 80, 90)),
    "podnet": (90, 0.05, 64, 1e-4, "cosine", 10, None, ()),
    "podnet_classifier": (20, 0.01, 64, 1e-4, "steps", 10, None, ()),
    "threshold_moving": (60, 0.02, 128, 1e-3, "steps", 5, None, (20, 30, 40, 50)),
    "der": (200, 0.1, 256, 5e-4, "steps", 10, None, (60, 120, 160)),
    "der_classifier": (30, 0.1, 256, 5e-4, "steps", 10, None, (15,)),
    "m2kd": (90, 0.1, 128, 1e-4, "steps", 10, None, (30, 60)),
    "m2kd_pruned": (20, 0.001, 128, 1e-4, "steps", 10, None, (10,)),
    "fearnet_base": (1000, 2e-3, 450, 5e-4, "steps", 10, None, ()),
    "fearnet_sleep": (60, 2e-3, 450, 5e-4, "steps", 10, None, ()),
    "der_pruned": (200, 0.1, 256, 5e-4, "steps", 10, None, (60, 120, 160)),
    "packnet": (20, 0.001, 32, 5e-4, "steps", 10, None, (10,)),
    "packnet_retraining": (10, 0.001, 32, 5e-4, "steps", 10, None, (5,)),
    "progressive": (100, 0.1, 256, 1e-4, "plateau", 10, 10, ()),
    "growing_brain": (35, 0.1, 256, 1e-4, "plateau", 10, 5, ()),
    "generative_replay": (60, 0.2, 128, 1e-5, "steps", 5, None, (20, 30, 40, 50)),
    "generator": (1_000_000, 2e-4, 32, 0.0, "cosine", 10, None, ()),
}
SMALL = {
    "first": (300, 0.1, 128, 5e-4, "plateau", 10, 60, ()),
    "later": (60, 0.1, 128, 5e-4, "plateau", 10, 15, ()),
    "balanced": (30, 0.01, 128, 5e-4, "plateau", 10, 15, ()),
    "distill": (70, 2.0, 128, 1e-5, "steps", 5, None, (49, 63)),
    "bic_first": (100, 0.1, 256, 1e-4, "steps", 10, None, (30, 60, 80, 90)),
    "bic": (100, 0.1, 256, 1e-4, "steps", 10, None, (30, 60, 80, 90)),
    "bic_correction": (200, 0.1, 256, 0.0, "steps", 10, None, (60, 120, 160, 180)),
    "lucir": (160, 0.1, 128, 5e-4, "steps", 10, None, (80, 120)),
    "wa": (250, 0.1, 128, 2e-4, "steps", 10, None, (100, 150, 200)),
    "podnet": (160, 0.1, 128, 5e-4, "cosine", 10, None, ()),
    "podnet_classifier": (20, 0.05, 128, 5e-4, "steps", 10, None, ()),
    "threshold_moving": (70, 0.02, 64, 5e-3, "steps", 5, None, (45, 60, 68)),
    "der": (170, 0.1, 128, 5e-4, "steps", 10, None, (100, 120)),
    "der_classifier": (30, 0.1, 128, 5e-4, "steps", 10, None, (15,)),
    "m2kd": (160, 0.1, 128, 5e-4, "steps", 10, None, (80, 120)),
    "m2kd_pruned": (20, 0.01, 128, 5e-4, "steps", 10, None, (10,)),
    "fearnet_base": (1000, 2e-3, 450, 5e-4, "steps", 10, None, ()),
    "fearnet_sleep": (60, 2e-3, 450, 5e-4, "steps", 10, None, ()),
    "der_pruned": (170, 0.1, 128, 5e-4, "steps", 10, None, (100, 120)),
    "packnet": (20, 0.001, 32, 5e-4, "steps", 10, None, (10,)),
    "packnet_retraining": (10, 0.001, 32, 5e-4, "steps", 10, None, (5,)),
    "progressive": (300, 0.1, 128, 5e-4, "plateau", 10, 60, ()),
    "growing_brain": (60, 0.1, 128, 5e-4, "plateau", 10, 15, ()),
    "generative_replay": (70, 0.1, 128, 2e-3, "steps", 5, None, (49, 63)),
    "generator": (6400, 1e-3, 64, 0.0, "steps", 10, None, ()),
}
BIC = {
    "bic_first": (250, 0.1, 128, 2e-4, "steps", 10, None, (100, 150, 200)),
    "bic": (250, 0.1, 128, 2e-4, "steps", 10, None, (100, 150, 200)),
    "bic_correction": (500, 0.1, 128, 0.0, "steps", 10, None, (200, 300, 400)),
}


@pytest.mark.parametrize(
    ("experiment", "table"),
    [
        (paper("ilsvrc"), LARGE),
        (paper("my/folder"), LARGE),
        (paper("cifar100"), SMALL),
        (paper_224(), SMALL),
        (paper_bic(), SMALL | BIC),
        (paper_bic("ilsvrc"), LARGE),
    ],
)
def test_paper_has_every_number_of_the_papers_table(experiment, table):
    for name, (epochs, lr, batch, decay, way, divide, patience, milestones) in table.items():
        found = experiment.recipe.schedules[name]
        assert (found.epochs, found.lr, found.batch_size, found.weight_decay) == (epochs, lr, batch, decay), name
        assert (found.decay, found.divide_by, found.milestones, found.momentum) == (way, divide, milestones, 0.9), name
        assert patience is None or found.patience == patience, name
        assert found.divide_by_state == (name in ("later", "balanced", "growing_brain")), name


def test_the_weights_of_distillation_terms_are_those_of_their_papers():
    for dataset, lucir, podnet in (("ilsvrc", (10,), (10, 8)), ("cifar100", (5,), (1, 3))):
        found = paper(dataset).recipe.schedules
        assert (found["lucir"].distillation, found["podnet"].distillation) == (lucir, podnet)
        assert found["wa"].distillation == found["podnet_classifier"].distillation == ()
        assert found["threshold_moving"].distillation == (1, 2)
        assert found["der_classifier"].weights((5.0,)) == ((1.0,) if dataset == "ilsvrc" else (5.0,))


def test_network_size_and_order_of_the_papers_recipe():
    for name in ("ilsvrc", "vggface2", "landmarks"):
        asked = paper(name)
        assert (asked.recipe.network, asked.data.image_size) == ("resnet18", 224)
        assert (asked.stream.class_order, asked.data.split) == ("icarl", "icarl")
    assert (paper("cifar100").recipe.network, paper("cifar100").data.image_size) == ("resnet18-3x3", None)
    small = paper_224()
    assert (small.recipe.network, small.data.image_size, small.dataset) == ("resnet18", 224, "cifar100")
    assert quick("ilsvrc").data.image_size is None


@pytest.mark.parametrize(("dataset", "batch"), [("ilsvrc", 256), ("cifar100", 128)])
def test_paper_code_differs_from_paper_in_summed_micro_batches_of_32_alone(dataset, batch):
    paper_recipe, code = paper(dataset).record(), paper_code(dataset).record()
    for name in ("first_schedule", "later_schedule", "balanced_schedule"):
        assert code[name] == paper_recipe[name] | {"micro_batch": 32, "sum_micro_batches": True}
        assert code[name]["batch_size"] == batch
        paper_recipe[name] = code[name]
    assert code == paper_recipe | {"recipe": "paper-code"}
    assert not code["keep_past_rows"]  # the layer is a fresh one in every state


def test_bics_weight_decay_in_the_paper_goes_by_the_number_of_states():
    for dataset in ("cifar100", "ilsvrc"):
        for states, sizes in ((20, 20), (10, (50, *[5] * 9))):
            found = paper(dataset).but(states=sizes).trained_schedules
            assert (found["bic"].weight_decay_states, found["first"].weight_decay_states) == (states, 0)
            assert weight_decay(found["bic"], 4) == pytest.approx(1e-4 * states / 5)
    assert weight_decay(paper().recipe.schedules["bic"], 4) == 1e-4  # where no number of states is known


def test_a_recipes_states_and_memory_count_where_none_are_given():
    found = experiment_of(RunOptions(dataset="mnist", recipe="split-mnist"))
    assert (found.stream.states, found.exemplars.memory) == (5, "100/class")
    found = experiment_of(RunOptions(dataset="mnist", recipe="split-mnist", states="2", memory="1%"))
    assert (found.stream.states, found.exemplars.memory) == (2, "1%")
    assert (experiment_of(RunOptions()).stream.states, experiment_of(RunOptions()).exemplars.memory) == (10, "2%")


def test_split_mnist_trains_as_its_numbers_were_published():
    """Some 2000 batches of 128 in each state, by Adam at 0.001, with nothing that lowers the rate."""
    found = experiment_of(RunOptions(dataset="mnist", recipe="split-mnist")).trained_schedules
    assert found["first"] == found["later"] == replace(found["distill"], distillation=())
    assert found["distill"].distillation == (2,)  # iCaRL's temperature
    one = found["later"]
    assert (one.optimizer, one.lr, one.momentum, one.weight_decay) == ("adam", 0.001, 0.9, 0)
    assert (one.decay, one.milestones, one.batch_size) == ("steps", (), 128)
    images = (12_665, 12_089, 11_263, 12_183, 11_800)  # of digits 0 and 1, of 2 and 3, and so on
    batches = [one.epochs * -(-of // one.batch_size) for of in images]
    assert sum(batches) / 5 == pytest.approx(2000, rel=0.02)


def test_an_optimizer_is_in_a_record_only_where_it_is_another_than_sgd():
    plain, adam = Schedule(3, 0.1, 32), Schedule(3, 0.1, 32, optimizer="adam")
    assert "optimizer" not in plain.record() and adam.record() == plain.record() | {"optimizer": "adam"}
    with pytest.raises(ValueError, match="optimizer is 'adamw', expected one of sgd, adam"):
        Schedule(3, 0.1, 32, optimizer="adamw")
    with pytest.raises(ValueError, match=r"later\.optimizer=lion: expected one of sgd, adam after ="):
        experiment_of(RunOptions(schedule="later.optimizer=lion"))


def test_a_schedule_without_micro_batches_is_kept_as_it_was_before_there_were_any():
    """So that stored states and kept numbers are found again."""
    plain, small = Schedule(3, 0.1, 32), Schedule(3, 0.1, 32, micro_batch=8)
    assert not {"micro_batch", "sum_micro_batches"} & plain.record().keys()
    assert small.record() == plain.record() | {"micro_batch": 8}
    assert decode(Schedule, json.loads(json.dumps(small.record())), "it") == small
    for wrong in ({"micro_batch": -1}, {"sum_micro_batches": True}):
        with pytest.raises(ValueError, match="micro batch is"):
            Schedule(3, 0.1, 32, **wrong)


def test_a_backbone_that_learns_as_quickly_as_the_layer_is_not_mentioned():
    """So that stored states and kept numbers are found again."""
    plain, slow = Schedule(3, 0.1, 32), Schedule(3, 0.1, 32, backbone_rate=0.1)
    assert "backbone_rate" not in plain.record() and slow.record() == plain.record() | {"backbone_rate": 0.1}
    assert decode(Schedule, json.loads(json.dumps(slow.record())), "it") == slow
    for wrong in (0, -1, float("inf"), float("nan")):
        with pytest.raises(ValueError, match="backbone rate is"):
            Schedule(3, 0.1, 32, backbone_rate=wrong)


def test_a_batch_on_every_device_does_not_raise_the_rate_where_gradients_are_summed():
    schedules = paper_code("cifar100").recipe.schedules.scaled(4)
    assert (schedules["first"].batch_size, schedules["first"].lr) == (512, 0.1)
    assert (schedules["distill"].batch_size, schedules["distill"].lr) == (512, 8.0)


def test_scail_recipes_lists_and_shows_them(capsys):
    for asked in (["recipes"], ["recipes", "show", "paper", "--dataset", "ilsvrc"], ["recipes", "quick"]):
        with pytest.raises(SystemExit) as ended:
            main(asked)
        assert ended.value.code == 0
        out = capsys.readouterr().out
        if asked == ["recipes"]:
            assert [line.split()[0] for line in out.splitlines()] == list(RECIPES)
        else:
            shown = json.loads(out)
            assert shown["recipe"] == asked[-1 if len(asked) == 2 else 2]
    assert json.loads(out)["first_schedule"]["epochs"] == quick().recipe.schedules["first"].epochs
    for wrong in (["recipes", "show"], ["recipes", "show", "best"], ["recipes", "show", "paper", "quick"]):
        with pytest.raises(SystemExit) as ended:
            main(wrong)
        assert ended.value.code == 2 and "known: quick, cifar100-cpu, paper, paper-224" in capsys.readouterr().err


def test_every_trainer_says_what_its_pretrained_start_was():
    """Else a state that began with weights would be taken for one that did not."""
    fresh = pretrained("cifar100").but(weights=None)
    for trainer in set(TRAINERS.values()):
        said = [
            trainer_of(trainer, one.recipe, one.recipe.schedules, 10).settings(0)
            for one in (fresh, pretrained("cifar100"))
        ]
        assert said[0] != said[1], trainer.title


def test_the_pretrained_recipe_moves_a_pretrained_network_slowly():
    small, files = pretrained("cifar100"), pretrained("photos")
    assert (small.recipe.network, small.data.image_size) == ("efficientnet-lite0@64", None)
    assert (files.recipe.network, files.data.image_size) == ("efficientnet-lite0", 128)
    for name in ("first", "later", "bic", "bic_first", "balanced"):
        schedule = small.recipe.schedules[name]
        assert schedule.lr <= quick().recipe.schedules["first"].lr / 10 and not schedule.divide_by_state


def test_a_classifier_trains_longer_on_few_images_and_slower_from_given_weights():
    few, many = learning(100, 32, "resnet8").recipe, learning(100_000, 32, "resnet8").recipe
    assert few.keep_past_rows
    longest = few.schedules["first"].most_epochs(100), many.schedules["first"].most_epochs(100_000)
    assert longest == (150, 16)
    assert few.schedules["later"].lr == 0.05 and not few.schedules["later"].divide_by_state
    started, fresh = (learning(100, 32, "resnet18", started=yes).recipe.schedules for yes in (True, False))
    assert started["first"].lr == pytest.approx(0.1 * fresh["first"].lr)
    assert [learning(1, pixels, "resnet8").recipe.padding for pixels in (8, 20, 224)] == [1, 2, 4]


def test_everything_of_a_schedule_can_be_set():
    asked = RunOptions(schedule="later.decay=steps,later.milestones=30+60,later.divide-by-state=no,distill.lr=2")
    found = experiment_of(asked).recipe.schedules
    assert (found["later"].decay, found["later"].milestones, found["later"].divide_by_state) == (
        "steps",
        (30, 60),
        False,
    )
    assert found["distill"].lr == 2
    assert experiment_of(RunOptions(schedule="first.divide_by_state=yes")).recipe.schedules["first"].divide_by_state
    for field in fields(Schedule):  # none is left out
        text = {
            "decay": "cosine", "milestones": "1+2", "divide_by_state": "no", "momentum": "0.5", "gain": "0.5",
            "sum_micro_batches": "no", "distillation": "1+2", "pruned": "0.5", "optimizer": "adam",
        }.get(field.name, "3")  # fmt: skip
        changed = experiment_of(RunOptions(schedule=f"later.{field.name}={text}")).recipe.schedules["later"]
        assert str(getattr(changed, field.name)).lower() in (
            text, "(1, 2)", "(1.0, 2.0)", "false", "3.0",
        )  # fmt: skip


def test_names_are_read_from_a_text_and_from_a_list_as_the_command_line_reads_them():
    named = Experiment(dataset="digits", methods="ft, scail", exemplars=ExemplarSettings(select="random"))
    assert (named.methods, named.exemplars.select) == (("ft", "scail"), ("random",))
    assert named == Experiment(dataset="digits").but(methods=["ft", "scail"], select=["random"])
    assert hash(named) == hash(named.but(seed=1))
