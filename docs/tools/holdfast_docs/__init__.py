"""What makes pages of code, and code of pages: the parts behind the site and behind its tests.

`classes` and `routes` write the reference from what there is; `blocks` takes pages apart.
`hooks.py` beside this package gives all of it to mkdocs.
"""
