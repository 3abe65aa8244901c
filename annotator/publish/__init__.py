"""Last good values -> the fewest annotation patches, the heartbeat, and the crane-scheduler keys."""
