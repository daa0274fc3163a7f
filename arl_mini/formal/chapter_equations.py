"""Formulas that the chapters name beyond the survey's numbered ones."""

from .equations import Equation

MDP, CREDIT = "01_mdp_pomdp", "02_policy_gradients"
TEST = "tests/formal/test_chapter_equations.py::"

CHAPTERS: tuple[Equation, ...] = (
    Equation(
        "bellman", "Bellman's equation",
        r"V^\pi(s) = \sum_a \pi(a \mid s)\Big[R(s, a) + \gamma \sum_{s'} P(s' \mid s, a)\, V^\pi(s')\Big]",
        "Bellman 1957", "arl_mini.formal.exact_value", TEST + "test_bellman", MDP,
    ),
    Equation(
        "policy-gradient-theorem", "Policy gradient theorem",
        r"\nabla_\theta J = \sum_s d^\pi(s) \sum_a \nabla_\theta \pi_\theta(a \mid s)\, Q^\pi(s, a)",
        "Sutton et al. 2000, Theorem 1", "arl_mini.formal.theorem_gradient",
        TEST + "test_policy_gradient_theorem", MDP,
        "d(s) = Σ_t γ^t Pr(s_t = s) is a sum, not a distribution.",
    ),
    Equation(
        "belief-update", "What is believed after acting and seeing",
        r"b'(s') \propto O(o \mid a, s') \sum_s P(s' \mid s, a)\, b(s)",
        "Kaelbling et al. 1998", "arl_mini.formal.belief_update", TEST + "test_belief_update", MDP,
        "Beliefs are about worlds that still run: the end of an episode is seen.",
    ),
    Equation(
        "q-learning", "Q-learning",
        r"Q(s, a) \leftarrow Q(s, a) + \alpha\big(r + \gamma \max_{a'} Q(s', a') - Q(s, a)\big)",
        "Watkins 1989", "arl_mini.formal.q_learning", TEST + "test_q_learning", MDP,
    ),
    Equation(
        "potential-shaping", "Shaping that keeps the optimum",
        r"R'(s, a) = R(s, a) + \mathbb{E}_{s'}[\gamma \Phi(s')] - \Phi(s),\quad \Phi(\text{end}) = 0",
        "Ng, Harada and Russell 1999", "arl_mini.formal.shape", TEST + "test_potential_shaping", MDP,
    ),
    Equation(
        "turn-policy", "A turn is a product of tokens",
        r"\pi(y \mid s) = \prod_j \pi(y_j \mid s, y_{<j})",
        "chapter 01", "arl_mini.formal.turn_policy", TEST + "test_turn_policy", MDP,
        "γ counts turns. Counting tokens instead makes long turns worth less.",
    ),
    Equation(
        "gae", "Generalised advantage estimation",
        r"\hat A_t = \sum_{k \ge 0} (\gamma\lambda)^k \delta_{t+k},\quad \delta_t = r_t + \gamma V(s_{t+1})"
        r" - V(s_t)",
        "Schulman et al. 2016, Eq. 16", "arl_mini.ops.gae", TEST + "test_gae", CREDIT,
        "t counts sampled tokens only.",
    ),
    Equation(
        "leave-one-out", "Leave-one-out baseline",
        r"A_i = R_i - \tfrac{1}{G-1} \sum_{j \ne i} R_j",
        "Ahmadian et al. 2024, Eq. 8",
        "arl_mini.ops.group_leave_one_out", TEST + "test_leave_one_out", CREDIT,
    ),
    Equation(
        "kl-k1", "KL estimator k1", r"k_1 = \log \pi - \log \pi_{ref}",
        "Schulman 2020", "arl_mini.ops.kl_k1", TEST + "test_kl_estimators", "04_grpo",
        "Its value is right; in a loss its gradient has mean 0; as a cost in the reward its gradient is "
        "right.",
    ),
    Equation(
        "kl-k2", "KL estimator k2", r"k_2 = \tfrac12 (\log \pi - \log \pi_{ref})^2",
        "Schulman 2020", "arl_mini.ops.kl_k2", TEST + "test_kl_estimators", "04_grpo",
        "Its value is biased; its gradient on whole rows is right.",
    ),
    Equation(
        "kl-k3", "KL estimator k3", r"k_3 = e^{-x} + x - 1,\quad x = \log \pi - \log \pi_{ref}",
        "Schulman 2020", "arl_mini.ops.kl_k3", TEST + "test_kl_estimators", "04_grpo",
        "Its value is right; its gradient is that of the KL the other way round.",
    ),
    Equation(
        "sequence-ratio", "GSPO's ratio",
        r"s = \exp\Big(\tfrac1n \sum_t \log \tfrac{\pi_\theta(y_t)}{\pi_{old}(y_t)}\Big)",
        "Zheng et al. 2025, Eq. 7", "arl_mini.ops.sequence_ratio", TEST + "test_sequence_ratio", "04_grpo",
        "w^(1/n) is not a density ratio: the estimate is biased, and its variance does not grow with the "
        "length.",
        ("arl_mini.algorithms.GSPO",),
    ),
)  # fmt: skip
