"""Faults in the arithmetic: what roundings, sums, binomial and Poisson probabilities may err by."""

from __future__ import annotations

from benchmarks.mutants.mutant import mutants

ROUNDING = mutants(
    "numerics/rounding.py",
    "tests/numerics/test_budget.py tests/numerics/test_rounding.py",
    [
        (
            "return value * ((1.0 + error) * (1.0 + 4.0 * UNIT_ROUNDOFF))",
            "return value * ((1.0 - error) * (1.0 + 4.0 * UNIT_ROUNDOFF))",
        ),
        ("return value * ((1.0 + error) * (1.0 + 4.0 * UNIT_ROUNDOFF))", "return value"),
        ("left = max(1.0 - error, 0.0)", "left = max(1.0 + error, 0.0)"),
        ("found: Number = value * (left * (1.0 - 4.0 * UNIT_ROUNDOFF))", "found: Number = value"),
        ("(left * (1.0 - 4.0 * UNIT_ROUNDOFF)) - SMALLEST", "(left * (1.0 - 4.0 * UNIT_ROUNDOFF))"),
        (
            "return raised(value, error) if upper else lowered(value, error)",
            "return lowered(value, error) if upper else raised(value, error)",
        ),
        ("return found + underflow(1) if upper", "return found if upper"),
        ("if upper and value > 0.0 and part > 0.0 else found", "if upper else found"),
        ("        total = total + other + total * other\n", "        total = total + other\n"),
        ("        total = total + other + total * other\n", "        total = max(total, other)\n"),
        (
            "return roundings(own + 1.0) * (abs(first) + abs(second))",
            "return roundings(own + 1.0) * abs(first - second)",
        ),
        (
            "return roundings(own + 1.0) * (abs(first) + abs(second))",
            "return roundings(own + 1.0) * abs(first)",
        ),
        ("return operations * SMALLEST", "return 0.0 * operations"),
        ("return roundings(_IN_A_BLOCK + _HALVINGS + own)", "return roundings(own)"),
        ("return roundings(_IN_A_BLOCK + _HALVINGS + own)", "return roundings(_HALVINGS + own)"),
        ("return roundings(terms + own)", "return roundings(own)"),
        ("return roundings(terms + own)", "return roundings(0.25 * terms + own)"),
        ("+ (ELEMENTARY + own))", "+ own)"),
        (
            "return roundings(moved / budget().roundoff",
            "return roundings(0.0 * moved / budget().roundoff",
        ),
        (
            "return roundings(float(ELEMENTARY)) * abs(value) + argument",
            "return roundings(float(ELEMENTARY)) * abs(value)",
        ),
        ("return roundings(ELEMENTARY + own) * abs(value)", "return roundings(own) * abs(value)"),
        (
            "return math.expm1(exponent) * _OWN if exponent <= 700.0 else math.inf",
            "return exponent if exponent <= 700.0 else math.inf",
        ),
        ("return np.asarray(exponent * (_OWN + exponent))", "return np.asarray(0.5 * exponent)"),
    ],
)

BUDGET = mutants(
    "numerics/budget.py",
    "tests/numerics/test_budget.py",
    [
        (
            "return result * factor if found.adverse > 0.0 else result / (2.0 - factor)",
            "return result",
        ),
        ("found.adverse * (error() if callable(error) else error)", "0.0"),
        ("outside: float = -40.0", "outside: float = -20.0"),
        ("reach: float = 45.0", "reach: float = 20.0"),
        ("snap: float = 16 * 2.0**-53", "snap: float = 16 * 2.0**-50"),
        ("roundoff: float = 2.0**-53", "roundoff: float = 2.0**-54"),
        ("_current.reset(token)", "pass"),
    ],
)

