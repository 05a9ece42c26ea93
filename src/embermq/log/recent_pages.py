"""The end of the log stays in memory; what is behind it is given back, and its pages are used for what comes.

    log   ├──── given back ────┼────── recent ──────┼─ not on the disk yet ─┤
                              edge               flushed                  end

A log takes as many new pages of memory as it is written. To get one the kernel has to look for what it can do without,
and on a virtual machine that is lent its memory when it touches it, each costs more than all the rest that is done for
what is written there: a MiB took 1 to 3 ms then, so that a server took 3.2 us of CPU for a message of 1 KiB, and
0.8 us where it had the pages back that it had just given away.

So the recent part begins with `least` bytes and may become longer by `growth` bytes a second, up to `most`. A log that
grows slower stays in memory as far as that; a faster one goes on in its own pages. Where consumers are reading, the
edge waits for them: who was seen there a moment ago wants what follows, too.

Nothing but time is lost by it: whoever reads further behind has it read from the disk.
"""

from __future__ import annotations

from typing import Final

from embermq.clock import Clock
from embermq.files.file_chain import FileChain

STEP: Final = 2 << 20  # what the kernel may keep as one block, and then gives back only whole
_LONGEST_S: Final = 1.0  # of a time in which nothing happened, so much counts


class RecentPages:
    """How far back the end of one log stays in memory."""

    def __init__(self, chain: FileChain, *, least: int, growth: int, most: int, clock: Clock) -> None:
        self._chain = chain
        self._readers = chain.readers
        self._least = least
        self._growth = growth
        self._most = max(least, most)
        self._clock = clock
        self._length = least  # how long the recent part may be now
        self._at = clock.monotonic()
        chain.readers.begin = chain.flushed // STEP * STEP  # what is before it never was ours to give back

    def give_back(self, flushed: int) -> None:
        """Give back what is not recent any more, now that the disk has everything before `flushed`. For one thread."""
        now, edge = self._clock.monotonic(), self._readers.begin
        grown = self._length + int(self._growth * min(now - self._at, _LONGEST_S))
        self._length = min(self._most, max(self._least, min(grown, flushed - edge)))
        self._at = now
        if flushed - edge - self._length < STEP:
            return
        # Where it waits for readers, it is longer from now on: what is in memory already costs nothing.
        self._length = min(self._most, max(self._length, flushed - self._readers.find_last(now)))
        wanted = (flushed - self._length) // STEP * STEP
        if wanted > edge:
            self._readers.begin = wanted
            self._chain.forget(edge, wanted)
