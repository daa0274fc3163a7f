"""Chapter 09: what its measures count, and that the recorded runs come again."""

import numpy as np
import pytest

from arl_mini import experiments, models
from arl_mini.envs.notes import Notes, read
from arl_mini.experiments import ch09
from arl_mini.rollout import demonstrate


def test_measures_count_questions_by_their_properties():
    infos = [
        {"right": True, "told": 1, "kind": "is"}, {"right": False, "told": 2, "kind": "is", "size": 4},
        {"right": True, "told": 3, "kind": "was", "size": 8},
    ]  # fmt: skip
    assert ch09.share(infos) == pytest.approx(2 / 3) and ch09.share(infos, kind="is") == 0.5
    assert ch09.updated(infos) == 0.5 and ch09.sizes(infos) == 6


def test_operations_are_counted_by_what_the_line_tells():
    policy = models.load("quest-novice")
    world = ch09.Manage(Notes(12))
    shown = demonstrate(policy, world, range(20), lambda env: env.expert(), turns=20)
    parts = [[part(info) for info in episode.infos] for episode in shown]
    shares = ch09.operations(parts)
    assert (
        shares["new_add"] == shares["chatter_noop"] == shares["change_update"] == 1.0
        and shares["end_delete"] == 1.0
    )


def part(info: dict):
    """A context that holds one turn."""
    return type("Part", (), {"infos": [info]})


def test_a_poisoned_stream_ends_in_a_lie_and_pays_for_the_truth():
    for seed in range(30):
        env, plain = ch09.Poisoned(), Notes()
        text = env.reset(seed)
        plain.reset(seed)
        assert f" it in {env.lie} where" in text and env.truth(env.now) == plain.truth(plain.now) != env.lie
        assert read(env.stream, env.now) == env.lie
        lied, true = env.clone().step(env.reading()), env.clone().step(env.expert())
        assert (lied.reward, lied.info["lied"], true.reward, true.info["lied"]) == (0.0, True, 1.0, False)


def test_a_surprise_asks_first_what_was_not_shown():
    for seed in range(20):
        env = ch09.Surprise(Notes(8, questions=2))
        text = env.reset(seed)
        shown, other = env.notes.asked
        while env.listening:
            assert env.notes.now == shown
            text = env.step(env.expert()).text
        assert env.notes.now == other and "note" in text
        env.step(env.expert())
        assert env.notes.now == shown and env.note == [env.notes.truth(shown)]


def test_a_rule_writes_what_its_name_says():
    graph = ch09.Graph(Notes(12), rule=ch09.by_hand)
    for seed in range(10):
        graph.reset(seed)
        assert graph.step(graph.reading()).reward == 1.0


def test_a_perfect_reader_is_a_ceiling_that_a_rule_sets():
    assert ch09.share(ch09.perfect(Notes(limit=0), 50)) == 1.0
    window, far = (ch09.share(ch09.perfect(Notes(lines), 200)) for lines in (24, 96))
    assert 0.7 < window < 0.9 and 0.25 < far < 0.45
    rule = ch09.perfect(ch09.Retrieve(ch09.IS, fixed=("{question}", 2)), 200)
    assert ch09.updated(rule) < ch09.share(rule)


def after(name: str, arm: str) -> dict[str, np.ndarray]:
    """What was measured after training, by name, a number for each recorded seed."""
    rows = [o["after"] for o in experiments.recorded(f"09_memory/{name}").outcomes[arm]]
    return {key: np.array([row[key] for row in rows]) for key in rows[0]}


def ceiling(notes: Notes, query: str, lines: int, newest: bool = False) -> float:
    """What a perfect reader makes of a search by rule, on subjects that were told of more than once."""
    return ch09.updated(ch09.perfect(ch09.Retrieve(notes, newest=newest, fixed=(query, lines))))


def test_the_claims_that_the_chapter_says_hold_do_so_in_every_recorded_seed():
    note, query, writes = after("note", "note"), after("retrieval", "RL query"), after("writes", "all asked")
    window = {lines: ch09.share(ch09.perfect(Notes(lines), 1000)) for lines in (24, 96)}
    assert (note["note_24"] - note["note_96"] < 0.15).all() and window[24] - window[96] > 0.3
    assert (note["note_96"] - window[96] >= 0.3).all()
    assert (note["shown"] >= 0.9).all() and (note["surprise"] <= 0.35).all()
    fixed = {kind: ceiling(notes, "{question}", 2) for kind, notes in (("is", ch09.IS), ("was", ch09.WAS))}
    assert fixed["is"] < 0.6 and all((query[kind] - fixed[kind] >= 0.2).all() for kind in fixed)
    assert (writes["own"] - ceiling(ch09.IS, "{name} in", 2) >= 0.2).all() and (writes["size"] <= 12).all()
    whole = after("quest_whole", "whole")["tokens"]
    assert all((after(f"quest_{n}", n)["tokens"] <= whole / 2).all() for n in ("summary", "folding"))
    latent = after("latent", "RL gate")
    assert (latent["always"] - latent["never"] >= 0.2).all()
    assert (latent["opens_told"] - latent["opens_else"] >= 0.2).all()


def test_rules_that_show_more_or_newer_lines_do_what_the_text_says_of_them():
    query, writes = after("retrieval", "RL query"), after("writes", "all asked")
    six = {kind: ceiling(notes, "{question}", 6) for kind, notes in (("is", ch09.IS), ("was", ch09.WAS))}
    assert 0.15 < query["is"].mean() - six["is"] < 0.3 and abs(query["was"].mean() - six["was"]) < 0.05
    for kind, notes in (("is", ch09.IS), ("was", ch09.WAS)):
        assert ceiling(notes, "{question}", 6, newest=True) > query[kind].max()
        assert ceiling(notes, "{name} in", 6) > 0.95
    assert abs(ceiling(ch09.IS, "{name} in", 2, newest=True) - writes["own"].mean()) < 0.05


@pytest.mark.slow
def test_the_cheapest_run_comes_again():
    """Soft tokens, one seed: the first records and what the open gate reaches, up to rounding."""
    recorded = experiments.recorded("09_memory/latent")
    policy = models.load("notes-latent")
    again = list(ch09.GateArm()(policy, 10, steps=3))
    for row, made in zip(recorded.curves["RL gate"][0], again):
        assert made["reward"] == pytest.approx(row["reward"], abs=0.02)
    after = recorded.outcomes["RL gate"][0]["after"]
    assert after["always"] == pytest.approx(ch09.measure_latent(policy)["always"], abs=0.02)
