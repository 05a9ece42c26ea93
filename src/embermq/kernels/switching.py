"""Whether a long piece of work is done by kernels: from the beginning if they are loaded, else as soon as that pays."""

from __future__ import annotations

from embermq.kernels import loading


class Switch:
    """For work that is counted in bytes. It is switched on once at most, and stays on.

    Nobody knows before how much of a file is in use. So plain code begins, and when it has passed `pays_after`
    bytes, which take it as long as a load, kernels are loaded for the rest, unless they would have to be compiled.
    """

    def __init__(self, *, pays_after: int) -> None:
        self._pays_after = pays_after
        self._is_on = False
        self._is_over = not loading.is_wanted()  # no use to ask again

    def is_on(self, passed: int) -> bool:
        """Whether kernels go on with it, after so many bytes."""
        if not (self._is_on or self._is_over):
            if loading.is_loaded():
                self._is_on = True
            elif passed >= self._pays_after:
                self._is_on = loading.is_warm() and loading.try_load()
                self._is_over = not self._is_on
        return self._is_on
