"""Equations (1) to (17) of the survey (arXiv 2509.02547, numbers of the November 2025 text)."""

from .equations import Equation

MDP, ALGORITHMS = "01_mdp_pomdp", "02_policy_gradients"
TEST = "tests/formal/test_equations.py::"

SURVEY: tuple[Equation, ...] = (
    Equation(
        "survey-1", "Preference-based RFT as a decision process",
        r"\langle S_{trad}, A_{trad}, P_{trad}, R_{trad}, T{=}1, \gamma{=}1 \rangle",
        "§2.1, Eq. (1)", "arl_mini.formal.PBRFT", TEST + "test_survey_1", MDP,
        "A FiniteMDP whose every action leads to the end. γ = 1 is not needed: nothing follows the first "
        "step. There may be several prompts with a distribution, as in training data; the survey writes one.",
    ),
    Equation(
        "survey-2", "Agentic RL as a partially observed decision process",
        r"\langle S_{agent}, A_{agent}, P_{agent}, R_{agent}, \gamma, O \rangle,\quad o_t = O(s_t)",
        "§2.1, Eq. (2)", "arl_mini.formal.FinitePOMDP", TEST + "test_survey_2", MDP,
        "The tuple lists neither T nor a start distribution; the class has both. o_t = O(s_t) is the "
        "certain case of P(o | a, s'). The text lets the policy act on o_t alone; the best policy needs the "
        "history or the belief, so policies here may see either, and `contexts` says what is lost by seeing "
        "less.",
    ),
    Equation(
        "survey-3", "One prompt is the whole state space",
        r"S_{trad} = \{ \text{prompt} \}",
        "§2.2, Eq. (3)", "arl_mini.formal.PBRFT.prompts", TEST + "test_survey_3", MDP,
        "One state for each prompt; the end, in which nobody acts, is not counted.",
    ),
    Equation(
        "survey-4", "The state of the world moves on",
        r"s_{t+1} \sim P(s_{t+1} \mid s_t, a_t)",
        "§2.2, Eq. (4)", "arl_mini.formal.FiniteMDP.step", TEST + "test_survey_4", MDP,
    ),
    Equation(
        "survey-5", "Text and actions",
        r"A_{agent} = A_{text} \cup A_{action},\quad (a_1, \dots, a_k) \in A_{action}",
        "§2.3, Eq. (5)", "arl_mini.formal.AgentAction.parse", TEST + "test_survey_5", MDP,
        "Delimiters are `<act>` … `</act>`. A turn is text, or text and then one action, which may hold further "
        "actions. A badly written action is neither: it is an error, which a world answers with an "
        "observation.",
    ),
    Equation(
        "survey-6", "Every reply leads to the end",
        r"P(s_1 \mid s_0, a) = 1",
        "§2.4, Eq. (6)", "arl_mini.formal.PBRFT.from_rewards", TEST + "test_survey_6", MDP,
        "s₁ is the terminal state, whatever was replied.",
    ),
    Equation(
        "survey-7", "Text leaves the world alone, an action moves it",
        r"s_{t+1} \sim P(\cdot \mid s_t, a_t),\quad a_t \in A_{text} \cup A_{action}",
        "§2.4, Eq. (7)", "arl_mini.formal.speak", TEST + "test_survey_7", MDP,
        "Text does not change the state of the world, but it is in the history from then on, and so it "
        "changes what a policy that reads its history does next.",
    ),
    Equation(
        "survey-8", "One number for the whole reply",
        r"R_{trad}(s_0, a) = r(a),\quad r: A \to \mathbb{R}",
        "§2.5, Eq. (8)", "arl_mini.formal.PBRFT.r", TEST + "test_survey_8", MDP,
        "With several prompts r depends on the prompt, too.",
    ),
    Equation(
        "survey-9", "Task reward, sub-reward, or nothing",
        r"R_{agent}(s_t, a_t) = \begin{cases} r_{task} & \text{on completion} \\ r_{sub}(s_t, a_t) &"
        r" \text{on progress} \\ 0 & \text{otherwise} \end{cases}",
        "§2.5, Eq. (9)", "arl_mini.formal.Reward.__call__", TEST + "test_survey_9", MDP,
        "A step that makes progress and completes the task is in both cases. Default: it pays r_task alone; "
        "tie='sum' pays both. Both events are of the transition (s, a, s'); R(s, a) is the expectation.",
    ),
    Equation(
        "survey-10", "The objective of preference-based RFT",
        r"J_{trad}(\theta) = \mathbb{E}_{a \sim \pi_\theta}[\, r(a) \,]",
        "§2.6, Eq. (10)", "arl_mini.formal.bandit_objective", TEST + "test_survey_10", MDP,
        "Averaged over prompts, too. No KL to a reference: where one is wanted it is a term of its own.",
    ),
    Equation(
        "survey-11", "The objective of agentic RL",
        r"J_{agent}(\theta) = \mathbb{E}_{\tau \sim \pi_\theta}\Big[\sum_{t=0}^{T-1} \gamma^t"
        r" R_{agent}(s_t, a_t)\Big]",
        "§2.6, Eq. (11)", "arl_mini.formal.objective", TEST + "test_survey_11", MDP,
        "The survey asks 0 < γ < 1, which excludes the γ = 1 of most LLM training. Here 0 ≤ γ ≤ 1; γ = 1 "
        "needs a horizon, or a terminal state that can be reached from everywhere.",
    ),
    Equation(
        "survey-12", "REINFORCE with a baseline",
        r"\nabla_\theta J = \mathbb{E}_{s_0}\Big[\tfrac1N \sum_i \big(R(s_0, a^{(i)}) - b(s_0)\big)"
        r" \nabla_\theta \log \pi_\theta(a^{(i)} \mid s_0)\Big]",
        "§2.7, Eq. (12)", "arl_mini.formal.policy_gradient", TEST + "test_survey_12", ALGORITHMS,
        "The samples are drawn from π_θ. Any b leaves the mean as it is only if it is independent of the "
        "action it judges: a group mean that contains the action's own reward shrinks the gradient by 1 − "
        "1/N.",
        ("arl_mini.algorithms.Reinforce", "arl_mini.algorithms.RLOO"),
    ),
    Equation(
        "survey-13", "PPO's clipped surrogate",
        r"L = \tfrac1N \sum_i \min\big(\rho_i A_i,\; \mathrm{clip}(\rho_i, 1-\epsilon, 1+\epsilon)"
        r" A_i\big),\quad \rho_i = \frac{\pi_\theta(a_t^{(i)} \mid s_t)}{\pi_{old}(a_t^{(i)} \mid s_t)}",
        "§2.7, Eq. (13)", "arl_mini.formal.clipped", TEST + "test_survey_13", ALGORITHMS,
        "Written L, but to be maximised, and without the sum over t; the function gives −min(…) of each "
        "token, to be minimised, and the reduction over tokens is the algorithm's.",
        ("arl_mini.algorithms.PPO",),
    ),
    Equation(
        "survey-14", "Advantage as reward minus value",
        r"A(s_t, a_t) = R(s_t, a_t) - V(s_t)",
        "§2.7, Eq. (14)", "arl_mini.formal.minus_value", TEST + "test_survey_14", ALGORITHMS,
        "R is read as the return from t on, without which the future of an action would not count. That is "
        "GAE at λ = 1, not GAE in general; for T = 1 it is R − V to the letter.",
        ("arl_mini.algorithms.PPO",),
    ),
    Equation(
        "survey-15", "The loss of DPO",
        r"L = -\mathbb{E}_{(x, y_w, y_l) \sim D}\Big[\log \sigma\Big(\beta \log \tfrac{\pi_\theta(y_w \mid"
        r" x)}{\pi_{ref}(y_w \mid x)} - \beta \log \tfrac{\pi_\theta(y_l \mid x)}{\pi_{ref}(y_l \mid"
        r" x)}\Big)\Big]",
        "§2.7, Eq. (15)", "arl_mini.formal.dpo_loss", TEST + "test_survey_15", "03_preferences",
        "The expectation is over a table of pairs, so it is exact; the algorithm sums over the pairs of a "
        "batch.",
        ("arl_mini.algorithms.DPO",),
    ),
    Equation(
        "survey-16", "GRPO's surrogate",
        r"L = \tfrac1G \sum_g \min\big(\rho_g \hat A_g,\; \mathrm{clip}(\rho_g, 1-\epsilon, 1+\epsilon)"
        r" \hat A_g\big)",
        "§2.7, Eq. (16)", "arl_mini.formal.grpo", TEST + "test_survey_16", "04_grpo",
        "To be maximised; the loss is its negative. The formula has no KL though the survey's table says it "
        "has one, and no 1/|o|; the paper has both. `GRPO` has 1/|o| and an optional KL; the formula as "
        "printed is this function.",
        ("arl_mini.algorithms.GRPO",),
    ),
    Equation(
        "survey-17", "GRPO's advantage",
        r"\hat A^{(g)} = \frac{R^{(g)} - \mathrm{mean}(R^{(1..G)})}{\mathrm{std}(R^{(1..G)})}",
        "§2.7, Eq. (17)", "arl_mini.ops.group_zscore", TEST + "test_survey_17", "04_grpo",
        "A group of equal rewards divides 0 by 0: its advantage is 0 here, as is that of a group of one. "
        "std has Bessel's correction, and 1e-6 is added to it.",
        ("arl_mini.algorithms.GRPO",),
    ),
)  # fmt: skip
