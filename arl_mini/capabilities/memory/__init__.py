"""Memory, section 3.3 of the survey: stores, notes, graphs and soft tokens that a policy learns to keep.

`contexts` runs and trains episodes of several contexts; `stores` holds what lies outside a context; `worlds`
puts a memory between the stream of `envs.Notes` and its questions; `quests` cuts the context of `envs.Quest`;
`latent` carries soft tokens; `lessons` are single contexts of all of them, to teach a policy to read.
"""

from .contexts import CONTEXT, SharedGRPO, contexts, shared
from .latent import LatentMemory, Streams, learn_gate, teach
from .lessons import Lessons, course, novice
from .quests import Cut, Folded, Summed
from .stores import Edge, GraphMemory, ManagedStore, VectorStore
from .worlds import Graph, Manage, Remembering, Retrieve, SegmentMemory

__all__ = [
    "CONTEXT", "Cut", "Edge", "Folded", "Graph", "GraphMemory", "LatentMemory", "Lessons", "Manage", "ManagedStore", "Remembering",
    "Retrieve", "SegmentMemory", "SharedGRPO", "Streams", "Summed", "VectorStore", "contexts", "course", "learn_gate", "novice",
    "shared", "teach",
]  # fmt: skip
