"""Wait lists and wait sets: the tokens that are fired, how often, and the references that are kept. SPEC V6, G3."""

from __future__ import annotations

import threading

import pytest

from qcore.errors import MemoryLimitError
from qcore_ext.ground.fault import Faults
from qcore_testing.units import CountingToken, TokenList, TokenSet

# Slots of one chunk of a WaitSet.
CHUNK = 8


def tokens(n: int) -> list[CountingToken]:
    return [CountingToken() for _ in range(n)]


# --- lists ---


@pytest.mark.parametrize("n", [0, 1, 4, 5, 100])
def test_a_list_fires_each_token_once_and_is_empty_then(n: int) -> None:
    waiting, added = TokenList(), tokens(n)
    for token in added:
        waiting.add(token)
    assert len(waiting) == n
    waiting.fire()
    assert [token.fired for token in added] == [1] * n
    assert len(waiting) == 0
    waiting.fire()
    assert [token.fired for token in added] == [1] * n


def test_a_token_is_in_a_list_once() -> None:
    waiting, token = TokenList(), CountingToken()
    waiting.add(token)
    waiting.add(token)
    assert (len(waiting), token.registered, token.references) == (1, 2, 2)
    waiting.fire()
    assert (token.fired, token.references) == (1, 1)


def test_a_list_keeps_its_tokens_alive_until_they_are_dropped() -> None:
    waiting, added = TokenList(), tokens(3)
    for token in added:
        waiting.add(token)
    assert [token.references for token in added] == [2, 2, 2]
    waiting.clear()
    assert [(token.references, token.fired) for token in added] == [(1, 0)] * 3


def test_a_list_that_is_freed_drops_its_tokens() -> None:
    waiting, token = TokenList(), CountingToken()
    waiting.add(token)
    del waiting
    assert (token.references, token.fired) == (1, 0)


def test_taking_moves_all_tokens() -> None:
    """A token that is added after the list was taken is not fired with it."""
    waiting, (early, late) = TokenList(), tokens(2)
    waiting.add(early)
    taken = waiting.take()
    assert (len(waiting), len(taken)) == (0, 1)
    waiting.add(late)
    taken.fire()
    assert (early.fired, late.fired) == (1, 0)
    waiting.fire()
    assert (early.fired, late.fired) == (1, 1)


def test_a_fault_while_adding_leaves_the_list_as_it_was() -> None:
    waiting, (first, second) = TokenList(), tokens(2)
    waiting.add(first)
    with Faults("wait", 1), pytest.raises(MemoryLimitError, match=r"^injected fault: wait$"):
        waiting.add(second)
    with Faults("wait", 1):
        assert waiting.try_add(second) == "injected fault: wait"
    assert waiting.try_add(second) is None
    assert (len(waiting), second.references) == (2, 2)


# --- sets ---


@pytest.mark.parametrize("n", [0, 1, CHUNK, CHUNK + 1, 5 * CHUNK])
def test_a_set_fires_each_waiting_token_once(n: int) -> None:
    waiting, added = TokenSet(), tokens(n)
    for token in added:
        waiting.add(token)
    assert waiting.n_waiting == n
    waiting.fire()
    assert [token.fired for token in added] == [1] * n
    assert waiting.n_waiting == 0
    waiting.fire()
    assert [token.fired for token in added] == [1] * n


def test_adding_twice_counts_once_and_a_slot_is_kept() -> None:
    waiting, token = TokenSet(), CountingToken()
    for _ in range(2):
        waiting.add(token)
    assert (waiting.n_waiting, token.registered, token.references) == (1, 2, 2)
    waiting.fire()
    assert (token.fired, token.references) == (1, 2)
    waiting.add(token)
    waiting.fire()
    assert (token.fired, token.references) == (2, 2)


@pytest.mark.parametrize("at", [0, CHUNK - 1, CHUNK, 2 * CHUNK])
def test_a_removed_token_is_not_fired(at: int) -> None:
    waiting, added = TokenSet(), tokens(2 * CHUNK + 1)
    for token in added:
        waiting.add(token)
    waiting.remove(added[at])
    waiting.remove(added[at])
    assert waiting.n_waiting == 2 * CHUNK
    waiting.fire()
    assert [token.fired for token in added] == [int(i != at) for i in range(2 * CHUNK + 1)]


def test_removing_a_token_that_never_came_changes_nothing() -> None:
    waiting, (known, unknown) = TokenSet(), tokens(2)
    waiting.add(known)
    waiting.remove(unknown)
    assert (waiting.n_waiting, unknown.references) == (1, 1)


def test_clearing_drops_all_tokens_of_all_chunks() -> None:
    waiting, added = TokenSet(), tokens(3 * CHUNK)
    for token in added:
        waiting.add(token)
    waiting.clear()
    assert waiting.n_waiting == 0
    assert [(token.references, token.fired) for token in added] == [(1, 0)] * (3 * CHUNK)


def test_a_fault_while_a_slot_is_made_adds_nothing() -> None:
    waiting, token = TokenSet(), CountingToken()
    with Faults("wait", 1), pytest.raises(MemoryLimitError, match=r"^injected fault: wait$"):
        waiting.add(token)
    assert (waiting.n_waiting, token.references) == (0, 1)
    waiting.add(token)
    with Faults("wait", 1) as faults:
        waiting.add(token)
    assert not faults.fired, "a token that has a slot needs no other"


def test_threads_add_and_fire_without_losing_a_token() -> None:
    """Each added token is fired by a later call, or by one at the same time. No slot is counted twice."""
    waiting = TokenSet()
    added = [tokens(3 * CHUNK) for _ in range(4)]

    def use(own: list[CountingToken]) -> None:
        for _ in range(200):
            for token in own:
                waiting.add(token)
            waiting.fire()

    threads = [threading.Thread(target=use, args=(own,)) for own in added]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    waiting.fire()
    assert waiting.n_waiting == 0
    for own in added:
        assert all(1 <= token.fired <= token.registered == 200 for token in own)
