"""`scail completion`: what a shell needs to complete commands and options. Made of the table of commands."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Annotated, Any, Literal, get_type_hints

import tyro

Shell = Literal["bash", "zsh", "fish"]


@dataclass(frozen=True)
class CompletionCommand:
    """Print what your shell needs to complete commands, options and file names.

    Write it where the shell looks for it. For bash that is ~/.local/share/bash-completion/completions/scail, for fish
    ~/.config/fish/completions/scail.fish. For zsh, append it to ~/.zshrc.

      scail completion bash
    """

    shell: Annotated[Shell, tyro.conf.Positional]
    """Which shell."""

    def __call__(self) -> None:
        """Print it."""
        from scail.cli.main import COMMANDS, command_of

        options = {name: _options(command_of(name)) for name in COMMANDS}
        if self.shell == "fish":
            print("\n".join(_fish(options, {name: row.summary for name, row in COMMANDS.items()})))
            return
        if self.shell == "zsh":
            print("autoload -U +X compinit && compinit\nautoload -U +X bashcompinit && bashcompinit")
        print("\n".join(_bash(options)))


def _options(command: Any) -> list[str]:
    """All but what goes by its place."""
    from scail.cli.parsing import options_of

    hints = get_type_hints(command, include_extras=True)
    placed = [name for name, hint in hints.items() if tyro.conf.Positional in getattr(hint, "__metadata__", ())]
    known = ["--help", *options_of(command)]
    return [option for option in dict.fromkeys(known) if option.removeprefix("--") not in placed]


def _bash(options: dict[str, list[str]]) -> Iterator[str]:
    """Zsh understands it, too."""
    yield "_scail() {"
    yield '  local word="${COMP_WORDS[COMP_CWORD]}" words=""'
    yield "  COMPREPLY=()"
    yield '  if [ "$COMP_CWORD" -eq 1 ]; then'
    yield f'    words="{" ".join([*options, "help", "--help", "--version"])}"'
    yield '  elif [ "$COMP_CWORD" -eq 2 ] && [ "${COMP_WORDS[1]}" = help ]; then'
    yield f'    words="{" ".join(options)}"'
    yield '  elif [ "${word#-}" != "$word" ]; then'
    yield '    case "${COMP_WORDS[1]}" in'
    yield from (f'      {name}) words="{" ".join(known)}" ;;' for name, known in options.items())
    yield "    esac"
    yield "  fi"
    yield '  COMPREPLY=($(compgen -W "$words" -- "$word"))'
    yield "}"
    yield "complete -o default -F _scail scail"  # file names, where nothing else is known


def _fish(options: dict[str, list[str]], summaries: dict[str, str]) -> Iterator[str]:
    for name, known in options.items():
        yield f"complete -c scail -f -n __fish_use_subcommand -a {name} -d {shlex.quote(summaries[name])}"
        seen = shlex.quote(f"__fish_seen_subcommand_from {name}")
        yield from (f"complete -c scail -n {seen} -l {option.removeprefix('--')}" for option in known)
