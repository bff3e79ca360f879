from typing_extensions import disjoint_base

@disjoint_base
class BatchSpool:
    def __init__(self, n_producers: int, drivers: list[int]) -> None: ...
