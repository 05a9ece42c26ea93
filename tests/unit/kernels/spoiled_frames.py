"""Frames with something wrong in them."""

from __future__ import annotations

from random import Random


def spoiled(random: Random, frame: bytes) -> bytes:
    """A frame without a body, changed somewhere."""
    data = bytearray(frame)
    at = random.randrange(8, len(data))
    match random.randrange(5):
        case 0:  # its sizes too
            data[random.randrange(len(data))] = random.randrange(256)
            return bytes(data)
        case 1:
            del data[at]
        case 2:
            data.insert(at, random.choice(b'0 "-,:{}x\\'))
        case 3:
            data += b"body"
            data[:4] = (len(data) - 4).to_bytes(4)
            return bytes(data)
        case _:  # a digit more, or less, wherever there is one
            at = random.choice([each for each in range(8, len(data)) if 0x30 <= data[each] <= 0x39] or [at])
            data[at : at + 1] = random.choice((b"", b"12", b"00"))
    data[:4], data[5:8] = (len(data) - 4).to_bytes(4), (len(data) - 8).to_bytes(3)
    return bytes(data)
