"""A run's table in sentences."""

from __future__ import annotations

from scail.report.in_words import in_words


def record(method, label, top5, select="random", memory=200, learned=True, classes=100):
    state = {"state": 1, "classes": classes, "learned": learned}
    return {
        "method": method, "label": label, "select": select, "memory": memory, "top5": top5, "top1": top5 / 2,
        "per_state": [state],
    }  # fmt: skip


def summary(*records, full=98.0, seeds=(1, 2, 3)):
    return {"methods": list(records), "full": {"top1": 90.0, "top5": full}, "seeds": list(seeds)}


FT, NEM = record("ft", "FT", 60.0), record("ft_nem", "FT^NEM", 90.0)


def test_it_says_what_is_so_whatever_the_order():
    above = in_words(summary(FT, NEM, record("scail", "ScaIL", 75.5)))
    assert above == [
        "The best is FT^NEM with 90.0 % top-5. Full, which has all data at once, has 98.0 %: 8.0 points higher.",
        "FT does nothing against forgetting and has 60.0 %. ScaIL, without another training, has 75.5 %: "
        "15.5 points higher.",
    ]
    assert in_words(summary(FT, record("scail", "ScaIL", 58.0)))[1].endswith("has 58.0 %: 2.0 points lower.")
    assert in_words(summary(FT, record("scail", "ScaIL", 60.2)))[1].endswith("has 60.2 %: about level.")


def test_selections_are_told_apart_and_compared():
    both = [record("scail", "ScaIL", 75.0), record("scail", "ScaIL", 78.0, "herding")]
    said = in_words(summary(FT, *both))
    assert (
        "The best is ScaIL, herding exemplars, with 78.0 %" in said[0]
        and said[-1] == "Herding helps ScaIL by 3.0 points."
    )
    both[1]["top5"] = 74.8
    assert in_words(summary(FT, *both))[-1] == "Herding makes no difference to ScaIL."


def test_nothing_is_said_of_what_did_not_learn_nor_of_what_has_no_memory():
    broken = record("ft", "FT", 60.0, learned=False)
    said = in_words(summary(broken, NEM, record("lwf", "LwF", 99.0, None, memory=0), record("scail", "ScaIL", 75.0)))
    assert len(said) == 1 and "FT^NEM" in said[0] and "LwF" not in said[0]
    assert in_words(summary(broken)) == []


def test_few_classes_are_read_by_top_1_and_one_seed_is_called_one():
    said = in_words(summary(record("ft", "FT", 60.0, classes=10), record("scail", "ScaIL", 70.0, classes=10), seeds=()))
    assert "has 30.0 %. ScaIL" in said[1] and "top-1" in said[0] and said[-1].startswith("This is one seed")
