"""Backups of a whole vault: rows and packs of one moment, in a directory of their own.

`manifest` says what is in one, `making` makes it beside writers and collections, `reading` takes
nothing out of it that is not as it was put in. Making a vault of one is `holdfast.wiring`'s, which
knows the places where rows and packs can be.
"""
