"""How property tests run, everywhere: on a machine whose cores are taken an example may take seconds, and that says nothing.

CI plays the same cases every time; new ones are hunted by those who work here.
"""

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "workslice", deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize="CI" in os.environ
)
settings.load_profile("workslice")
