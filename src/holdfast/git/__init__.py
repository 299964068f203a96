"""Git, as a program that is run: bare repositories of our own, names in them, and remotes.

The only code that runs git. It knows nothing of vaults, never works inside captured content, and
shuts out whatever the user, the system or the environment has told git.
"""
