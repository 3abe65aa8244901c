"""One plan -> Eviction API calls, their results, Events, and the measured effect afterwards."""
