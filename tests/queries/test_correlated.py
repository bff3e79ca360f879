"""Correlated subqueries of every shape, among nulls, duplicates and no rows, against DuckDB. SPEC Q2."""

from __future__ import annotations

import datetime
from decimal import Decimal

import duckdb
import pyarrow as pa
import pytest

import qcore
from oracle import assert_same_rows
from sweeps import every

DAYS = [datetime.date(2024, 1, 31), datetime.date(2024, 2, 29), None, datetime.date(1999, 12, 31)]
T = pa.table({
    "i": pa.array([1, 2, 3, 4, None, 6, 7], pa.int64()),
    "g": ["a", "b", "a", None, "b", "a", "c"],
    "f": [1.5, 2.25, None, -3.0, 0.0, 7.5, 1e10],
    "d": pa.array([Decimal("1.10"), Decimal("2.25"), None, Decimal(-3), Decimal("4.5"), Decimal(0), Decimal("9.99")]),
    "s": ["abc", "Hello World", "", "naïve", None, "x,y,z", "  pad "],
    "day": pa.array([*DAYS, *DAYS[:3]]),
    "ts": pa.array([*DAYS, *DAYS[:3]]).cast(pa.timestamp("us")),
    "b": [True, False, None, True, True, False, None],
})  # fmt: skip
U = pa.table({
    "i": pa.array([1, 2, 2, 9, None], pa.int64()),
    "w": ["p", "q", "r", "s", "t"],
    "n": pa.array([10, 20, 30, 40, 50], pa.int32()),
})  # fmt: skip
TABLES = {"t": T, "u": U, "e": U.slice(0, 0)}
QUERIES = [
    "select i from t where (select max(a.w) from u a join u b on a.i = b.i where a.i = t.i and false) is null",
    "select i, (select sum(a.n) from u a semi join u b on false join u c on a.i <> c.i where a.i = t.i and false) s "
    "from t",
    "with c as (select t.i o from t natural full join u) select i from t where (select max(a.w) from u a semi join c e "
    "on null::boolean join u b on a.n < b.n where a.i = t.i and false) not between 'a' and 'b'",
    # In queries with several clauses, in common tables, and after DISTINCT FROM.
    "with recursive r as (select 1 as n union all select n + 1 from r where n < 4) "
    "select i, (select count(*) from r where r.n < t.i) c, x.m from t, "
    "lateral (select max(n) m from r where n <> t.i) x",
    "with recursive r as (select 1 as n union all select n + 1 from r where n < (select max(u.i) from u where u.n > "
    "r.n)) select n, exists (select 1 from u left join t on t.i = u.i where u.i > r.n) e from r",
    "select t.i, x.j from t, lateral (select t.i + 1 as j) x intersect all select i, i + 1 from t",
    "select i, x.c from t, lateral (select count(*) c from (select n from u where u.i <= t.i intersect all select n "
    "from u where n < 35) z) x, lateral (select sum(n) s from u where u.i = x.c) y",
    "with c as (select t.i, x.m from t left join lateral (select max(n) m from u where u.i < t.i) x on true) "
    "select i, (select min(m) from c d where d.i > e.i) from c e",
    "with c as (select a.i o from t a full join u b on a.i = b.i) select o from c e where 3 is not distinct from "
    "(select max(o) from c d where d.o <= e.o)",
    "select i is distinct from (select max(u.i) from u where u.i <= t.i) x from t",
    "with c as (select distinct null::decimal(15, 2) x from u) select i from (select i, null::boolean y from t "
    "group by all) z where y not in (select null::boolean from c)",
    "with c as (select cast(i as smallint) k from t) select k from (select case when k > 9 then k else null::bigint "
    "end o, k from c) z where 1.5 not in (select 2.5 from u where u.i = z.o)",
    "select cast(date '2000-02-29' + interval '8' minute as timestamp) x from t where not exists (select 1 from "
    "(values (1)) v(c) right join u on c = 2 where u.i = t.i)",
    "select o from (select n o from u except all select null::bigint from t) x where 1::bigint in (select 1 from t "
    "where t.i * 10 = x.o)",
    "select o from (select case when null::boolean then null::double else 0.375 end o from t) x where 1::bigint not in "
    "(select null::bigint from t where t.f = x.o)",
    "select (select min(b.g) from t a full join t b on null::boolean where a.ts = x.o) s from (select timestamp "
    "'2000-02-29 12:34:56' o from u union all select timestamp '2024-01-31 00:00:00' from t) x",
    "select i,(select sum(n) from u where u.i<>t.i) s from t",
    "select i,(select n from u where u.i=t.i and u.n<30) s from t where i<>2",
    "select i,(select avg(n) from e where e.i<t.i) s, (select count(*) from e where e.i<t.i) c from t",
    "select i,(select count(distinct w) from u where u.i<=t.i) s from t",
    "select i,(select count(n) filter (where n>t.i*5) from u) s from t",
    "select i,(select string_agg(w, ',' order by n desc) from u where u.i<t.i) s from t",
    "select i,(select n from u where u.i<=t.i order by n desc limit 1) s from t",
    "select i,(select n from u where u.i<=t.i order by n desc limit 1 offset 1) s from t",
    "select i,(select n+t.i from u where u.i<=t.i order by w limit 1) s from t",
    "select i,(select max(x) from (select distinct n x from u where u.i<t.i) z) s from t",
    "select i,(select count(*) from (select w, sum(n) x from u where u.i<t.i group by w having sum(n)>t.i*5) z) s"
    " from t",
    "select i,(select max(x) from (select n x from u where u.i=t.i union all select t.i*100 union all select i "
    "from e) z) s from t",
    "select i,(select count(*) from (select n x from u where u.i<=t.i intersect select n from u where n>=t.i*10) "
    "z) s from t",
    "select i,(select count(*) from (select n x from u where u.i<=t.i except select n from u where n>=t.i*20) z) "
    "s from t",
    "select i,(select count(*) from (select i x from u except all select t.i) z) s from t",
    "select i,(with c as (select n from u where u.i<t.i) select max(a.n)-min(b.n) from c a, c b) s from t",
    "select i,(select max(r) from (select row_number() over (order by n) r from u where u.i<t.i) z) s from t",
    "select i,(select max(r) from (select sum(n) over (partition by i order by w) r from u where u.i<>t.i) z) s from t",
    "select i,(select sum(a.n*b.n) from u a join u b on a.i=b.i and a.n>t.i*10) s from t",
    "select i,(select sum(a.n) from u a left join u b on a.i=b.i and b.n>t.i*10 where b.i is null) s from t",
    "select i,(select count(*) from u a full join (select * from u where i>t.i) b on a.i=b.i) s from t",
    "select i,(select count(*) from (select * from u where i>t.i) a right join u b on a.i=b.i) s from t",
    "select i,(select sum((select max(b.n) from u b where b.i<=a.i and b.n>t.i)) from u a) s from t",
    "select i,(select count(*) from u a where exists (select 1 from u b where b.i=a.i and b.n<>a.n and "
    "b.n>t.i*10)) s from t",
    "select i,(select count(*) from u a where a.i in (select b.i from u b where b.n>t.i*10)) s from t",
    "select i,(select count(*) from u a where a.i not in (select b.i from u b where b.n>t.i*10 and b.i is not "
    "null)) s from t",
    "select i, i in (select u.i from u where n>t.i*10) a, i not in (select u.i from u where n>t.i*10) b from t",
    "select i, i in (select u.i from u where n>t.i*10 and u.i is not null) a from t",
    "select i, i in (select e.i from e where n>t.i) a, i not in (select e.i from e where n>t.i) b from t",
    "select i, i > all (select u.i from u where n>t.i*10) a, i > any (select u.i from u where n>t.i*10) b from t",
    "select i, i > all (select u.i from u) a, i <= any (select u.i from u where u.i is not null) b from t",
    "select i, i > all (select e.i from e) a, i > any (select e.i from e) b, i = any(select i from u) c, i <> "
    "all(select i from u) d from t",
    "select i from t where i > all (select u.i from u where u.n<t.i*10)",
    "select i from t where not (i > any (select u.i from u where u.n<t.i*20)) or i=3",
    "select i from t where i = any (select u.i from u where u.n>t.i) or g='c'",
    "select i from t where case when i in (select u.i from u where u.n>t.i) then g='b' else g='c' end",
    "select i from t where exists (select 1 from u where u.n>t.i*10) or i is null",
    "select i from t where not exists (select 1 from u where u.n>t.i*10)",
    "select i from t where (select count(*) from u where u.i<t.i) > 1 or f>100",
    "select i from t where i in (select u.i from u where u.i=t.i)",
    "select i from t where i not in (select u.i from u where u.i=t.i)",
    "select t.i, u.n from t left join u on u.i=t.i and exists (select 1 from u x where x.n>u.n)",
    "select t.i, u.n from t left join u on u.i=t.i and t.i in (select x.i from u x where x.n>15)",
    "select t.i, u.n from t join u on u.i=t.i and u.n > (select avg(n) from u x where x.i=t.i)",
    "select t.i, u.n from t join u on u.n > (select avg(n)+t.i from u x where x.i<=u.i)",
    "select t.i, u.n from t join u on t.i in (select x.i from u x where x.n=u.n)",
    "select g, count(*) c from t group by g having count(*) >= (select count(*) from u where u.w > t.g)",
    "select g, (select count(*) from u where u.w > t.g) c, sum(i) from t group by g",
    "select g, (select count(*) from u where u.i > max(t.i)) c from t group by g",
    "select g, max(i) in (select u.i from u) c from t group by g",
    "select g, max(i) in (select u.i from u where u.w>t.g) c from t group by g",
    "select g from t group by g having max(i) > all (select u.i from u where u.i is not null and u.w>t.g)",
    "select i from t order by (select max(n) from u where u.i<=t.i) desc nulls last, i limit 3",
    "select i from t order by exists (select 1 from u where u.i=t.i), i",
    "select sum((select max(n) from u where u.i<=t.i)) s from t",
    "select g, sum((select max(n) from u where u.i<=t.i)) s, count(*) filter (where exists (select 1 from u where"
    " u.i=t.i)) c from t group by g",
    "select sum(case when i in (select u.i from u where u.n>t.i) then 1 else 0 end) s from t",
    "select count(*) filter (where i in (select u.i from u where n>t.i)) s from t",
    "select i, sum((select count(*) from u where u.i<=t.i)) over (order by i) s from t where i is not null",
    "select (select max(n) from u where u.i<=t.i) m, count(*) c from t group by 1",
    "select distinct (select max(n) from u where u.i<=t.i) m from t",
    "select t.i, j from t, lateral (select t.i+1 as j) x",
    "select * from t, lateral (select t.i+1 as j) x",
    "select t.i, x.* from t cross join lateral (select n, w from u where u.i<=t.i order by n desc limit 2) x",
    "select t.i, x.c from t, lateral (select count(*) c from u where u.i<=t.i) x",
    "select t.i, x.a from t, lateral (values (t.i), (t.i*2)) x(a)",
    "select t.i, x.n from t left join lateral (select n from u where u.i=t.i and n>10) x on x.n<30",
    "select t.i, x.n from t left join lateral (select n from u where u.i=t.i order by n limit 1) x on true where "
    "t.g<>'c'",
    "select t.i, x.n, y.m from t, lateral (select n from u where u.i=t.i) x, lateral (select x.n+t.i m) y",
    "select t.i, x.n, y.m from t left join lateral (select max(n) n from u where u.i=t.i) x on true left join "
    "lateral (select count(*) m from u where u.n<x.n) y on true",
    "select t.i, u.n, x.z from t, u, lateral (select t.i*u.n z) x where t.i=u.i",
    "select a.i, x.n from (select i from t where i<4) a join lateral (select n from u where u.i=a.i) x on x.n>10",
    "select i, (select sum(x.z) from u, lateral (select u.n+t.i z) x where u.i<=t.i) s from t",
    "select i, (select max(x.z) from u, lateral (select max(v.n) z from u v where v.i=u.i and v.n>t.i*10) x) s from t",
    "select i from t where f > (select avg(t2.f) from t t2 where t2.g=t.g)",
    "select i from t t1 where exists (select 1 from t t2 where t2.g=t1.g and t2.i>t1.i and not exists (select 1 "
    "from t t3 where t3.g=t1.g and t3.i>t2.i))",
    "select i, (select count(*) from t t2 where t2.g=t.g and t2.i<t.i) rn from t",
    "select i, (select (select (select max(n) from u where u.i<t.i))) s from t",
    "select i, coalesce((select max(n) from u where u.i<t.i), -1) + (select count(*) from u where n>t.i) s from t",
    "select i, (select max(n) from u where u.i<t.i) is null s from t",
    "select i, (select i from u where n=10) + 0 s from t",
    "select (select max(i) from t t2 where t2.g=x.g and t2.i<x.m) z, m from (select g, max(i) m from t group by g) x",
    "with x as (select i, g from t where i>1) select i, (select count(*) from x y where y.i<x.i and y.g<>x.g) c from x",
    "select i, (select max(day) from t t2 where t2.day<t.day) d, (select min(ts) from t t2 where t2.ts>t.ts) m, "
    "(select max(d) from t t2 where t2.d<t.d) dd, (select max(s) from t t2 where t2.s<t.s) ss from t",
    "select i, (select bool_and(b) from t t2 where t2.i<t.i) bb, (select any_value(g) from t t2 where t2.i=t.i) v"
    " from t",
    "select i, exists (select w from u where u.i<=t.i group by w having count(*)>1) s from t",
    "select i, exists (select 1 from u where u.i=t.i limit 0) s from t",
    "select i, exists (select 1 from u where u.i=t.i order by n limit 1 offset 1) s from t",
    "select i, (select max(n) from u where u.i<t.i) * (select min(n) from u where u.i>t.i) s from t where (select"
    " count(*) from u where u.i=t.i) < 2",
    "select (select max(n) from u where u.i < v.i) from (values (1),(2),(null)) v(i)",
    "select i, (select n from u where u.i=t.i and n=20) + (select n from u where u.n=t.i*10) s from t",
    "select i, (select case when t.i>3 then max(n) else min(n) end from u) s from t",
    "select i, (select t.i from u limit 1) s, (select t.i) r, (select t.g||t.s) q from t",
    "select i, (select u.n+t.i from u where u.i is null) s from t",
    "select i, (select sum(t.i+u.n) from u) s from t",
    "select (select sum(t.i)) s from t",
    "select i, (select max(n) from u where u.i between t.i-1 and t.i+1) s from t",
    "select i, (select max(n) from u where u.w like t.g||'%' or u.i=t.i) s from t",
    # Conditions of outer joins over both sides; totals without rows; the select list after FROM.
    "select t.i, u.n from t left join u on exists (select 1 from t y where y.i = t.i and y.i < u.n)",
    "select t.i, u.n from t left join u on t.i = u.i and (select count(*) from t y where y.i >= t.i and y.i < u.n) > 1",
    "select t.i, u.n from t left join u on t.i not in (select y.i from t y where y.i < u.n)",
    "select t.i, u.n from t right join u on (select count(*) from t y where y.i >= t.i and y.i < u.i) > 1",
    "select t.i, u.n from t full join u on t.i = u.i and exists (select 1 from t y where y.i = t.i and y.i < u.n)",
    "select a.i, b.n from t a full join u b on a.i > all (select y.i from t y where y.i > b.i)",
    "select a.i, b.n from t a full join u b on a.i + b.n in (select y.i from t y)",
    "select t.i from t semi join u on t.i = u.i and exists (select 1 from t y where y.i = t.i and y.i < u.n)",
    "select t.i from t anti join u on (select count(*) from t y where y.i >= t.i and y.i < u.i) > 0",
    "select a.i, b.i j, c.n from t a left join t b on a.i < b.i and exists (select 1 from u where u.i "
    "between a.i and b.i) left join u c on c.i = b.i and exists (select 1 from u where u.n > c.n and u.i <= "
    "a.i)",
    "select t.i, (select sum(u.n) from t a full join u on a.i > t.i and (select count(*) from t y where y.i "
    "= a.i and y.i < u.n and y.i > t.i) > 0) c from t",
    "select t.i, (select sum(u.n) from (select * from t where t.i > z.i) a left join (select * from u where "
    "n > z.i * 10) u on (select count(*) from t y where y.i = a.i and y.i < u.n) > 0) c from t z join t on "
    "z.i = t.i",
    "select t.i, (select count(*) from (select * from t where t.i > z.i) a anti join (select * from u where "
    "n > z.i * 10) u on (select count(*) from t y where y.i = a.i and y.i * 10 < u.n) > 0) c from t z join t "
    "on z.i = t.i",
    "select * from (select a.i, a.g from t a join t b on a.i = b.i where a.i in (select y.i from t y where "
    "y.g = b.g) except select i, 'a' from t) z",
    "select t.i, (select max(c) from (select u.i, count(*) c from u where u.n > t.i * 10 group by rollup "
    "(u.i)) z) m from t",
    "select t.i, (select sum(c * (g + 1)) from (select u.i, u.w, count(*) c, grouping(u.i) + 2 * "
    "grouping(u.w) g from u where u.n > t.i * 10 group by cube (u.i, u.w)) z where c > 0) m from t",
    "select t.i, (select count(*) from (select count(*) c from u where u.n > t.i * 10 group by ()) z) m from t",
    "select t.i, (select sum(n) from (select u.i + t.i k, sum(n) n from u where u.n > t.i * 10 group by "
    "grouping sets ((u.i + t.i), (), (u.i))) z) m from t",
    "select i from t where exists (select 1 from u where u.n > t.i * 10 group by rollup (u.i) having count(*) = 0)",
    "select t.i, x.n from t right join lateral (select u.n from u) x on t.i = x.n / 10",
    "from t select i, (from u select max(n) where u.i < t.i) a, exists (from u where u.i < t.i) b where i in "
    "(from u select i where n > t.i)",
    "select i, (i, 20) = any (select u.i, u.n from u) a, (i, 20) <> all (select u.i, u.n from u) b, row(i, 20) in "
    "(select row(u.i, u.n) from u) c from t",
    "select i, exists (select max(n) from u where u.i = t.i) a, not exists (select count(*) + 1 from u where u.i = t.i)"
    " b, exists (select max(n) from u where u.i = t.i having max(n) > 20) c, exists (select max(n) from e) d from t",
    "select i, x.v from t, lateral (select * from unnest([t.i, t.i * 2]) as z(v)) x",
    "select i, (select count(*) from range(t.i) as z(v) where v > 1) c from t where i is not null",
    "select l, (select sum(u.n) from unnest(x.l) z(v) join u on u.i = z.v) c, exists (select 1 from "
    "unnest(l) as z(v) where v > 3) d, (select sum(unnest) from unnest(x.l)) e from (select [i, 2] as l from "
    "t) x",
    "select l, array(select v * 2 from unnest(l) as z(v) order by v desc) c from (select [i, 2] as l from t) "
    "x where 4 in (select v from unnest(x.l) as z(v))",
    "select a.i, b.n from t a left join u b on case when exists (select 1 from t where t.i = a.i and t.i * "
    "10 = b.n) then a.i > 1 else b.n > 45 end",
    "select sum(x.n) s from t left join lateral (select b.n from u b left join u c on c.n > b.n and exists "
    "(select 1 from t y where y.i = c.i and y.i < t.i + b.n) where b.i = t.i) x on true",
    # FROM and IN within a call are not clauses. Double brackets contain the same query.
    "select i, extract(year from (select day from t y where y.g <> t.g order by i limit 1)) c from t where "
    "extract('month' from (select max(day) from t y where y.i <= t.i)) = 2",
    "select t.i from t left join u on extract(month from (select day from t y where y.g <> t.g order by i "
    "limit 1)) = u.i",
    "select i from t order by extract(year from (select max(y.day) from t y where y.i <= t.i and y.day < t.day)), i",
    "select i, substring((select w from u where u.i < t.i order by n limit 1) from 1 for 2) a, trim((select "
    "w from u where u.i < t.i order by n limit 1) from s) b from t",
    "select i, substring(s from (select u.i from u where u.i < t.i order by n limit 1) for (select u.i from "
    "u where u.i < t.i order by n desc limit 1)) a, overlay(s placing 'x' from (select u.i from u where u.i "
    "< t.i order by n limit 1)) b from t",
    "select i, position((select w from u where u.i = t.i order by n limit 1) in (select w from u where u.i < "
    "t.i order by n limit 1)) a from t where position('p' in (select w from u where u.i < t.i order by n "
    "limit 1)) in (select u.i from u where u.n > t.i)",
    "select extract(year from (select max(day) from t y where y.i <= t.i)) c, count(*) n from t group by "
    "extract(year from (select max(day) from t y where y.i <= t.i))",
    "select (select max(n) from u where u.i <= t.i) c, count(*) n from t group by (select max(n) from u "
    "where u.i <= t.i)",
    "select i, i in ((select u.i from u where u.n > t.i * 10)) a, exists ((select u.i from u where u.n > t.i "
    "* 10)) b, i > all ((select u.i from u where u.n > t.i * 10)) c, (((select max(u.i) from u where u.n > "
    "t.i * 10))) + 1 d from t",
    "select i, exists ((select u.i from u where u.n > t.i * 10) union all (select 1 from u where u.n < t.i)) "
    "a, ((select max(u.i) from u where u.n > t.i * 10) union all (select 1 from u where u.n < t.i) order by "
    "1 limit 1) b from t",
    "select i, list((select max(u.i) from u where u.n > t.i * 10) order by i) a from t group by i",
    "select x.i, (select count(*) from ((select * from t where t.i > x.i) y join (select * from u where u.n "
    "> x.i) z on y.i = z.i)) a from t x",
    "select a.i from t a join u b on a.i = b.i where a.g in (select y.g from t y where y.i < b.n)",
    "select i, (select max(j) from (values (((select max(u.i) from u where u.n > t.i * 10))), (((t.i)))) "
    "v(j)) a from t",
]


