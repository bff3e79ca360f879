from typing import overload

@overload
def snappy_decompress(compressed: bytes, size: int, other: None = None, other_size: int = 0) -> bytes | None: ...
@overload
def snappy_decompress(
    compressed: bytes, size: int, other: bytes, other_size: int = 0
) -> tuple[bytes, bytes] | None: ...
