"""The pictures of the pages: `make -C lab pictures` makes them anew."""
