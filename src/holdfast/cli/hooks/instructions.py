"""What an agent has to know to go back by itself: a page for its own rules."""

from typing import Final

INSTRUCTIONS: Final = """\
# Going back with Holdfast

This directory is watched over by Holdfast: everything in it is kept before and after what you do.
Nothing that you undo is lost, and the person that you work for can bring it back.

- `holdfast status` shows what has changed since the last snapshot.
- `holdfast agent log` lists the prompts of this conversation with what each of them changed.
- `holdfast undo --prompt N --dry-run` shows what taking prompt N back would change.
- `holdfast undo --prompt N` takes back what prompt N changed, and nothing else.
- `holdfast diff ID` and `holdfast restore ID --path FILE` look at, and bring back, one file of a
  snapshot that `holdfast log` lists.

Before you take anything back, show what would change, and ask. Where somebody has changed the same
since, the command exits with 4, names it, and has changed nothing: `--keep-mine` leaves that alone.
Never delete snapshots, never run `holdfast forget`, `gc`, `erase` or `detach`, and never work
around these rules with `git checkout`, `git reset` or `rm`.
"""
