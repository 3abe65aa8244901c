"""Coverage-guided fuzzing of what others write, over the properties of the unit tests."""
