"""Faults in the reductions: laws of decoys, chances to take part, who bounds whom."""

from __future__ import annotations

from benchmarks.mutants.mutant import mutants

_CROWDS = "tests/reductions/test_stressed_reductions.py"

MUTANTS = [
    *mutants(
        "reductions/clones.py",
        _CROWDS,
        [
            (
                "rate, idle = 2.0 * v, math.tanh(0.5 * eps0)",
                "rate, idle = 3.0 * v, math.tanh(0.5 * eps0)",
            ),
            (
                "rate, idle = 2.0 * v, math.tanh(0.5 * eps0)",
                "rate, idle = v, math.tanh(0.5 * eps0)",
            ),
            (
                "rate, idle = ratio, -math.expm1(-eps0)",
                "rate, idle = 2.0 * ratio, 1.0 - 2.0 * ratio",
            ),
            ("decoys=users - 1, rate=rate", "decoys=users, rate=rate"),
        ],
    ),
    *mutants(
        "reductions/strong.py",
        _CROWDS,
        [
            ("decoys=users - 1, rate=2.0 * single", "decoys=users, rate=2.0 * single"),
            ("rate=2.0 * single, idle=idle", "rate=4.0 * single, idle=idle - 2.0 * single"),
            ("active=mixture.truthful, harmless=gamma", "active=gamma, harmless=mixture.truthful"),
        ],
    ),
    *mutants(
        "reductions/subsampling.py",
        _CROWDS,
        [
            (
                "return fraction_of(inner, users / population)",
                "return fraction_of(inner, 0.99 * users / population)",
            ),
            (
                "return subsampled(inner, users, population - colluding)",
                "return subsampled(inner, users, population)",
            ),
        ],
    ),
    *mutants(
        "reductions/blanket.py",
        _CROWDS,
        [
            (
                "off = np.asarray(found.error) * (1.0 if side is Bound.PESSIMISTIC else -1.0)",
                "off = np.asarray(found.error) * (-1.0 if side is Bound.PESSIMISTIC else 1.0)",
            ),
        ],
    ),
    *mutants(
        "reductions/crowd.py",
        _CROWDS,
        [
            (
                "numbers = law.low if side is Bound.PESSIMISTIC else law.high",
                "numbers = law.high if side is Bound.PESSIMISTIC else law.low",
            ),
            ("return samples, law.missing", "return samples, 0.0"),
            ("Sample(weight, int(number) + 1, 1.0)", "Sample(weight, int(number) + 2, 1.0)"),
            ("key=lambda group: -group.chance", "key=lambda group: group.chance"),
            ("        left -= known\n", ""),
        ],
    ),
    *mutants(
        "reductions/participation.py",
        _CROWDS,
        [
            ("return blocks, law.missing", "return blocks, 0.0"),
            (
                "ends = ((1.0 - share, fewest), (share, high))",
                "ends = ((1.0, fewest),)",
            ),
            (
                "return [self._sample(mass, high, mean, side) if low > 0 else Sample(mass, 0, 1.0)]",
                "return [self._sample(mass, low, mean, side) if low > 0 else Sample(mass, 0, 1.0)]",
            ),
            (
                "return [self._sample(mass, high, mean, side) if low > 0 else Sample(mass, 0, 1.0)]",
                "return [self._sample(mass, high, high, side) if low > 0 else Sample(mass, 0, 1.0)]",
            ),
            (
                "return [self._sample(mass, high, mean, side) if low > 0 else Sample(mass, 0, 1.0)]",
                "return [self._sample(mass, high, mean, side)]",
            ),
            (
                "roundings(2) * (1.0 if side is Bound.PESSIMISTIC else -1.0)",
                "roundings(2) * (-1.0 if side is Bound.PESSIMISTIC else 1.0)",
            ),
            (
                "outwards(math.fsum(law.weight[some].tolist()), noise, upper=upper)",
                "outwards(math.fsum(law.weight[some].tolist()), 1e-3, upper=not upper)",
            ),
        ],
    ),
    *mutants(
        "losses/decoys/decoy_counts.py",
        _CROWDS,
        [
            (
                "self, chance=self.chance * (1.0 - _ERROR), idle=self.idle + self.chance * _ERROR",
                "self, chance=self.chance * (1.0 + _ERROR), idle=self.idle - self.chance * _ERROR",
            ),
            ("chance = min(self.chance * (1.0 + _ERROR), 1.0)", "chance = self.chance"),
        ],
    ),
]
