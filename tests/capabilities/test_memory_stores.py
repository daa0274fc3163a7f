"""Stores: ranking against BM25 written out, operations against a dictionary, intervals with open and closed
ends."""

import math
import random

import pytest

from arl_mini.capabilities.memory import Edge, GraphMemory, ManagedStore, VectorStore

WORDS = "ada ben hall cave in saw".split()


def best(texts: dict[int, str], query: list[str], newest: bool) -> list[int]:
    """Okapi BM25 with k1 = 1.2, b = 0.75; ties by age."""
    cut = {n: text.split() for n, text in texts.items()}
    mean, scores = sum(map(len, cut.values())) / len(cut), {}
    for n, body in cut.items():
        for word in query:
            holding = sum(word in other for other in cut.values())
            idf = max(math.log((len(cut) - holding + 0.5) / (holding + 0.5)), 1e-6)
            count = body.count(word)
            if count:
                share = count * 2.2 / (count + 1.2 * (0.25 + 0.75 * len(body) / mean))
                scores[n] = scores.get(n, 0.0) + idf * share
    ranked = sorted(scores, key=lambda n: (-round(scores[n], 9), -n if newest else n))
    return [n for n in ranked if scores[n] >= scores[ranked[0]] / 10]


@pytest.mark.parametrize("newest", [False, True])
def test_search_is_bm25(newest):
    rng = random.Random(0)
    for _ in range(40):
        store = VectorStore(newest)
        for _ in range(rng.randint(1, 20)):
            store.add(" ".join(rng.choices(WORDS, k=rng.randint(2, 5))))
        query = rng.sample(WORDS, rng.randint(1, 3))
        assert store.search(query, 50) == best(store.entries, query, newest)
        assert store.search(query, 2) == best(store.entries, query, newest)[:2]


@pytest.mark.parametrize(
    "query", [[], ['"'], ["ada*"], ["NEAR("], ["\0"], ["zoe"], ["'; DROP TABLE memory"], [""]]
)
def test_no_query_is_an_error(query):
    store = VectorStore()
    assert store.search(query, 3) == []
    store.add("ben in hall")
    assert store.search(query, 3) == [] and store.search(["ben"], 0) == []


def test_operations_against_a_dictionary():
    rng = random.Random(1)
    for _ in range(200):
        store, kept, given = ManagedStore(), {}, 0
        for step in range(30):
            shown = rng.sample(sorted(kept), min(len(kept), 2))
            which, text = rng.randint(0, 3), f"text {step}"
            words = rng.choice(
                [
                    ["add"],
                    ["noop"],
                    ["update", str(which)],
                    ["delete", str(which)],
                    ["burn"],
                    ["add", "1"],
                    [],
                ]
            )
            entry = shown[which - 1] if 0 < which <= len(shown) else None
            did = store.operate(words, text, shown)
            if words == ["add"]:
                given += 1
                kept[given] = text
                assert did == "add"
            elif words[:1] == ["update"] and entry:
                kept[entry] = text
                assert did == "update"
            elif words[:1] == ["delete"] and entry:
                del kept[entry]
                assert did == "delete"
            else:
                assert did == "noop"
            assert store.entries == kept
    assert not store.update(999, "x") and not store.delete(999)


def test_an_edge_holds_from_its_start_until_before_its_end():
    edge = Edge("ada", "in", "hall", 3, 5)
    assert [edge.holds(t) for t in range(2, 7)] == [False, True, True, False, False]
    assert Edge("ada", "in", "hall", 3).holds(10**6) and not Edge("ada", "in", "hall", 3, 3).holds(3)


def test_a_graph_loses_nothing_that_it_closes():
    graph = GraphMemory()
    graph.insert("ada", "in", "hall", 0)
    graph.insert("ben", "in", "hall", 1)
    assert (
        graph.close("ada", "in", 2) == 1
        and graph.close("ada", "in", 3) == 0
        and graph.close("zoe", "in", 3) == 0
    )
    graph.insert("ada", "in", "cave", 4)
    graph.insert("ada", "saw", "ben", 4)
    where = [[e.object for e in graph.at("ada", "in", t)] for t in range(6)]
    assert where == [["hall"], ["hall"], [], [], ["cave"], ["cave"]]
    assert [[e.object for e in graph.before("ada", "in", t)] for t in (1, 2, 9)] == [[], ["hall"], ["hall"]]
    graph.insert("ada", "in", "attic", 5)
    assert [e.object for e in graph.at("ada", "in", 5)] == [
        "cave",
        "attic",
    ]  # two open edges contradict each other
    assert graph.close("ada", "in", 6) == 2 and [e.object for e in graph.before("ada", "in", 6)] == ["attic"]
    assert len(graph.edges) == 5
