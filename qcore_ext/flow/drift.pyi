import enum

class Drift(enum.IntFlag):
    DRIFT_NONE = 0
    DRIFT_WITHIN = 1
    DRIFT_WIDENS = 2
