"""Long runs that are no part of `make test`; `make -C lab` has a target for each."""
