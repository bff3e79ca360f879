"""The chart of the README: each row's time to that of the fastest other engine, as an SVG for light and dark pages."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from xml.sax.saxutils import escape

from measurement import Measured, Target, geometric_mean

WIDTH, LEFT, RIGHT, LINE, TOP = 760, 230, 60, 20, 78
# Bars end here; the figure beside a longer one tells its length.
RATIO_MAX = 1.4
# By the beginnings of rows' names: groups of which one bar shows the mean.
MEANS = {
    "tpch arrow": "TPC-H, tables in memory",
    "tpch parquet": "TPC-H, Parquet",
    "written by": "TPC-H Q1, Q6 by six writers",
    "ssb parquet": "SSB, Parquet",
    "tpcds parquet": "TPC-DS, Parquet",
    "sf10 parquet": "TPC-H at scale 10, Parquet",
}
STYLE = """
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.small { font-size: 11px; fill: #59636e }
.title { font-size: 14px; font-weight: 600 }
.bar { fill: #3b82c4 }
.slow { fill: #c2762b }
.mark { stroke: #1f2328; stroke-width: 2 }
.line { stroke: #8b949e; stroke-width: 1 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 }
  .small { fill: #9198a1 }
  .bar { fill: #58a6ff }
  .slow { fill: #e3a35a }
  .mark { stroke: #e6edf3 }
}
"""


def bars(rows: Sequence[Measured]) -> Iterable[tuple[str, float, float | None]]:
    """Name, ratio to the fastest other engine, and target of each bar. Means have targets of their own below."""
    for begin, name in MEANS.items():
        of_mean = [row for row in rows if row.name.startswith(begin) and row.ratio(Target(1)) is not None]
        if of_mean:
            peers = {peer for row in of_mean for peer in row.peers(Target(1))}
            alone = ", to DuckDB" if peers == {"duckdb"} else ""
            ratios = [ratio for row in of_mean if (ratio := row.ratio(Target(1))) is not None]
            yield f"{name} ({len(ratios)}){alone}", geometric_mean(ratios), None
    for row in rows:
        if not row.name.startswith(tuple(MEANS)) and row.targets:
            ratio = row.ratio(row.targets[0])
            if ratio is not None:
                yield row.name, ratio, row.targets[0].ratio


def draw(machine: str, rows: Sequence[Measured], path: Path) -> None:
    """Write the chart."""
    shown = list(bars(rows))
    bottom = TOP + LINE * len(shown)
    scale = (WIDTH - LEFT - RIGHT) / RATIO_MAX
    rounds = sorted({len(times) for row in rows for times in row.seconds.values()})
    dates = sorted({row.date for row in rows})
    span = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {bottom + 66}" role="img">',
        f"<style>{STYLE}</style>",
        '<text class="title" x="8" y="22">Time of qcore to that of the fastest other engine (lower is better)</text>',
        '<text class="small" x="8" y="40">The others are DuckDB, Polars (streaming, in memory) and DataFusion. '
        "The mark is the project's target.</text>",
    ]
    for ratio in (0, 0.25, 0.5, 0.75, 1, 1.25):
        x = LEFT + ratio * scale
        dash = "" if ratio == 1 else ' stroke-dasharray="2 4"'
        parts.append(f'<line class="line" x1="{x:.1f}" x2="{x:.1f}" y1="{TOP - 6}" y2="{bottom}"{dash}/>')
        parts.append(f'<text class="small" x="{x:.1f}" y="{TOP - 12}" text-anchor="middle">{ratio:g}</text>')
    for number, (name, ratio, target) in enumerate(shown):
        y = TOP + LINE * number
        width = min(ratio, RATIO_MAX) * scale
        kind = "bar" if ratio <= 1 else "bar slow"
        parts.append(f'<text x="{LEFT - 8}" y="{y + 14}" text-anchor="end">{escape(name)}</text>')
        parts.append(f'<rect class="{kind}" x="{LEFT}" y="{y + 3}" width="{width:.1f}" height="{LINE - 6}" rx="2"/>')
        figure = LEFT + width + 5
        if target is not None:
            x = LEFT + target * scale
            parts.append(f'<line class="mark" x1="{x:.1f}" x2="{x:.1f}" y1="{y + 1}" y2="{y + LINE - 1}"/>')
            # Beside the mark, where it would cross the figure.
            figure = x + 5 if figure - 4 < x < figure + 28 else figure
        parts.append(f'<text class="small" x="{figure:.1f}" y="{y + 14}">{ratio:.2f}</text>')
    processor, _, engines = machine.partition(", ")
    threads = sorted({row.threads for row in rows})
    conditions = f"{'/'.join(map(str, threads))} threads, medians of {'/'.join(map(str, rounds))} rounds in turns"
    # The engines themselves make a load of as many as their threads.
    load = max((row.load for row in rows), default=0)
    busy = f"; other work on the machine, load up to {load:.0f}" if threads and load > threads[-1] + 1 else ""
    measured = f"{conditions}, {span}; {processor}{busy}"
    parts.append(f'<text class="small" x="8" y="{bottom + 24}">{escape(measured)}</text>')
    parts.append(f'<text class="small" x="8" y="{bottom + 42}">{escape(engines)}</text>')
    path.write_text("\n".join([*parts, "</svg>"]) + "\n")
