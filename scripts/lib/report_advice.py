"""What to do about it, in words. Each piece: (level, text): 'good', 'advice' or 'warning'.

Only variables that exist are named; a test holds them against the table of variables.
"""

from units import rate, seconds, size

NEARLY_FULL = 0.95
LINK_BOUND = 1.05  # the bound over the compute time
SCHEDULE_LOSES = 1.15  # a round over the bound
OUTSIDE_LARGE = 0.25  # of HBM
STALLED = "stalled"  # the name of a span in which a stream waited for a copy


def of_statistics(s):
    found = []
    devices = s.get("devices", [])
    hbm, host = (sum(device.get(key, 0) for device in devices) for key in ("hbm_limit", "host_limit"))
    if s.get("mode") == "off":
        return [("warning", "hbmspill was off (HBMSPILL=off): nothing was watched.")]
    if s.get("mode") == "observe":
        found.append(("advice", "HBMSPILL=observe: it was counted, nothing was moved. HBMSPILL=on spills."))
    if s["launches"] and not s["managed_allocations"]:
        found.append(("warning", "No allocation could be spilled: the job's allocator hides its tensors from the driver. `hbmspill doctor' says which variable does that."))
    if not s["peak_spilled_bytes"]:
        found.append(("good", f"Everything fitted: at most {size(s['peak_hbm_bytes'])}" + (f" of {size(hbm)} of HBM." if hbm else " of HBM.")))
    else:
        found += _spilled(s, devices, host)
    if s["open_launches"]:
        found.append(("advice", f"{s['open_launches']:,} launches were of kernels that may touch anything; what is spilled they reach over the link. "
                                "scripts/gpu-admit finds out which of them touch only what they are given; HBMSPILL_ADMITTED takes its table."))
    for device in devices:
        if device.get("outside_bytes", 0) > OUTSIDE_LARGE * device["hbm_limit"]:
            found.append(("advice", f"{size(device['outside_bytes'])} of {size(device['hbm_limit'])} of HBM are memory that is never moved: small allocations, libraries, modules. "
                                    "A lower HBMSPILL_MIN_SIZE lets smaller allocations be spilled."))
    return found


def _spilled(s, devices, host):
    found = []
    stalled = s.get("stalled_seconds", 0)
    found.append(("good", f"It ran with {size(s['peak_spilled_bytes'])} more than HBM held: {size(s['bytes_in'])} came in, {size(s['bytes_out'])} went out, "
                          f"streams stood still for {seconds(stalled)}."))
    if s["refused"]:
        found.append(("warning", f"{s['refused']:,} requests were refused because both tiers were full: raise HBMSPILL_HOST_LIMIT, or make the job smaller."))
    elif host and s["peak_host_bytes"] > NEARLY_FULL * host:
        found.append(("advice", f"Host memory was nearly full ({size(s['peak_host_bytes'])} of {size(host)}): raise HBMSPILL_HOST_LIMIT before the job grows."))
    if s.get("linked_operations"):
        found.append(("advice", f"{s['linked_operations']:,} operations read or wrote spilled memory over the link, because what they touch did not fit together or was not known."))
    unpaid = [row for row in s.get("dearest", ()) if row["paid"] is False]
    if unpaid:
        moved = sum(row["moved_in_bytes"] + row["moved_out_bytes"] for row in unpaid)
        found.append(("advice", f"{size(moved)} were moved for allocations that come back too soon for it to be hidden (the rows marked `no' below): "
                                "a smaller batch, rematerialization (jax.checkpoint), or more HBM would help most there."))
    operations = s["launches"] + s["copies"]
    if operations and not s["planned_operations"] and not s["rounds_found"]:
        found.append(("advice", "No round that repeats was found, so nothing could be planned: the job is served by HBMSPILL_POLICY alone. "
                                "Steps of changing shapes, or fewer than three of them, look like that."))
    for device in devices:
        if not device.get("link_measured"):
            found.append(("advice", "The link to the host was not measured; its rates are taken to be those of a PCIe 4 card."))
        else:
            found.append(("good", f"The link moved {rate(device['link_in_bytes_per_second'])} in and {rate(device['link_out_bytes_per_second'])} out when it was measured."))
    return found


def of_events(events):
    """What the job's own events come to."""
    spans = [span for spans in events.lanes.values() for span in spans]
    timed = [span for span in spans if span.args.get("time", "of the device").startswith("of the device")] or spans
    length = max(span.end for span in timed) - min(span.begin for span in timed)
    found = [("good", f"The events are of {seconds(length)}.")]
    for way, lane in (("in", "copies in"), ("out", "copies out")):
        moved = [span for name, spans in events.lanes.items() if name.endswith(lane) for span in spans]
        timed = [span for span in moved if span.end > span.begin]
        busy = sum(span.end - span.begin for span in timed)
        if moved:
            text = f"{len(moved):,} copies {way}: {size(sum(span.args.get('bytes', 0) for span in moved))}"
            if busy:
                text += f", at {rate(sum(span.args.get('bytes', 0) for span in timed) / busy)}; the link was busy that way for {100 * busy / length:.0f} % of the time"
            found.append(("good", text + "."))
    stalled = [span for span in spans if span.name == STALLED]
    if stalled:
        worst = max(stalled, key=lambda span: span.end - span.begin)
        found.append(("advice", f"Waits for a copy in them: {len(stalled):,}, the longest of {seconds(worst.end - worst.begin)}; not every wait is timed."))
    return found


def of_replay(replay, bound):
    """replay: hbmspill-replay's JSON for the machine in question; bound: scripts/bound's JSON, or None."""
    row, found = replay["rows"][0], []
    hbm, live, largest = row["hbm_bytes"], replay["live_bytes"], replay["largest_operation_bytes"]
    found.append(("good", f"All that is live at once fits in {size(live)}; one operation alone touches up to {size(largest)}."))
    if not row["fits"]:
        found.append(("warning", f"With {size(hbm)} it does not fit."))
        return found
    if largest > hbm / 2 and live > hbm:
        found.append(("advice", f"One operation touches {size(largest)}, more than half of HBM: little can come in ahead of it. A smaller batch, or layers that are not "
                                "scanned as one array, leave more room; HBMSPILL_SLICE=1 (the default) keeps temporaries apart."))
    if not bound or not replay["rounds"]:
        return found
    least, took, compute = bound["bound_seconds"], row["round_seconds"], replay["compute_seconds"]
    if least > LINK_BOUND * compute:
        found.append(("advice", f"This job is link-bound: no schedule takes less than {least / compute:.2f} times its compute time here, because what has to move takes longer than there is "
                                "to hide it behind. Rematerialization (jax.checkpoint), a smaller batch or more HBM would help; settings will not."))
    if took > SCHEDULE_LOSES * least:
        found.append(("advice", f"The greedy schedule takes {took / least:.2f} times the bound. HBMSPILL_PLAN=auto (the default) has a better one made beside the job and keeps it for the next start."))
    elif live > hbm:
        found.append(("good", f"The schedule is within {max(0, round(100 * (took / least - 1)))} % of what any can reach (modelled)."))
    return found
