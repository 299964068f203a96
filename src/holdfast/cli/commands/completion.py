"""`holdfast completion`: what a shell needs to complete command lines by itself.

The script is made of the commands' own parsers: what they understand is what is completed.
Everything in it is ours, words of lower case and dashes; nothing is asked when it is used.
"""

import re
from argparse import ArgumentParser, Namespace
from collections.abc import Iterator, Mapping
from typing import Final

from holdfast.cli.commands import COMMANDS, is_there
from holdfast.cli.console import Console
from holdfast.cli.exits import DONE

EXAMPLES = """\
examples:
  holdfast completion bash > ~/.local/share/bash-completion/completions/holdfast
  holdfast completion zsh > ~/.zfunc/_holdfast       (with fpath+=~/.zfunc before compinit)
  holdfast completion fish > ~/.config/fish/completions/holdfast.fish
  eval "$(holdfast completion bash)"                 in this shell alone
"""

_WORD: Final = re.compile(r"[a-z][a-z-]*|--?[a-zA-Z][a-z-]*")
"""What may stand in a script: nothing that a shell would read as more than a word."""


def configure(parser: ArgumentParser) -> None:
    """Adds what the command understands."""
    parser.description = "Prints what makes a shell complete commands and options."
    parser.epilog = EXAMPLES
    parser.add_argument(
        "shell", metavar="SHELL", choices=("bash", "zsh", "fish"), help="bash, zsh or fish"
    )


def run(arguments: Namespace, console: Console) -> int:
    """Does it; returns the exit code."""
    options = {name: _options_of(name, console) for name in COMMANDS if is_there(name)}
    make = {"bash": _bash, "zsh": _zsh, "fish": _fish}[arguments.shell]
    console.answer(
        document=lambda: {"shell": arguments.shell, "script": "\n".join(make(options)) + "\n"},
        lines=lambda: make(options),
    )
    return DONE


def _options_of(name: str, console: Console) -> list[str]:
    """Returns the options of a command, and the words that it takes in place of a name."""
    from holdfast.cli.app import Parser, load  # noqa: PLC0415 - who loads us is above us

    words = list[str]()
    for action in Parser(name, console, load(name))._actions:  # noqa: SLF001 - argparse tells nobody else
        words += action.option_strings or [str(each) for each in action.choices or ()]
    return [word for word in words if _WORD.fullmatch(word)]


def _bash(options: Mapping[str, list[str]]) -> Iterator[str]:
    yield "_holdfast() {"
    yield "    local word=${COMP_WORDS[COMP_CWORD]} command= at"
    yield "    for ((at = 1; at < COMP_CWORD; at++)); do"
    yield "        case ${COMP_WORDS[at]} in"
    yield "            -C|--data|--objects) ((at++)) ;;"
    yield "            -*) ;;"
    yield "            *) command=${COMP_WORDS[at]}; break ;;"
    yield "        esac"
    yield "    done"
    yield "    local words="
    yield "    case $command in"
    yield f'        "") words="{" ".join(options)}" ;;'
    yield f'        help) words="{" ".join(options)}" ;;'
    for name, those in options.items():
        if name != "help":
            yield f'        {name}) words="{" ".join(those)}" ;;'
    yield "    esac"
    yield '    COMPREPLY=($(compgen -W "$words" -- "$word"))'
    # Where no word of ours fits, it is the name of a file.
    yield "    [[ -n $command && ${#COMPREPLY[@]} -eq 0 ]] && compopt -o default"
    yield "    return 0"
    yield "}"
    yield "complete -F _holdfast holdfast"


def _zsh(options: Mapping[str, list[str]]) -> Iterator[str]:
    yield "#compdef holdfast"
    yield "_holdfast() {"
    yield "    local command= at"
    yield "    for ((at = 2; at < CURRENT; at++)); do"
    yield "        case ${words[at]} in"
    yield "            -C|--data|--objects) ((at++)) ;;"
    yield "            -*) ;;"
    yield "            *) command=${words[at]}; break ;;"
    yield "        esac"
    yield "    done"
    yield "    case $command in"
    yield '        ""|help) local -a names; names=('
    yield from (f"            '{name}:{COMMANDS[name]}'" for name in options)
    yield "            ); _describe command names ;;"
    for name, those in options.items():
        if name != "help":
            yield f"        {name}) compadd -- {' '.join(those)}; _files ;;"
    yield "    esac"
    yield "}"
    yield 'if [ "$funcstack[1]" = "_holdfast" ]; then _holdfast "$@"'
    yield "else compdef _holdfast holdfast; fi"


def _fish(options: Mapping[str, list[str]]) -> Iterator[str]:
    begin = "complete -c holdfast -n __fish_use_subcommand -f"
    yield from (f"{begin} -a {name} -d '{COMMANDS[name]}'" for name in options)
    for name, those in options.items():
        of = f"complete -c holdfast -n '__fish_seen_subcommand_from {name}'"
        for word in those:
            kind = f"-l {word[2:]}" if word.startswith("--") else f"-s {word[1:]}"
            yield f"{of} {kind}" if word.startswith("-") else f"{of} -f -a {word}"
    yield f"complete -c holdfast -n '__fish_seen_subcommand_from help' -f -a '{' '.join(options)}'"
