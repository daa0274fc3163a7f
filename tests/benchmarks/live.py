"""What watching a run costs: steps under lab.live, in a real kernel, against the same steps in a plain loop.

    python -m tests.benchmarks.live [--json] [--runs 8] [--threads N]

The same seed twice, so that each step does the same work; some steps of one, then the same of the other, in turn. The
widget is shown, its messages go out through the kernel, and states are kept for rewinding. CPU seconds count all
threads of the process and are not moved by what else the machine does; wall seconds are.
"""

import json
import queue
import statistics
import time

from .paired import options

STEPS = 6  # of each in a turn


def measure(runs: int, threads: int) -> dict:
    """Run inside a kernel: the cost of each turn's steps under lab.live, over that of a plain loop, less one."""
    import torch
    from IPython.display import display

    from arl_mini import envs, experiments, lab, models
    from arl_mini.algorithms import GRPO
    from arl_mini.train import train

    torch.set_num_threads(threads)
    settings = experiments.ch00.QUEST | dict(steps=STEPS * (runs + 1), seed=0)
    plain, watched = (train(models.load("quest-novice"), envs.Quest(), GRPO(), **settings) for _ in range(2))
    live = lab.live(watched, title="cost", show=("success", "signal_share", "entropy"))
    live.pause()
    display(live)
    turns = []
    for turn in range(runs + 1):
        alone = _cost(lambda: [next(plain) for _ in range(STEPS)])
        turns.append((alone, _cost(lambda turn=turn: _go_on(live, STEPS * (turn + 1)))))
    assert live.state == "paused" and len(live.records) == plain.step, "both must have done the same steps"
    live.stop()
    cpu, wall = ([watching[i] / alone[i] - 1 for alone, watching in turns[1:]] for i in (0, 1))
    whole = sum(watching[0] for _, watching in turns[1:]) / sum(alone[0] for alone, _ in turns[1:]) - 1
    step = statistics.median(alone[1] for alone, _ in turns) / STEPS
    return {"cpu": cpu, "wall": wall, "whole": whole, "seconds a step": step, "kept": live.kept, "size": live._history.size}


def _cost(work) -> tuple[float, float]:
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    return time.process_time() - cpu, time.perf_counter() - wall


def _go_on(live, count: int) -> None:
    live._worker.go(STEPS)
    while len(live.records) < count or live.state != "paused":
        time.sleep(0.01)


def main() -> None:
    """Starts a kernel, measures in it, prints."""
    from jupyter_client.manager import start_new_kernel

    chosen = options(__doc__.splitlines()[0])
    manager, client = start_new_kernel(kernel_name="python3")
    try:
        asked = f"measure({chosen.runs}, {chosen.threads})"
        code = f"import json\nfrom tests.benchmarks.live import measure\nprint(json.dumps({asked}))"
        client.execute(code)
        told = ""
        while not told.endswith("}\n"):
            message = client.get_iopub_msg(timeout=300)
            if message["msg_type"] == "error":
                raise RuntimeError("\n".join(message["content"]["traceback"]))
            if message["msg_type"] == "stream":
                told += message["content"]["text"]
    except queue.Empty:
        raise RuntimeError("the kernel said nothing for five minutes") from None
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)
    found = json.loads(told[told.index("{"):])
    if chosen.json:
        print(json.dumps(found))
        return
    for name in ("cpu", "wall"):
        shares = found[name]
        print(f"{name:4} time: {statistics.median(shares):+.1%} (median of {len(shares)} turns of {STEPS} steps; "
              f"{min(shares):+.1%} to {max(shares):+.1%})")
    print(f"cpu time of all turns together: {found['whole']:+.1%}")
    print(f"a step takes {found['seconds a step']:.2f} s; a kept state {found['size'] / 1e6:.1f} MB, "
          f"{len(found['kept'])} of them")


if __name__ == "__main__":
    main()
