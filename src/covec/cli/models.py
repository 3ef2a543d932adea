"""To come."""


def models() -> None:
    """To come."""
