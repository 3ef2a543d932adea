"""To come."""


def demo() -> None:
    """To come."""
