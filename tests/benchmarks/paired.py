"""Paired timings: two ways of doing the same work, in turn, in one process; the median of the ratios counts."""

import argparse
import json
import statistics
import time

import torch


def peak_gflops(size: int = 1024, times: int = 10) -> float:
    """Measured speed of a large float32 matrix product on this machine, GFLOP/s."""
    a = torch.randn(size, size)
    a @ a
    start = time.perf_counter()
    for _ in range(times):
        a @ a
    return 2 * size**3 * times / (time.perf_counter() - start) / 1e9


def pair(name: str, ours, theirs, runs: int, **facts) -> dict:
    """Times ours() and theirs() in turn after one warm-up each. Both return the number of tokens they made."""
    ours(), theirs()
    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}
    tokens = {}
    for _ in range(runs):
        for who, work in (("ours", ours), ("theirs", theirs)):
            start = time.perf_counter()
            tokens[who] = work()
            seconds[who].append(time.perf_counter() - start)
    rates = {who: [tokens[who] / s for s in seconds[who]] for who in seconds}
    ratios = [a / b for a, b in zip(rates["ours"], rates["theirs"])]
    return {
        "name": name,
        "ratio": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3),
        "ratio_max": round(max(ratios), 3),
        "ours_tokens_per_s": round(statistics.median(rates["ours"])),
        "theirs_tokens_per_s": round(statistics.median(rates["theirs"])),
        "runs": runs,
        "threads": torch.get_num_threads(),
        **facts,
    }


KINDS = {
    "matrix products": ("aten::mm", "aten::addmm"),
    "attention": ("aten::bmm", "aten::baddbmm", "aten::_softmax", "aten::index_copy_"),
    "norms": ("aten::_fused_rms_norm", "aten::pow", "aten::mean", "aten::rsqrt", "aten::add_", "aten::div_", "aten::sum"),
    "sampling": ("aten::cumsum", "aten::searchsorted", "aten::gather", "aten::log"),
}


def profile(work) -> dict[str, float]:
    """Shares of the wall time of work() by kind of operation; the rest is Python and the dispatch of operations.

    Operators' own times are those of torch's profiler (which slows small ones down), the wall time is measured without
    it. The softmax over the vocabulary counts as attention: the profiler sees one operator.
    """
    work()
    start = time.perf_counter()
    work()
    wall = time.perf_counter() - start
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as seen:
        work()
    own = {event.key: event.self_cpu_time_total / 1e6 for event in seen.key_averages()}
    shares = {kind: sum(own.pop(name, 0.0) for name in names) for kind, names in KINDS.items()}
    views = ("view", "slice", "as_strided", "transpose", "select", "expand", "chunk", "split", "unsqueeze", "reshape")
    dispatch = sum(t for name, t in own.items() if any(v in name for v in views))
    shares["other operations"] = sum(own.values()) - dispatch
    shares["Python and dispatch"] = max(wall - sum(shares.values()), 0.0)
    return {kind: round(t / max(wall, sum(shares.values())), 3) for kind, t in shares.items()}


def options(about: str) -> argparse.Namespace:
    """--json, --runs, --threads."""
    parser = argparse.ArgumentParser(description=about)
    parser.add_argument("--json", action="store_true", help="print a list of rows instead of a table")
    parser.add_argument("--runs", type=int, default=7, help="paired runs a row (default 7)")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--only", default="", help="only rows whose name contains this")
    chosen = parser.parse_args()
    torch.set_num_threads(chosen.threads)
    return chosen


def show(rows: list[dict], as_json: bool) -> None:
    """Prints the rows."""
    if as_json:
        print(json.dumps(rows, indent=1))
        return
    print(f"{'':44} {'ratio':>6} {'min–max':>12} {'ours':>9} {'theirs':>9}  tokens/s")
    for r in rows:
        spread = f"{r['ratio_min']:.2f}–{r['ratio_max']:.2f}"
        print(f"{r['name']:44} {r['ratio']:6.2f} {spread:>12} {r['ours_tokens_per_s']:9,} {r['theirs_tokens_per_s']:9,}")
    for r in rows:
        if "profile" in r:
            print(f"{r['name']}: " + ", ".join(f"{kind} {share:.0%}" for kind, share in r["profile"].items()))
            print(f"    {r['model_gflops']:.0f} GFLOP/s of model arithmetic for the sampled tokens")
    print(f"machine: {peak_gflops():.0f} GFLOP/s matrix product peak, {torch.get_num_threads()} thread(s)")
