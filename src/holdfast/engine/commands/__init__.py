"""Commands: run in the sandbox, with the files of a namespace around them, and what they leave."""
