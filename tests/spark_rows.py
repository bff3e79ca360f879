"""Queries of Spark for rows of many types."""

from __future__ import annotations

EVERY_TYPE = """
select id, cast(id as tinyint) as i1, cast(id as smallint) as i2, cast(id as int) as i4,
       cast(id as float) / 3 as f4, cast(id as double) / 3 as f8, cast(id as decimal(9,2)) / 7 as d,
       cast(id as decimal(30,4)) as wide, concat('word ', id) as s, cast(concat('b', id) as binary) as b,
       date_add(date '2024-02-28', cast(id as int)) as day, id % 2 = 0 as flag,
       timestamp '2024-03-10 01:59:59.123456' + make_interval(0, 0, 0, 0, id) as at,
       timestamp_ntz '2024-03-10 02:30:00' as local, array(id, null) as list, struct(id as x, 'y' as y) as st,
       map('k', id) as m, if(id % 3 = 0, null, id) as n, interval '1' hour * id as gap
from range(0, 100, 1, 4)
"""

DECIMALS = """
select cast(null as decimal(18,6)) as none, cast(v as decimal(18,0)) as whole,
       cast(cast(v as decimal(22,0)) / 1000 as decimal(18,3)) as `a.b`, cast(v as decimal(19,1)) as `longer``s`,
       cast(v % 100 as decimal(2,0)) as least, v
from values (999999999999999999), (-999999999999999999), (0), (null), (-1), (1005) as t(v)
"""
