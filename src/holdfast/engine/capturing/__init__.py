"""What a real directory holds, as entries of a files map.

`capture` reads what a scan found, `captured` is what came of it and looks again while names move,
`lastlook` is what is known since then, `folder` takes in a folder that nothing is known of, and
bytes are counted while they are read (`progress`).
"""
