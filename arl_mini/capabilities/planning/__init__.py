"""Planning: searching ahead with a value, judging without search, planning only when it pays, plans as text,
skills.
"""

from .offline import DecisionTransformer, ReturnFirst
from .plans import Milestones, PlanFirst, PlanGate, executable, plan_reward, written
from .search import Beam, Node, beam, choice, guided, mcts, play, puct, random_playouts
from .skills import Skilled, SkillLibrary
from .speculative import Price, SpeculativePlanner, fixed, traces
from .values import GoalCritic, ValueGuide, fit_to_truth, hindsight

__all__ = [
    "Beam", "DecisionTransformer", "GoalCritic", "Milestones", "Node", "PlanFirst", "PlanGate", "Price",
    "ReturnFirst", "SkillLibrary", "Skilled", "SpeculativePlanner", "ValueGuide", "beam", "choice", "executable",
    "fit_to_truth", "fixed", "guided", "hindsight", "mcts", "plan_reward", "play", "puct", "random_playouts", "traces", "written",
]  # fmt: skip
