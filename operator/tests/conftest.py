from hypothesis import settings

# A busy machine is no fault of the code under test.
settings.register_profile("operator", deadline=None)
settings.load_profile("operator")
