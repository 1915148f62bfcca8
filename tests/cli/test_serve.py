"""`scail serve`: its options, and what it says where something is missing."""

from __future__ import annotations

import sys

import pytest

from scail.cli.main import main


def said(capsys, *words: str) -> str:
    with pytest.raises(SystemExit) as ended:
        main(["serve", *words])
    assert ended.value.code == 2
    return capsys.readouterr().err


def test_what_is_missing_is_named(capsys, monkeypatch):
    with monkeypatch.context() as patched:
        patched.setitem(sys.modules, "python_multipart", None)
        assert "pip install 'scail[serve]'" in said(capsys, "pets")
    pytest.importorskip("fastapi")
    assert "or --demo" in said(capsys)
    assert "or --demo" in said(capsys, "pets", "--demo")


def test_an_address_for_others_needs_a_token(capsys, monkeypatch, tmp_path):
    pytest.importorskip("fastapi")
    monkeypatch.delenv("SCAIL_TOKEN", raising=False)
    assert "needs a token" in said(capsys, str(tmp_path / "m"), "--host", "0.0.0.0")
    assert "port 70000" in said(capsys, str(tmp_path / "m"), "--port", "70000")
    assert "inbox -1" in said(capsys, str(tmp_path / "m"), "--inbox", "-1")
    assert not (tmp_path / "m").exists()
