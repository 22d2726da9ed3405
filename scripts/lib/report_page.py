"""The report as one page of HTML: no other file and no network is needed to look at it."""

import html
import json
import pathlib

from units import seconds, size

HERE = pathlib.Path(__file__).resolve().parent


def _words(advice):
    return "".join(f'<li class="{level}">{html.escape(text)}</li>' for level, text in advice)


def _chart(figure):
    buttons = "".join(f'<button data-of="{figure["id"]}" data-format="{kind}" title="save this chart">{kind.upper()}</button>' for kind in ("png", "svg"))
    return (f'<section><div class="head"><h2>{html.escape(figure["title"])}</h2>{buttons}</div>'
            f'<div class="chart" id="{figure["id"]}" style="min-height:{figure["height"]}px"></div><p class="note">{html.escape(figure["note"])}</p></section>')


def _site(frames, skip):
    """The innermost frame that is not everybody's (the allocator), and all of them on demand."""
    if not frames:
        return "unknown"
    short = frames[skip if skip < len(frames) else 0].split("!", 1)[-1]
    rows = "".join(f"<li><code>{html.escape(frame)}</code></li>" for frame in frames)
    return f"<details><summary><code>{html.escape(short[:90])}</code></summary><ol>{rows}</ol></details>"


def shared_frames(rows):
    """How many of the innermost frames all call sites have in common, where there are several."""
    sites = [row["site"] for row in rows if row["site"]]
    if len(sites) < 2:
        return 0
    same = 0
    while all(len(site) > same + 1 for site in sites) and len({site[same] for site in sites}) == 1:
        same += 1
    return same


def dearest(rows):
    if not rows:
        return ""
    skip = shared_frames(rows)
    lines = []
    for row in rows:
        paid = {True: "yes", False: "no", None: "?"}[row["paid"]]
        cells = [size(row["size"]), size(row["moved_in_bytes"]), size(row["moved_out_bytes"]), f"{row['returns']:,}", f"{row['reuse_distance']:,}",
                 seconds(row["transfer_seconds"]), seconds(row["away_seconds"])]
        lines.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + f'<td class="{paid}">{paid}</td><td>{_site(row["site"], skip)}</td></tr>')
    heads = ["each", "came in", "went out", "returns", "reuse in", "transfers", "away", "paid", "allocated in"]
    return ('<section><h2>The dearest allocations</h2><p class="note">Allocations of one size from one place are a row. <i>Reuse in</i>: operations from one use to the next. '
            '<i>Paid</i>: there was more to do while it was away (<i>away</i>) than its transfers took.</p><div class="scroll"><table><thead><tr>'
            + "".join(f"<th>{head}</th>" for head in heads) + "</tr></thead><tbody>" + "".join(lines) + "</tbody></table></div></section>")


def _shown(name, value):
    if name.endswith("bytes") and isinstance(value, int):
        return size(value)
    return f"{value:,}" if isinstance(value, (int, float)) else str(value)


def counters(statistics):
    rows = "".join(f"<tr><td>{html.escape(name)}</td><td>{_shown(name, value)}</td></tr>" for name, value in statistics.items() if isinstance(value, (int, float, str)))
    return f'<section class="counters"><details><summary>All counters</summary><div class="scroll"><table>{rows}</table></div></details></section>'


def page(title, files, figures, cards, advice, extra, library):
    """cards: [(value, what it is)]; figures: report_charts'; extra: HTML behind the charts; library: plotly.js."""
    data = json.dumps(figures, separators=(",", ":")).replace("</", "<\\/")
    shown = "".join(f"<div><b>{html.escape(value)}</b><span>{html.escape(what)}</span></div>" for value, what in cards)
    style, script = (HERE / "report.css").read_text(encoding="utf-8"), (HERE / "report.js").read_text(encoding="utf-8")
    drawn = "\n".join(f"<script{kind}>{text}</script>" for kind, text in (("", library.replace("</script", "<\\/script")), (' type="application/json" id="figures"', data), ("", script)))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{html.escape(title)}</title><style>{style}</style></head>
<body><main>
<header><h1>{html.escape(title)}</h1><p>{html.escape(files)}</p><button id="scheme" title="light or dark">&#9680;</button></header>
<div class="figures">{shown}</div>
<section><h2>What it says</h2><ul class="words">{_words(advice)}</ul></section>
{"".join(map(_chart, figures))}
{extra}
</main>
{drawn}
</body></html>
"""
