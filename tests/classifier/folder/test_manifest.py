"""The experiment in a manifest: a flat record, each value of it checked."""

from __future__ import annotations

import json
import math

from hypothesis import given
from hypothesis import strategies as st

from scail.classifier.folder.manifest import _experiment
from scail.config.recipes import quick
from tests.storage.test_records import JSON


@given(st.data())
def test_an_experiment_with_one_strange_value_is_an_experiment_or_a_clear_error(data):
    record = json.loads(json.dumps(quick("digits").record()))
    assert _experiment(record) == quick("digits")
    inside = data.draw(st.sampled_from([record, record["later_schedule"]]))
    inside[data.draw(st.sampled_from(sorted(inside)))] = data.draw(JSON)
    try:
        found = _experiment(record)
    except ValueError as error:
        assert str(error) and "__init__" not in str(error)
    else:
        back = json.loads(json.dumps(found.record()))
        assert back == record or any(math.isnan(v) for v in inside.values() if isinstance(v, float))
