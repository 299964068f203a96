"""The command line: `holdfast`.

A door: it reads what a person typed, calls the engine, and says what came of it. `main` starts
as little as it can; `app.run` is the whole program as one call, for a process that stays;
`commands` has one file per command.

Parsing is argparse's: it comes with Python and costs 12 ms where a bare interpreter costs 19. It
is asked to build the parser of one command, never of all.
"""
