"""A namespace as a tar file: out for whoever wants it, in as if an enemy had sent it.

`transfer` has the two use cases, and says what an archive holds; on the way out `tarwrite` writes
what any tar can read. `plainfiles` brings files alone in, from a tar file of any program
(`plaintar`) or a folder. On the way in `survey` looks at all of an archive before
any of it is used, with a reader of our own (`tarread`) that knows only what we write; sessions
then wait in `arriving` until the head moves. `manifest` is what an archive says of itself,
`sessionfile` what it says of a session, `archivefile` the file outside the vault; `wellformed` and
`jsontext` look at values without building them.
"""
