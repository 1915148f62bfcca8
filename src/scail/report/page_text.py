"""The words and facts of the page: what was run, on what, how long, and how to run it again."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from html import escape
from typing import Any

from scail.report.protocol import Column, Comparison
from scail.report.runs import FinishedRun
from scail.report.tabular import html_label
from scail.results.summary import not_learned

Fact = tuple[str, str, str]
"""Name, value, and more on it."""


def headline(comparisons: Sequence[Comparison]) -> str:
    """What the report is about."""
    names = list(dict.fromkeys(run.config["dataset"]["name"] for run in _runs(comparisons)))
    configs = [config for one in comparisons for config in one.configurations]
    if len(configs) > 1:
        return f"{', '.join(names)}: {len(configs)} configurations"
    only = configs[0]
    classes = len(only.runs[0].config["class_order"])
    return f"{names[0]}: {classes} classes in {only.states} states"


def lead(configurations: Sequence[Column]) -> str:
    """The result in a sentence or two, as HTML; nothing is said of what did not learn."""
    if len(configurations) > 1:
        count = sum(len(config.runs) for config in configurations)
        return f"{count} runs of {len(configurations)} configurations. What can be compared stands in one table."
    summary = configurations[0].summary
    texts, learned = [], [record for record in summary["methods"] if not not_learned(record)]
    for name, title in (("top5", "top-5"), ("top1", "top-1")):
        best = max(learned, key=lambda record: record[name], default=None)
        if best:
            last = best["per_state"][-1][name]
            full = f" (Full, trained on all of them at once: {summary['full'][name]:.1f} %)" if summary["full"] else ""
            texts.append(
                f"Best {title}: <strong>{_named(best)}</strong>, {best[name]:.1f} % in the mean over the incremental "
                f"states and {last:.1f} % after the last one, on all classes{full}."
            )
    pairs = [_pair(learned, select) for select in ("herding", "random", None)]
    if pair := next((pair for pair in pairs if pair), None):
        ft, scail = pair
        texts.append(
            f"ScaIL moves FT from {ft['top1']:.1f} to {scail['top1']:.1f} % top-1 and from {ft['top5']:.1f} to "
            f"{scail['top5']:.1f} % top-5, in the mean, without more training."
        )
    if unlearned := [_named(record) for record in summary["methods"] if not_learned(record)]:
        texts.append(
            f"Not everything learned: {len(unlearned)} of {len(summary['methods'])} rows, marked †, come from networks "
            "that do not know their own exemplars, or only the newest classes."
        )
    return " ".join(texts)


def _pair(
    records: Sequence[Mapping[str, Any]], select: str | None
) -> tuple[Mapping[str, Any], Mapping[str, Any]] | None:
    """FT and ScaIL with the same exemplars."""
    found = {record["method"]: record for record in records if record["select"] == select}
    return (found["ft"], found["scail"]) if "ft" in found and "scail" in found else None


def _named(record: Mapping[str, Any]) -> str:
    label = html_label(record["label"] + ("" if record["in_paper"] else "*"))
    return f"{label}, {escape(str(record['select']))} exemplars" if record["select"] else label


def facts(config: Column) -> list[Fact]:
    """What was run, on what, how long, and how many images were kept."""
    run, summary = config.runs[0], config.summary
    data, sizes, network = run.config["dataset"], run.config["state_sizes"], run.config.get("network", {})
    shape = " x ".join(map(str, data["shape"]))
    new = f"{min(sizes)} to {max(sizes)}" if len(set(sizes)) > 1 else str(sizes[0])
    share = 100 * config.memory / data["train_images"]
    epochs = sum(run.summary.get("trained_epochs", 0) for run in config.runs)
    seconds = sum(run.summary.get("seconds", 0.0) for run in config.runs)
    methods = {record["method"] for record in summary["methods"]}
    full = "and Full" if summary["full"] else "Full was not trained in this run: no gap to it"
    seeds = f"; seeds {', '.join(str(run.seed) for run in config.runs)}" if len(config.runs) > 1 else ""
    return [
        ("Data", data["name"], f"{data['train_images']:,} training and {data['test_images']:,} test images; {shape}"),
        ("States", str(config.states), f"of {new} new classes, {sum(sizes)} classes in all"),
        ("Images kept", f"{summary.get('exemplars', 0):,}", f"in a memory of {config.memory:,}, {share:.3g} % of all"),
        ("Methods", str(len(methods)), full + seeds),
        ("Network", str(run.config["experiment"]["network"]), _network(network)),
        ("Time", duration(seconds), f"{epochs:,} epochs trained" if epochs else "every state came from the store"),
    ]  # fmt: skip


def _network(network: Mapping[str, Any]) -> str:
    if not network:
        return "not described"
    return f"{network['feature_size']} features, {network['parameters']:,} parameters"


def duration(seconds: float) -> str:
    """A time as people say it.

    >>> duration(40), duration(600), duration(7200)
    ('40 s', '10.0 min', '2.0 h')
    """
    if seconds >= 5400:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 60:.1f} min" if seconds >= 100 else f"{seconds:.0f} s"


def provenance(comparisons: Sequence[Comparison]) -> str:
    """Protocol, where each number comes from, and the commands, as HTML."""
    parts = []
    for one in comparisons:
        heading = f"<h3>{escape(one.title)}</h3>" if len(comparisons) > 1 else ""
        parts.append(heading + _definitions(one.protocol))
    parts.append("<h3>To run it again</h3>")
    parts.append("".join(map(_command, dict.fromkeys(run.command for run in _runs(comparisons)))))
    parts.append(f"<h3>Runs</h3>{_run_table(_runs(comparisons))}")
    missing = {text for run in _runs(comparisons) for text in run.missing}
    if missing:
        parts.append(f'<p class="note">Not recorded in every run: {escape(", ".join(sorted(missing)))}.</p>')
    for one in comparisons:
        for config in one.configurations:
            settings = json.dumps(config.runs[0].config["experiment"], indent=1, ensure_ascii=False)
            title = f"All settings of {one.title}: {config.title}"
            parts.append(f"<details><summary>{escape(title)}</summary><pre>{escape(settings)}</pre></details>")
    return "".join(parts)


def _command(command: str | None) -> str:
    if command is None:
        return "<p>From Python: <code>scail.run_experiment</code> with the settings below.</p>"
    copy = '<button type="button" data-copy data-needs-script>Copy</button>'
    return f'<div class="command"><pre tabindex="0">{escape(command)}</pre>{copy}</div>'


def _definitions(values: Mapping[str, str]) -> str:
    rows = "".join(f'<tr><th scope="row">{escape(k)}</th><td>{escape(v)}</td></tr>' for k, v in values.items())
    return f'<div class="scroll"><table class="text"><tbody>{rows}</tbody></table></div>'


def _run_table(runs: Sequence[FinishedRun]) -> str:
    """What all runs have in common once, and the rest in a row for each."""
    records = [_provenance_of(run) for run in runs]
    names = list(dict.fromkeys(name for record in records for name in record))
    same = {name: records[0].get(name, "–") for name in names if len({r.get(name, "–") for r in records}) == 1}
    rest = [name for name in names if name not in same]
    if not rest:
        return _definitions(same)
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in rest)
    body = "".join(
        "<tr>" + "".join(f"<td>{escape(record.get(name, '–'))}</td>" for name in rest) + "</tr>" for record in records
    )
    table = f'<table class="text"><thead><tr>{heads}</tr></thead><tbody>{body}</tbody></table>'
    return f'{_definitions(same)}<div class="scroll" tabindex="0" role="region" aria-label="Runs">{table}</div>'


def _provenance_of(run: FinishedRun) -> dict[str, str]:
    """A run's origin, name by name; the protocol is told elsewhere."""
    recorded = {**run.config.get("provenance", {}), **(run.rows[0].provenance if run.rows else {})}
    known = {
        name.replace("_", " "): str(value) for name, value in recorded.items() if name not in ("averaging", "split")
    }
    first = {"folder": run.path.as_posix(), "seed": str(run.seed), "started": str(run.config.get("started", "–"))}
    return {**first, "seconds": f"{run.summary.get('seconds', 0):.0f}", **known}


def _runs(comparisons: Sequence[Comparison]) -> list[FinishedRun]:
    return [run for one in comparisons for config in one.configurations for run in config.runs]
