from enum import IntEnum

class Conversion(IntEnum):
    CONVERT_NONE = 0
    CONVERT_WIDEN = 1
    CONVERT_CUT = 2
    CONVERT_DECIMAL = 3
    CONVERT_DECIMAL_WIDE = 4
    CONVERT_BITS = 5
    CONVERT_TEXT = 6
