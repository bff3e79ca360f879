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


TEXT_MASKS = 0x8EBC6AF09C88C6E3, 0xA0761D6478BD642F, 0xE7037ED1A0B428DB, 0x589965CC75374CC3
TEXT_FACTORS = FACTOR, STEP, 0x9AE16A3B2F90404F, 0xC2B2AE3D27D4EB4F


def mix_word(word: int, place: int) -> int:
    """What the word of a text at a place adds to its fingerprint."""
    word ^= TEXT_MASKS[place]
    word = (word ^ word >> 32) * TEXT_FACTORS[place] & WORD
    return word ^ word >> 32


def unmix_word(mixed: int, place: int) -> int:
    """The inverse of mix_word()."""
    mixed = (mixed ^ mixed >> 32) * pow(TEXT_FACTORS[place], -1, 1 << 64) & WORD
    return mixed ^ mixed >> 32 ^ TEXT_MASKS[place]


def hash_text(value: bytes) -> int:
    if len(value) < 32:
        whole = value.ljust(31, b"\0") + bytes([len(value)])
        return mix(sum(mix_word(int.from_bytes(whole[8 * i : 8 * i + 8], "little"), i) for i in range(4)) & WORD)
    state = len(value) * STEP & WORD
    for at in range(0, len(value) - 16, 16):
        first, second = (int.from_bytes(value[at + part : at + part + 8], "little") for part in (0, 8))
        state = fold(first ^ 0x8EBC6AF09C88C6E3, second ^ state)
    state = fold(int.from_bytes(value[-16:-8], "little") ^ state, int.from_bytes(value[-8:], "little") ^ FACTOR)
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
    """Sixteen bytes that begin with `prefix`, of eight, and have the hash of the given sixteen bytes."""
    given = [int.from_bytes(part, "little") for part in (value[:8], value[8:], prefix)]
    rest = mix_word(given[0], 0) + mix_word(given[1], 1) - mix_word(given[2], 0) & WORD
    return prefix + unmix_word(rest, 1).to_bytes(8, "little")
