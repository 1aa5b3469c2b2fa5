class Lookup:
    """Where a sequence's last tokens stood before, and how well that foretells the next one."""

    def __init__(self) -> None: ...
    def chances(self, tokens: list[int], n: int) -> list[float]:
        """Of the next ``n`` guesses after ``tokens``, which may only have grown since the last
        call, or of as many as are worth it: how likely each and all before it are right."""

    def draft(self, n: int) -> list[int]:
        """The next ``n`` guesses; none where nothing foretells them."""
