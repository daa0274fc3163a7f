"""The formulas as loops over plain Python lists, written from the papers and from nothing else of ours."""

import math


def token_mean(x, mask):
    """DAPO, Eq. 8: one sum over all sampled tokens of all rows, one divisor."""
    picked = [v for row, keep in zip(x, mask) for v, m in zip(row, keep) if m]
    return sum(picked) / max(len(picked), 1)


def row_sums(x, mask):
    return [sum(v for v, m in zip(row, keep) if m) for row, keep in zip(x, mask)]


def sequence_mean(x, mask):
    """GRPO, Eq. 3: a mean in every row, then the mean of rows; a row without sampled tokens counts 0."""
    means = [total / max(sum(keep), 1) for total, keep in zip(row_sums(x, mask), mask)]
    return sum(means) / len(means)


def sequence_mean_of_filled_rows(x, mask):
    """The other reading: rows without sampled tokens leave the mean."""
    means = [total / sum(keep) for total, keep in zip(row_sums(x, mask), mask) if sum(keep)]
    return sum(means) / len(means)


def constant_mean(x, mask, length):
    """Dr.GRPO: a divisor that nobody sampled."""
    return sum(row_sums(x, mask)) / (len(x) * length)


def sequence_sum(x, mask):
    """REINFORCE: the log-probability of a row is a sum over its tokens."""
    return sum(row_sums(x, mask)) / len(x)


def clipped(ratio, advantage, low, high):
    """PPO, Eq. 7, for one token, with the sign of a loss."""
    bounded = min(max(ratio, 1 - low), 1 + high)
    return -min(ratio * advantage, bounded * advantage)


def is_clipped(ratio, advantage, low, high):
    """Whether moving the ratio a little leaves `clipped` where it is although the advantage is not 0."""
    if advantage == 0:
        return False
    step = 1e-6
    return clipped(ratio + step, advantage, low, high) == clipped(ratio - step, advantage, low, high)


def k1(logp, ref):
    return logp - ref


def k2(logp, ref):
    return (logp - ref) ** 2 / 2


def k3(logp, ref):
    """Of GRPO, Eq. 4: q/p − log(q/p) − 1 with q the reference."""
    return math.exp(ref) / math.exp(logp) - (ref - logp) - 1


def mates(values, group, i):
    """The values of row i's group."""
    return [v for v, g in zip(values, group) if g == group[i]]


def mean(values):
    return sum(values) / len(values)


def std(values, bessel=True):
    """Of one group; with Bessel's correction a single value has none, and 0 stands for it."""
    if len(values) == 1:
        return 0.0
    return math.sqrt(sum((v - mean(values)) ** 2 for v in values) / (len(values) - bessel))


def center(values, group):
    return [v - mean(mates(values, group, i)) for i, v in enumerate(values)]


def zscore(values, group, eps, bessel=True):
    """GRPO: (R − mean)/(std + ε)."""
    spread = [std(mates(values, group, i), bessel) + eps for i in range(len(values))]
    return [c / s for c, s in zip(center(values, group), spread)]


def leave_one_out(values, group):
    """RLOO, Eq. 8: R_i − mean of the others; nobody else, no signal."""
    out = []
    for i, v in enumerate(values):
        others = [values[j] for j in range(len(values)) if group[j] == group[i] and j != i]
        out.append(v - mean(others) if others else 0.0)
    return out


def steps(row, mask):
    """Positions of the sampled tokens: the steps that time counts."""
    return [t for t in range(len(row)) if mask[t]]


def returns(rewards, mask, gamma):
    """Σ_k γ^k r over the sampled tokens from each one on; 0 elsewhere."""
    out = []
    for row, keep in zip(rewards, mask):
        times, new = steps(row, keep), [0.0] * len(row)
        for i, t in enumerate(times):
            new[t] = sum(gamma**k * row[u] for k, u in enumerate(times[i:]))
        out.append(new)
    return out


def gae(rewards, values, mask, gamma, lam):
    """Schulman et al. 2016, Eq. 16: Σ_k (γλ)^k δ_{t+k}, as the sum it is, over sampled tokens."""
    out = []
    for row, value, keep in zip(rewards, values, mask):
        times, new = steps(row, keep), [0.0] * len(row)
        after = [value[t] for t in times[1:]] + [0.0]
        delta = [row[t] + gamma * v - value[t] for t, v in zip(times, after)]
        for i, t in enumerate(times):
            new[t] = sum((gamma * lam) ** k * d for k, d in enumerate(delta[i:]))
        out.append(new)
    return out


def whiten(x, mask, eps):
    """(x − mean)/√(variance + ε) over all sampled tokens, variance with Bessel's correction; 0 elsewhere."""
    picked = [v for row, keep in zip(x, mask) for v, m in zip(row, keep) if m]
    variance = sum((v - mean(picked)) ** 2 for v in picked) / max(len(picked) - 1, 1)
    scale = math.sqrt(variance + eps)
    return [[(v - mean(picked)) / scale if m else 0.0 for v, m in zip(*pair)] for pair in zip(x, mask)]
