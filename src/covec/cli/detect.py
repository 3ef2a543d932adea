"""To come."""


def detect() -> None:
    """To come."""
