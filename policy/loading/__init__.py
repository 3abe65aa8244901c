"""Policy file text -> models, with every problem located by line and column."""
