"""Trees of C structs with faults that a consumer can find.

The C Data interface states no sizes of buffers. A consumer cannot find a length or a last offset that is larger than
its buffer but agrees with all other numbers. So a mutation either stays within the memory or breaks a rule that can be
checked.
"""

from __future__ import annotations

import random
import struct

from c_arrays import SLACK, Part, Producer

LENGTHS = (-1, -(1 << 62), 0, 1, (1 << 63) - 1, 1 << 62, 1 << 45)
COUNTS = (-1, -(1 << 40), 0, 1)
NULL_COUNTS = (-7, 99, 1 << 40, -1, 0, 3)


def mutated_producer(part: Part, seed: int) -> Producer:
    """The tree with one to three changes. A negative seed changes nothing."""
    if seed >= 0:
        chance = random.Random(seed)
        for _ in range(chance.choice([1, 1, 1, 2, 3])):
            parts = [one for one in part.walk() if one is not part or chance.random() < 0.3]
            _change(chance.choice(parts), chance)
    return Producer(part)


def _change(part: Part, chance: random.Random) -> None:
    how = chance.randrange(10)
    if how <= 4:
        _change_bytes(part, chance)
    elif how == 5:
        part.numbers["length"] = chance.choice([*LENGTHS, max(0, part.numbers["length"] + chance.choice([-1, 1, 5]))])
    elif how == 6:
        part.numbers["offset"] = chance.choice([*LENGTHS, 1, 3])
    elif how == 7:
        # A larger number would be read past the end of the array of pointers.
        key = chance.choice(["n_buffers", "n_children"])
        part.numbers[key] = chance.choice([*[n for n in COUNTS if n <= part.numbers[key]], part.numbers[key] - 1])
    elif how == 8:
        part.numbers["null_count"] = chance.choice(NULL_COUNTS)
    else:
        _change_pointer(part, chance)


def _change_bytes(part: Part, chance: random.Random) -> None:
    """Bits of a buffer that holds offsets, sizes, views, indices or text."""
    buffers = [i for i, buffer in enumerate(part.buffers) if buffer]
    if not buffers:
        return
    number = chance.choice(buffers)
    buffer = part.buffers[number]
    assert buffer is not None
    before = bytes(buffer)
    for _ in range(chance.choice([1, 1, 2, 8])):
        if chance.random() < 0.5:
            buffer[chance.randrange(len(buffer))] ^= 1 << chance.randrange(8)
        elif len(buffer) >= 8:
            at = chance.randrange(len(buffer) // 4) * 4
            struct.pack_into("<i", buffer, at, chance.choice([-1, 0, 5, 2_000_000_000, -(1 << 31)]))
    if _says_more_than_there_is(part, number):
        buffer[:] = before


def _says_more_than_there_is(part: Part, number: int) -> bool:
    """Whether offsets point past the text, or the buffer has the sizes of other buffers."""
    format = part.schema["format"][:1]
    buffer = part.buffers[number]
    assert buffer is not None
    if format in (b"u", b"z", b"U", b"Z") and number == 1 and len(part.buffers) > 2:
        width = 4 if format in (b"u", b"z") else 8
        offsets = [int.from_bytes(buffer[i : i + width], "little", signed=True) for i in range(0, len(buffer), width)]
        return max(offsets, default=0) > len(part.buffers[2] or b"") + SLACK
    return format == b"v" and number == len(part.buffers) - 1


def _change_pointer(part: Part, chance: random.Random) -> None:
    """Set a pointer to a buffer, child or dictionary to NULL."""
    at = chance.randrange(-1, len(part.buffers) + len(part.children))
    if 0 <= at < len(part.buffers):
        part.buffers[at] = None
    elif at >= 0 or part.dictionary is not None:
        part.lost.add(max(-1, at - len(part.buffers)) if at >= 0 else -1)
