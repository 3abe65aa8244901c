"""Hypothesis without deadlines: the machine is shared, and no test of ours is about time spent."""

import hypothesis

hypothesis.settings.register_profile("evenload", deadline=None)
hypothesis.settings.load_profile("evenload")
