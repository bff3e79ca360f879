"""The engine's hash of key values in plain Python, which shares no code with it, and values whose hashes are equal."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

WORD = (1 << 64) - 1
FACTOR = 0xD6E8FEB86659FD93
STEP = 0x9E3779B97F4A7C15


def mix(value: int) -> int:
    for _ in range(2):
        value ^= value >> 32
        value = value * FACTOR & WORD
    return value ^ value >> 32


def combine(so_far: int, value: int) -> int:
    return mix(so_far * 31 + value + STEP & WORD)


def fold(a: int, b: int) -> int:
    return a ^ b ^ a * b & WORD ^ a * b >> 64


def hash_text(value: bytes) -> int:
    if len(value) <= 12:
        words = len(value).to_bytes(4, "little") + value.ljust(12, b"\0")
        return combine(mix(int.from_bytes(words[:8], "little")), int.from_bytes(words[8:], "little"))
    state = len(value) * STEP & WORD
    for at in range(0, len(value) - 16, 16):
        first, second = (int.from_bytes(value[at + part : at + part + 8], "little") for part in (0, 8))
        state = fold(first ^ 0x8EBC6AF09C88C6E3, second ^ state)
    last = value[:8] if len(value) < 16 else value[-16:-8]
    state = fold(int.from_bytes(last, "little") ^ state, int.from_bytes(value[-8:], "little") ^ FACTOR)
    return fold(state ^ 0xA0761D6478BD642F, 0xE7037ED1A0B428DB)


def hash_value(value: Any) -> int:
    if value is None:
        return 0x9AE16A3B2F90404F
    if isinstance(value, str):
        return hash_text(value.encode())
    if isinstance(value, Decimal):
        sign, digits, _ = value.as_tuple()
        value = (-1 if sign else 1) * int("".join(map(str, digits)))
        low, high = value & WORD, value >> 64 & WORD
        return mix(low) if -(1 << 63) <= value < 1 << 63 else combine(mix(low), high)
    return mix(value & WORD)


def hash_row(row: tuple[Any, ...]) -> int:
    """The hash of several keys."""
    hashed = hash_value(row[0])
    for value in row[1:]:
        hashed = combine(hashed, hash_value(value))
    return hashed


def model_partition(row: tuple[Any, ...], n: int) -> int:
    """The partition, of n between tasks, of these keys."""
    return (mix(hash_row(row)) >> 32) * n >> 32


def unmix(value: int) -> int:
    """The inverse of mix()."""
    inverse = pow(FACTOR, -1, 1 << 64)
    value ^= value >> 32
    for _ in range(2):
        value = value * inverse & WORD
        value ^= value >> 32
    return value


def as_int64(word: int) -> int:
    """The bits of a word as an int64."""
    return word - (1 << 64) if word >> 63 else word


def colliding_pair(a: int, b: int, other: int) -> tuple[int, int]:
    """The pair of int64 keys that begins with `other` and has the hash of the pair (a, b)."""
    difference = mix(a & WORD) - mix(other & WORD)
    return other, as_int64(unmix(mix(b & WORD) + 31 * difference & WORD))


def colliding_bytes(value: bytes, prefix: bytes) -> bytes:
    """Twelve bytes that begin with `other` and have the hash of the given twelve bytes."""
    first, second = (mix(int.from_bytes(b"\x0c\0\0\0" + part[:4], "little")) for part in (value, prefix))
    tail = int.from_bytes(value[4:], "little") + 31 * (first - second) & WORD
    return prefix[:4] + tail.to_bytes(8, "little")
