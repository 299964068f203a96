"""The door for agents that speak the Model Context Protocol: `holdfast mcp`.

A server is bound to one directory or one namespace when it is started, and no tool has an argument
that names another. What would take history away is not there to be called: no tool deletes, purges,
unpins, changes retention, quotas or keys, forces or imports. Beneath, a local vault is opened for
somebody who only adds (`adding_only`), and a server is meant to be reached with an add-only key:
the engine refuses what a mistake here might let through.

`subjects` is what tools act on, `tools` what can be called, `answers` what is said of it, `asking`
how a person is asked, `calls` the way from a request to an answer, `serving` both transports.
`installing` and `splicing` write the entry in the settings of coding agents; they load no SDK.
"""
