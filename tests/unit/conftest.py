"""Hypothesis without deadlines or a limit on drawing: the machine is shared, and no test is about time spent."""

import hypothesis

hypothesis.settings.register_profile("evenload", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("evenload")
