"""Completion, in the shells themselves."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from scail.cli.main import COMMANDS, main


def script(capsys, shell: str) -> str:
    with pytest.raises(SystemExit) as end:
        main(["completion", shell])
    assert not end.value.code
    return capsys.readouterr().out


def completed(capsys, shell: str, *words: str) -> set[str]:
    """What the shell offers for the last word."""
    if shutil.which(shell) is None:
        pytest.skip(f"{shell} is not on this machine")
    text = script(capsys, shell)
    if shell == "fish":
        ask = f"{text}\ncomplete -C '{' '.join(words)}'"
        options = ["--no-config"]
    else:
        if shell == "zsh":  # its widget needs a terminal; this is how it calls the function
            text = "\n".join(["autoload -U +X bashcompinit && bashcompinit", *text.splitlines()[2:-1]])
            text += "\nemulate sh; setopt kshglob noshglob braceexpand"
        listed = " ".join(f"'{word}'" for word in words)
        asked = f"COMP_WORDS=({listed})\nCOMP_CWORD={len(words) - 1}\n_scail"
        ask = f'{text}\n{asked}\nprintf "%s\\n" "${{COMPREPLY[@]}}"'
        options = ["--norc"] if shell == "bash" else ["-f"]
    done = subprocess.run([shell, *options, "-c", ask], capture_output=True, text=True, check=True, timeout=60)
    assert not done.stderr, done.stderr
    found = {line.partition("\t")[0] for line in done.stdout.splitlines() if line}
    # zsh itself leaves out what does not begin like the word
    return {one for one in found if one.startswith(words[-1])} if shell == "zsh" else found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_commands_and_options(capsys, shell):
    assert completed(capsys, shell, "scail", "pre") == {"predict", "prepare"}
    assert set(COMMANDS) <= completed(capsys, shell, "scail", "")
    assert completed(capsys, shell, "scail", "learn", "--back") == {"--backbone", "--backbone-weights"}
    assert "--private" in completed(capsys, shell, "scail", "push", "pets", "--p")


def test_the_shell_can_read_it_all(capsys):
    text = script(capsys, "bash")
    assert subprocess.run(["bash", "-n"], input=text, text=True, capture_output=True, check=True).stderr == ""
    assert text.rstrip().endswith("complete -o default -F _scail scail")
