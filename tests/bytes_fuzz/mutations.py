"""Changes of bytes: flipped bits, unusual numbers, parts removed, cut off or repeated.

The seed determines the change.
"""

from __future__ import annotations

import random

ODD_NUMBERS = (b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", b"\0\0\0\x80", b"\0\0\0\0", b"\1\0\0\0")
#: Bytes at the start and the end of an IPC file that hold its messages' heads and its footer.
IPC_EDGE = 2000
CUT_MAX = 200


def mutation(kind: str, raw: bytes, seed: int) -> bytes:
    """The changed bytes. Rarely they equal the original."""
    chance = random.Random(seed)
    out = bytearray(raw)
    how = chance.randrange(12)
    if how <= 5:
        for _ in range(chance.choice([1, 1, 1, 2, 4, 16])):
            out[_place(kind, raw, chance)] ^= 1 << chance.randrange(8)
    elif how <= 7:
        for _ in range(chance.choice([1, 2, 4])):
            out[_place(kind, raw, chance)] = chance.choice([0, 255, 127, 128, chance.randrange(256)])
    elif how <= 9:
        at = max(0, min(_place(kind, raw, chance), len(raw) - 4))
        out[at : at + 4] = chance.choice([*ODD_NUMBERS, chance.randbytes(4)])
    elif how == 10:
        del out[chance.randrange(len(raw)) :]
    else:
        start, end = sorted((_place(kind, raw, chance), _place(kind, raw, chance)))
        end = min(end, start + CUT_MAX)
        if chance.random() < 0.5:
            del out[start:end]
        else:
            out[start:start] = out[start:end]
    return bytes(out)


def _place(kind: str, raw: bytes, chance: random.Random) -> int:
    """A position to change, often one where formats keep their structure."""
    n = len(raw)
    if kind.startswith("parquet"):
        pick = chance.random()
        if pick < 0.45:
            return n - 1 - chance.randrange(int.from_bytes(raw[-8:-4], "little") + 8)
        if pick < 0.5:
            return chance.randrange(4)
    elif kind.startswith("ipc") and chance.random() < 0.4:
        at = chance.randrange(min(n, IPC_EDGE))
        return at if chance.random() < 0.6 else n - 1 - at
    return chance.randrange(n)
