"""The output of each kind of join: rules that all join operators share."""

from qcore_ext.ground.status import PlanError

KINDS = {
    "inner": JOIN_INNER,
    "left": JOIN_LEFT,
    "right": JOIN_RIGHT,
    "full": JOIN_FULL,
    "left_semi": JOIN_LEFT_SEMI,
    "left_anti": JOIN_LEFT_ANTI,
    "right_semi": JOIN_RIGHT_SEMI,
    "right_anti": JOIN_RIGHT_ANTI,
    "null_aware_anti": JOIN_NULL_AWARE_ANTI,
    "mark": JOIN_MARK,
    "null_aware_mark": JOIN_NULL_AWARE_MARK,
}


cdef int join_kind_of(str name) except -1:
    if name not in KINDS:
        raise PlanError(f"unknown kind of join {name!r}; use one of {', '.join(KINDS)}")
    return KINDS[name]
