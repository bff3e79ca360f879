"""The drivers of one pipeline, and the sums of their counters."""

from qcore_ext.ground.atomic cimport qc_load

from qcore_ext.execution.driver import ClosingDriver


def add_counters(total, counters):
    """Add the numbers of nested dicts to those of `total`."""
    for key, value in counters.items():
        if isinstance(value, dict):
            add_counters(total.setdefault(key, {}), value)
        elif isinstance(value, int):
            total[key] = total.get(key, 0) + value
        else:
            total[key] = value
    return total


cdef class Pipeline:
    """Drivers over chains of the same steps.

    Parameters
    ----------
    chains : list of list of Operator
        One chain for each driver, each with its source first.
    is_checked : bool
        Whether the operators' contract is checked (checked mode).
    """

    def __init__(self, list chains, bint is_checked):
        if not chains:
            raise ValueError("a pipeline needs at least one driver")
        self.drivers = [ClosingDriver(chain, is_checked) for chain in chains]
        self.n_live = <int> len(chains)

    def stats(self):
        """Return counters of each operator, summed over drivers, and of the drivers' turns.

        An operator's 'drivers' has the same counters for each driver. 'turns' is the number of turns on threads,
        'steps' the number of get_output calls in them.
        """
        of_drivers = [driver.stats_snapshot() for driver in self.drivers]
        operators = []
        for position in range(len(of_drivers[0])):
            parts = [snapshots[position] for snapshots in of_drivers]
            total = {}
            for part in parts:
                add_counters(total, part)
            total["drivers"] = parts
            operators.append(total)
        return {
            "drivers": len(self.drivers),
            "turns": sum(driver.runs for driver in self.drivers),
            "steps": sum(driver.steps for driver in self.drivers),
            "drivers_done": len(self.drivers) - qc_load(&self.n_live),
            "operators": operators,
        }
