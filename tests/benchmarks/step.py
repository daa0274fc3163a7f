"""One full GRPO step (rollout, reward, gradient, update) against TRL's GRPOTrainer on the same weights.

    python -m tests.benchmarks.step [--json] [--runs 7] [--threads N]

Same batch, prompt and reply lengths, end token, learning rate and clip; no KL term on either side. After each of TRL's
steps a callback does one of ours, so the two are timed in turn, in one process.
"""

import statistics
import tempfile
import time
import warnings
from dataclasses import replace

import torch

from arl_mini.algorithms import GRPO
from arl_mini.models import TINY, TinyLM
from arl_mini.models.tokenizer import END, build
from arl_mini.rollout import Limits
from arl_mini.train import train

from .generation import WORDS, Say, prompt_ids
from .paired import options, show

WARM_UP = 2  # steps of each that do not count


def paired_step(name: str, runs: int, *, size: str, prompt: int, new: int, groups: int, tries: int) -> dict:
    """One row: the median over `runs` of TRL's seconds divided by ours, step by step."""
    policy = TinyLM.new(size, build(WORDS), seed=0)
    policy.format = replace(TINY, stops=(END,))
    env = Say(prompt)
    run = train(
        policy.copy(), env, GRPO(), steps=10_000, prompts=groups, tries=tries, lr=1e-5,
        limits=Limits(new, 1, prompt + new + 1),
    )  # fmt: skip
    ours, theirs = time_in_turn(policy, env, run, runs + WARM_UP, groups=groups, tries=tries, new=new)
    ours, theirs = ours[WARM_UP:], theirs[WARM_UP:]
    ratios = [b / a for a, b in zip(ours, theirs)]
    tokens = groups * tries * new
    return {
        "name": name, "ratio": round(statistics.median(ratios), 3),
        "ratio_min": round(min(ratios), 3), "ratio_max": round(max(ratios), 3),
        "ours_tokens_per_s": round(tokens / statistics.median(ours)),
        "theirs_tokens_per_s": round(tokens / statistics.median(theirs)),
        "runs": runs, "threads": torch.get_num_threads(), "batch": groups * tries, "prompt": prompt, "new": new,
    }  # fmt: skip


def time_in_turn(policy, env, run, steps: int, *, groups: int, tries: int, new: int):
    """Seconds of each of our steps and of each of TRL's, taken in turn."""
    from datasets import Dataset
    from transformers import TrainerCallback
    from trl import GRPOConfig, GRPOTrainer

    seconds: dict[str, list[float]] = {"ours": [], "theirs": []}

    class Turns(TrainerCallback):
        def on_step_begin(self, args, state, control, **_):
            if not seconds["theirs"]:
                self.start = time.perf_counter()

        def on_step_end(self, args, state, control, **_):
            now = time.perf_counter()
            seconds["theirs"].append(now - self.start)
            next(run)
            self.start = time.perf_counter()
            seconds["ours"].append(self.start - now)

    prompts = [policy.tokenizer.decode(ids) for ids in prompt_ids(policy, env, range(256))]
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        config = GRPOConfig(
            output_dir=folder, use_cpu=True, bf16=False, per_device_train_batch_size=groups * tries,
            num_generations=tries, max_completion_length=new, learning_rate=1e-5, beta=0.0, temperature=1.0,
            top_k=0, loss_type="grpo", max_steps=steps, report_to=[], save_strategy="no",
            gradient_checkpointing=False, disable_tqdm=True, logging_strategy="no",
        )  # fmt: skip
        trainer = GRPOTrainer(
            model=policy.to_hf(), reward_funcs=lambda completions, **_: [float(len(c) % 7) for c in completions],
            args=config, train_dataset=Dataset.from_dict({"prompt": prompts}),
            processing_class=policy.tokenizer, callbacks=[Turns()],
        )  # fmt: skip
        trainer.train()
    return seconds["ours"], seconds["theirs"]


def main() -> None:
    chosen = options(__doc__)
    cases = {
        "GRPO step, 0.1M, B = 64": dict(size="nano", prompt=32, new=32, groups=8, tries=8),
        "GRPO step, 0.7M, B = 64": dict(size="micro", prompt=32, new=32, groups=8, tries=8),
    }
    rows = [paired_step(n, chosen.runs, **facts) for n, facts in cases.items() if chosen.only in n]
    show(rows, chosen.json)


if __name__ == "__main__":
    main()
