"""Fault sites count their passes and make one of them fail. SPEC D9."""

from __future__ import annotations

import pytest

from qcore.errors import ExecutionError
from qcore_ext.ground.fault import SITES, Faults, InjectedFault, fault_site
from qcore_ext.ground.memory import Account, Reservation

FROM_PYTHON = [name for name in SITES if name.startswith(("file_", "write_"))]


def reserve(times: int) -> None:
    reservation = Reservation(Account())
    for _ in range(times):
        reservation.add(1000)
    reservation.give_back()


@pytest.mark.parametrize("name", FROM_PYTHON)
@pytest.mark.parametrize("nth", [1, 3])
def test_the_nth_pass_of_a_site_fails(name: str, nth: int) -> None:
    """D9: no other pass and no other site fails."""
    with Faults(name, nth) as faults:
        for number in range(1, 6):
            for other in FROM_PYTHON:
                if other != name:
                    fault_site(other)
            assert faults.fired == (number > nth)
            if number != nth:
                fault_site(name)
                continue
            with pytest.raises(OSError, match=f"injected fault: {name}, pass {nth}"):
                fault_site(name)
        assert faults.passes[name] == 5


@pytest.mark.parametrize("nth", [1, 2, 5])
def test_a_reservation_fails_where_it_is_armed(nth: int) -> None:
    """D9."""
    with Faults() as counted:
        reserve(5)
    n_passes = counted.passes["reserve"]
    assert n_passes >= 5
    assert not counted.fired
    with Faults("reserve", nth) as faults, pytest.raises(Exception, match="injected fault"):
        reserve(5)
    assert faults.fired
    with Faults("reserve", n_passes + 1) as faults:
        reserve(5)
    assert not faults.fired


def test_nothing_fails_or_is_counted_outside() -> None:
    with Faults("file_open") as faults:
        pass
    fault_site("file_open")
    assert faults.passes["file_open"] == 0


def test_one_at_a_time() -> None:
    with Faults("file_open"), pytest.raises(RuntimeError, match="armed already"):
        Faults("file_read").__enter__()
    with Faults() as faults:
        assert set(faults.passes) == set(SITES)
    assert issubclass(InjectedFault, ExecutionError)


def test_unknown_sites_are_errors() -> None:
    with pytest.raises(ValueError, match="not in tuple"):
        Faults("nowhere")
