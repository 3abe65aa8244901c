"""Mutation testing of what decides: mutmut changes one place of the code, and some unit test has to fail."""
