"""Wiki: its store, its search against BM25 written out, and what it pays."""

import math
import random

import pytest

from arl_mini.envs import Wiki, act
from arl_mini.envs.wiki import JOBS, PEOPLE, PLACES, REGIONS, RELATIONS, UNKNOWN, draw, passage, search


def best(seed: int, people: int, query: tuple[str, ...], top: int) -> list[str]:
    """Okapi BM25 with k1 = 1.2, b = 0.75 over both columns; a title's word counts ten times."""
    texts = {title: passage(title, facts).split() for title, facts in draw(seed, people).items()}
    sizes = {title: 1 + len(body) for title, body in texts.items()}
    mean = sum(sizes.values()) / len(sizes)
    scores = {}
    for title, body in texts.items():
        for word in query:
            holding = sum(word in (t, *b) for t, b in texts.items())
            idf = max(math.log((len(texts) - holding + 0.5) / (holding + 0.5)), 1e-6)
            count = 10 * (word == title) + body.count(word)
            if count:
                share = count * 2.2 / (count + 1.2 * (0.25 + 0.75 * sizes[title] / mean))
                scores[title] = scores.get(title, 0.0) + idf * share
    return sorted(scores, key=lambda title: (-round(scores[title], 9), title))[:top]


@pytest.mark.parametrize("seed", range(20))
def test_search_is_bm25(seed):
    rng = random.Random(seed)
    for _ in range(20):
        query = tuple(rng.sample([*PEOPLE, *PLACES, *REGIONS, *JOBS, *RELATIONS, "nobody"], rng.randint(1, 3)))
        assert search(seed, 12, query, 5) == best(seed, 12, query, 5)


@pytest.mark.parametrize("query", ['"', "ada*", "NEAR(", "title:", "-", "'; DROP TABLE passages", "\0", "é", "a" * 5000, "^", "AND"])
def test_no_query_is_an_error(query):
    env = Wiki()
    env.reset(0)
    reply = env.step(act(f"search {query}"))
    assert not reply.info.get("malformed") and env.step(act("search ada")).text


def test_a_store_has_every_fact():
    for seed in range(20):
        store = draw(seed, 12)
        assert len(store) == 24 and draw(seed, 12) is store
        for title, facts in store.items():
            kind = "person" if title in PEOPLE else "place"
            assert set(facts) == {r for r, (of, _) in RELATIONS.items() if of == kind}
            assert all(value in store for r, value in facts.items() if RELATIONS[r][1] in ("person", "place"))
            assert facts.get("friend") != title


@pytest.mark.parametrize("hops", [1, 2, 3])
def test_questions_have_the_hops_they_say_and_the_expert_reads_that_many_passages(hops):
    for seed in range(80):
        env = Wiki((hops, hops))
        task = env.reset(seed)
        value = env.entity
        for relation in env.path:
            value = env.store[value][relation]
        assert task.count(" of ") == hops and value == env.chain()[-1]
        while True:
            reply = env.step(env.expert())
            if reply.done:
                break
        # who reads the same passage twice needs it once
        assert reply.reward == 1.0 and reply.info["opened"] == len(set(env.chain()[:-1])) <= hops


def test_only_what_a_search_has_found_can_be_opened():
    env = Wiki()
    env.reset(0)
    assert env.step(act(f"open {env.entity}")).text == " no"
    found = env.step(act(f"search {env.entity}")).text.split()
    assert found[0] == env.entity and len(found) <= 2
    assert env.step(act(f"open {env.entity}")).text == f" {passage(env.entity, env.store[env.entity])}"
    other = next(title for title in env.store if title not in found)
    assert env.step(act(f"open {other}")).info["illegal"]


def test_who_is_not_in_the_store_is_unknown():
    env = Wiki(unanswerable=1.0)
    for seed in range(40):
        env.reset(seed)
        assert env.entity not in env.store and env.chain() == [env.entity, UNKNOWN]
        guess = env.clone()
        assert guess.step(act("answer baker")).reward == 0.0
        assert env.step(act(f"search {env.entity}")).text == " nothing"
        assert env.step(act(f"answer {UNKNOWN}")).reward == 1.0
    env = Wiki(unanswerable=0.3)
    shares = [env.reset(seed) and env.answerable for seed in range(600)]
    assert abs(sum(shares) / 600 - 0.7) < 0.06


def test_a_price_is_paid_for_searches_whatever_the_outcome():
    env = Wiki(price=0.1)
    env.reset(1)
    for _ in range(3):
        env.step(act(f"search {env.entity}"))
    right = env.clone().step(act(f"answer {env.chain()[-1]}"))
    wrong = env.clone().step(act("answer nothing"))
    assert (right.reward, wrong.reward) == pytest.approx((0.7, -0.3))
    for _ in range(7):
        reply = env.step(act("search ada"))
    assert reply.truncated and reply.reward == pytest.approx(-1.0) and not reply.info["success"]


def test_relations_cannot_be_guessed_from_the_question():
    """The most frequent answer of each relation is right in about its share of tasks, no more."""
    answers: dict[str, list[str]] = {}
    for seed in range(600):
        env = Wiki((1, 1))
        env.reset(seed)
        answers.setdefault(env.path[-1], []).append(env.chain()[-1])
    for relation, given in answers.items():
        most = max(map(given.count, set(given))) / len(given)
        assert most < {"region": 0.27, "job": 0.25}.get(relation, 0.2)
