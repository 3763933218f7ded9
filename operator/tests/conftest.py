import os

from hypothesis import settings

# A busy machine is no fault of the code under test. CI plays the same cases every time; new ones are hunted by those who work here.
settings.register_profile("operator", deadline=None, derandomize="CI" in os.environ)
settings.load_profile("operator")