BINOMIAL = mutants(
    "numerics/binomial.py",
    "tests/numerics/test_budget.py tests/losses/test_stressed_losses.py::test_blocks_of_counts tests/numerics/test_binomial.py",
    [
        ("error = 8.0 + 6.0 * size", "error = 0.0 * size"),
        ("return sequential_sum(_NODES, own=17)", "return 0.0"),
        ("result[k > n] = -np.inf", "result[k > n] = 0.0"),
        ("near = ~above & (k >= 1)", "near = above & (k >= 1)"),
        ("above = (k >= n * p + q) & (k >= 1)", "above = k > n"),
        ("error = error + 4.0 * np.abs(k - n * p)", "error = 0.0 * error"),
        ("    if few.any():\n", "    if False:\n"),
        ("np.maximum(n[..., None] - counts[..., :-1], 0.0)", "(n[..., None] - counts[..., 1:])"),
        ("np.where(first <= n, np.exp(log_first), 0.0)", "np.exp(log_first)"),
        ("np.where(each <= whole, np.exp(logs), 0.0)", "np.exp(logs)"),
        ("log_pmf_error(start, n, p, log_first) + roundings(", "0.0 * start + roundings("),
        ("log_first) + roundings(steps * length)", "log_first)"),
        ("np.max(log_pmf_error(np.minimum(each, whole), whole, p, logs), axis=-1)", "0.0"),
    ],
)

OTHERS = [
    *mutants(
        "numerics/poisson.py",
        "tests/numerics/test_budget.py",
        [
            (
                "above = np.append(np.cumsum(masses[:0:-1])[::-1], 0.0)",
                "above = np.cumsum(masses[::-1])[::-1]",
            ),
            ("below = np.append(0.0, np.cumsum(masses[:-1]))", "below = np.cumsum(masses)"),
            (
                "tails = np.where(place < 0, 1.0, self.above[inside])",
                "tails = np.where(place < 0, 0.0, self.above[inside])",
            ),
            (
                "return np.where(place >= self.masses.size, 1.0, tails)",
                "return np.where(place >= self.masses.size, 0.0, tails)",
            ),
            ("reach = 15.0 * math.sqrt(mean) + 75.0", "reach = 5.0 * math.sqrt(mean)"),
        ],
    ),
    *mutants(
        "numerics/ratios.py",
        "tests/numerics/test_budget.py",
        [
            ("found[more] = raised(value, roundings(2 * ELEMENTARY + 4))", "found[more] = value"),
            (
                "found = np.where((p0 > 0.0) & (p1 == 0.0), math.inf, 0.0)",
                "found = np.zeros(p0.shape)",
            ),
        ],
    ),
    *mutants(
        "numerics/normal.py",
        "tests/losses/test_stressed_losses.py::test_cells_of_normal_mass_are_within_their_error",
        [
            ("right = edges[:-1] > 0.0", "right = edges[:-1] < 0.0"),
            (
                "upper = ndtr(-edges[:-1]) - ndtr(-edges[1:])",
                "upper = ndtr(-edges[1:]) - ndtr(-edges[:-1])",
            ),
        ],
    ),
    *mutants(
        "numerics/turns.py",
        "tests/numerics/test_turns.py",
        [
            ("    rest -= part * _LOW\n", ""),
            ("    place &= _PARTS - 1\n", "    place %= _PARTS // 2\n"),
            ("even -= 0.5", "even -= 0.5001"),
            ("odd -= 1.0 / 6.0", "odd -= 0.1666"),
            ("    even -= odd\n", "    even += odd\n"),
            ("few[-2::-1]", "few[::-1]"),
        ],
    ),
    *mutants(
        "numerics/roots.py",
        "tests/numerics/test_budget.py",
        [
            ("return Crossing(left, right, slope)", "return Crossing(right, left, slope)"),
            (
                "        if value > 0:\n            left, asked_left",
                "        if value > 1e-3:\n            left, asked_left",
            ),
            (
                "        if value > 0:\n            left, asked_left",
                "        if value < 0:\n            left, asked_left",
            ),
        ],
    ),
]

MUTANTS = [*ROUNDING, *BUDGET, *BINOMIAL, *OTHERS]
