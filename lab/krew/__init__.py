"""The plugin `kubectl evenload` for krew: `make -C lab krew` writes its archive and its manifest into dist/.

The archive holds the wheel of this tree, the pinned requirements, the licence, and `kubectl-evenload`, which makes a
virtual environment of them at the first call. `archive` packs and describes it, `__main__` builds the wheel. The same
tree gives the same bytes.
"""
