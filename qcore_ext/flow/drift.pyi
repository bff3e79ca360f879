import enum

from qcore_ext.data.schema import Schema

class Drift(enum.IntFlag):
    DRIFT_NONE = 0
    DRIFT_WITHIN = 1
    DRIFT_WIDENS = 2

def explain_difference(declared: Schema, given: Schema) -> str: ...