@pytest.fixture
def known(duck: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    for name, table in TABLES.items():
        duck.register(name, table)
    return duck


def _rows(query: str, threads: int = 2) -> pa.Table:
    return qcore.sql(query, TABLES, threads=threads, dialect="duckdb").to_arrow()


@pytest.mark.parametrize("query", every(3, QUERIES))
def test_as_duckdb(query: str, known: duckdb.DuckDBPyConnection) -> None:
    expected = known.sql(query).to_arrow_table()
    for threads in (1, 8):
        assert_same_rows(_rows(query, threads), expected)


@pytest.mark.parametrize(
    ("rows", "same"),
    [
        ("(i, g) in (select u.i, 'a' from u where u.n >= t.i * 10)", "u.i = t.i and t.g = 'a'"),
        ("(i, n) in (select u.i, u.n from u where u.w > t.g)", "u.i = t.i and u.n = t.n and u.w > t.g"),
    ],
)
def test_rows_in_a_correlated_subquery(rows: str, same: str, known: duckdb.DuckDBPyConnection) -> None:
    """DuckDB lacks IN of rows over a correlated subquery. The oracle has EXISTS."""
    table = "(select i, g, i * 10 as n from t) t"
    expected = known.sql(f"select i from {table} where exists (select 1 from u where {same} and u.n >= t.i * 10)")
    assert_same_rows(_rows(f"select i from {table} where {rows}"), expected)


def test_totals_of_no_rows_beside_each_row(known: duckdb.DuckDBPyConnection) -> None:
    """In DuckDB grouping() of a total in a subquery is null, and elsewhere 1."""
    body = "select u.i j, count(*) c, grouping(u.i) o from u where u.n > t.i * 10 group by rollup (u.i)"
    query = f"select t.i, x.j, x.c, x.o from t left join lateral ({body}) x on true"
    expected = known.sql(f"select i, j, c, coalesce(o, 1) o from ({query})").to_arrow_table()
    assert_same_rows(_rows(query), expected)


def test_names_of_columns() -> None:
    query = "select (select max(n) from u where u.i < t.i) as top, x.*, i from t, lateral (select t.i + 1 as j) x"
    assert _rows(query).column_names == ["top", "j", "i"]
    assert _rows("select * from t, lateral (select t.i + 1 as j)").column_names == [*T.column_names, "j"]


@pytest.mark.parametrize(
    "query",
    [
        "select i, (select n from u where u.i = t.i) from t",
        "select i from t where (select n from u where u.i <= t.i) > 10",
        "select (select (select u.n from u where u.i = t.i) from e right join u x on x.n = 10) from t",
    ],
)
def test_more_than_one_row(query: str) -> None:
    for threads in (1, 8):
        with pytest.raises(qcore.ExecutionError, match=r"scalar subquery returned \d rows.*LIMIT 1"):
            _rows(query, threads)


@pytest.mark.parametrize(
    ("query", "message"),
    [
        (
            "select (select count(*) from (select 1 from u where u.i < t.i group by grouping sets ((), ())) x) from t",
            "more than one empty grouping set.*UNION ALL",
        ),
        (
            "select t.i, x.n from t right join lateral (select u.n from u where u.i = t.i) x on true",
            "reads the tables before it .LATERAL. is not possible.*use JOIN or LEFT JOIN",
        ),
        ("select i, (select max(n) from u where u.i < t.k) from t", "'t.k'|'k'"),
        ("select i, (select n, w from u where u.i < t.i) from t", "one column"),
        (
            "select (with recursive r as (select 1 as x union all select x + 1 from r where x < t.i) select max(x) "
            "from r) from t",
            "WITH RECURSIVE|unknown column|cannot be used",
        ),
    ],
)
def test_refused(query: str, message: str) -> None:
    with pytest.raises(qcore.PlanError, match=message):
        _rows(query)
