"""The API keeps to its own description: asked everything that it allows, and more."""

from __future__ import annotations

import hypothesis
import pytest

schemathesis = pytest.importorskip("schemathesis", reason="schemathesis is not installed")

from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)
from starlette.testclient import TestClient  # noqa: E402

from scail.server.app import make_app  # noqa: E402
from scail.server.settings import ServerSettings  # noqa: E402
from tests.server.serving import eventually, images  # noqa: E402

pytestmark = pytest.mark.filterwarnings("ignore")
CHECKS = [not_a_server_error, status_code_conformance, content_type_conformance, response_schema_conformance]
EXPECTED = {503: "too many jobs are waiting", 507: "the disk is full"}
"""What the description names; neither is a mistake of the server."""


def test_the_description(client):
    api = client.get("/openapi.json").json()
    assert {"/v1/predict", "/v1/learn", "/v1/jobs/{id}", "/v1/classes", "/healthz", "/metrics"} <= set(api["paths"])
    assert set(api["paths"]["/v1/predict"]["post"]["requestBody"]["content"]) == {
        "multipart/form-data", "application/octet-stream",
    }  # fmt: skip
    assert "openapi.json" in client.get("/docs").text


@pytest.fixture
def api(model, monkeypatch):
    monkeypatch.setattr("scail.server.service.Service._see_to_tutor", lambda service: None)
    app = make_app(ServerSettings(model, inbox=5))
    with TestClient(app):
        yield schemathesis.openapi.from_asgi("/openapi.json", app, headers={"Host": "localhost"})


def check_all(api, examples: int) -> None:
    asked = 0
    for result in api.get_all_operations():
        operation = result.ok()
        if operation.path.endswith("/events"):
            continue

        @hypothesis.settings(
            max_examples=examples, deadline=None, database=None, derandomize=True,
            suppress_health_check=list(hypothesis.HealthCheck), phases=[hypothesis.Phase.generate],
        )  # fmt: skip
        @hypothesis.given(case=operation.as_strategy())
        def one(case) -> None:
            nonlocal asked
            case.headers = {**(case.headers or {}), "Host": "localhost"}
            response = case.call()
            asked += 1
            if response.status_code not in EXPECTED:
                case.validate_response(response, checks=CHECKS)

        one()
    assert asked >= 15 * examples // 2


def test_it_keeps_to_it(api):
    check_all(api, 8)


@pytest.mark.soak
def test_it_keeps_to_it_when_asked_a_thousand_things(api):
    check_all(api, 80)


def test_metrics(client):
    client.post("/v1/predict", files=images("red", "dots"))
    client.post("/v1/predict", content=b"bad")
    client.get("/a/path/of/somebody's")
    text = eventually(lambda: client.get("/metrics").text)
    assert 'scail_requests_total{method="POST",route="/v1/predict",status="200"} 1' in text
    assert "scail_images_answered_total 2" in text and "scail_images_unreadable_total 1" in text
    assert "scail_classes 3" in text and "somebody" not in text
    assert 'scail_request_seconds_bucket{route="/v1/predict",le="+Inf"} 2' in text
