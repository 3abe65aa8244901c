"""A release of Evenload, made and not published: `make -C lab release` writes its files into dist/.

`places` knows where the tree states its version, `changelog` reads the notes, `steps` makes wheel, image, chart,
plugin and checksums, each by the command of its own folder; `__main__` checks the tree and runs them. One commit gives
the same bytes: every time in the files is the commit's (SOURCE_DATE_EPOCH).
"""
