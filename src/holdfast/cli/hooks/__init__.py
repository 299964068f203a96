"""Hooks of coding agents: what they say on stdin becomes snapshots, prompt by prompt.

`agents` says how each of them speaks and where its settings are, `hearing` reads what it says,
`settings` puts our commands among somebody else's, `process` is a hook's own process, and
`problems` the file in which it says what went wrong, as nobody reads what it prints.
"""
