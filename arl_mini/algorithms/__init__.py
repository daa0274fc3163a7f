"""Algorithms. Each class body is the difference to its parent."""

from .base import Algorithm
from .catalogue import compare as compare
from .credit import GiGPO, StarPO, StarPOS, TurnGRPO
from .dpo import DPO, IPO, KTO, ORPO, BetaDPO, SimPO
from .grpo import CISPO, DAPO, GMPO, GRPO, GSPO, DrGRPO, GSPOToken
from .mixed import CHORD, LUFFY, PAPO
from .policy_gradient import RLOO, Reinforce, ReinforcePlusPlus
from .ppo import PFPPO, PPO, VAPO, LitePPO
from .rerolls import PSGPO, VinePPO
from .preference import DMPO, ETO, LCPO, SDPO, OnlineDPO, StepDPO
from .replay import SkyworkR1V2
from .sampling import DARS, GHPO, GRESO, SRPO, ProRL
from .shaping import ASPO, KTAE, EdgeGRPO, PassAtK, PosteriorGRPO, StepGRPO
from .trees import ARPO, TreePO

__all__ = [
    "Algorithm",
    "Reinforce", "RLOO", "ReinforcePlusPlus",
    "PPO", "VAPO", "LitePPO", "PFPPO", "VinePPO", "PSGPO",
    "DPO", "BetaDPO", "SimPO", "IPO", "KTO", "ORPO", "StepDPO", "LCPO", "ETO", "DMPO", "SDPO", "OnlineDPO",
    "GRPO", "DrGRPO", "DAPO", "GSPO", "GSPOToken", "GMPO", "CISPO",
    "LUFFY", "CHORD", "PAPO",
    "StarPO", "StarPOS", "GiGPO", "TurnGRPO",
    "PosteriorGRPO", "StepGRPO", "EdgeGRPO", "ASPO", "PassAtK", "KTAE",
    "ProRL", "SRPO", "GRESO", "GHPO", "SkyworkR1V2", "TreePO", "ARPO", "DARS",
]  # fmt: skip
