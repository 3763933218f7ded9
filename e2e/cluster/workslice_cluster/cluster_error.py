"""The one error of the cluster tool: its text says what went wrong and what to do next."""


class ClusterError(Exception):
    """A step that could not be done; the message is meant for the person at the terminal."""
