"""Faults of certificates: of the profiles that are checked, and of the check.

What writes a certificate cannot make a false one: a fault there is found by the verifier. So these
are faults of what both use, and of the verifier alone.
"""

from __future__ import annotations

from benchmarks.mutants.mutant import mutants

_PROFILES = "tests/certificates/test_certificate_profiles.py"
_CHECKS = " ".join(
    f"tests/certificates/test_certificates.py::test_{name}"
    for name in (
        "every_field_that_is_altered_is_noticed",
        "what_failed_is_said",
        "a_wrong_digest_is_noticed",
    )
)

ADDITIVE = mutants(
    "certificates/additive.py",
    _PROFILES,
    [
        ("crossed = self.cost * max(other.total, up + 1) +", "crossed ="),
        ("+ other.cost * max(self.total, up + 1)", ""),
        ("cost + further, bits", "cost, bits"),
        (
            "_split(kept, origin, spacing, half), cost + further",
            "_split(kept, origin, spacing, half), further",
        ),
        ("product += fmpz_poly(near_left) * fmpz_poly(own_right)", "pass"),
        ("product = fmpz_poly(own_left) * fmpz_poly(near_right)", "product = fmpz_poly([])"),
        ("product += fmpz_poly(near_left)", "product += fmpz_poly(own_left)"),
        ("found = _joined(_coarser(far), ", "found = _joined([], "),
        ("kept[-1] = (kept[-1][0], kept[-1][1] + above)\n        kept[0]", "kept[0]"),
        ("kept[0] = (kept[0][0], kept[0][1] + below)", "pass"),
        ("return kept, excess", "return kept, 0"),
        ("return kept, below", "return kept, 0"),
        ("moments[-1] - moments[i] + self.cost", "moments[-1] - moments[i]"),
        (
            "parts = [(i, -(-mass * ((1 << shift) - rest) >> shift))",
            "parts = [(i, mass if not rest else 0)",
        ),
        ("(i + 1, -(-mass * rest >> shift))]", "]"),
        ("place = max(lower(value), fmpq(0)) / unit", "place = fmpq(lower(value) / unit).ceil()"),
        (
            "((below, 1 - inside), (below + 1, inside))",
            "((below, inside), (below + 1, 1 - inside))",
        ),
        (
            "halves = [-(-mass // 2) for mass in masses[1::2]]",
            "halves = [0 for mass in masses[1::2]]",
        ),
    ],
)
ALLOCATED = mutants(
    "certificates/allocated.py",
    _PROFILES,
    [
        ("alpha * value / self.steps + given_up", "alpha * value / self.steps"),
        ("further=math.ceil(math.log2(end))", "further=0"),
        ("slopes = [arb(-1), *_slopes", "slopes = [arb(0), *_slopes"),
        ("excess = max(ceiling(values[-1] / unit, effort.fine_bits), 0)", "excess = 0"),
        ("lost = max(ceiling(1 + first, often.fine_bits), 0)", "lost = 0"),
        ("alpha * at_least(0, c - 1 + self.excess(c))", "alpha * at_least(0, c - 1)"),
        ("- x * ((far + half) / root).erfc()) / 2", "- x * ((far + half) / root).erfc()) / 3"),
    ],
)
LETTERS = mutants(
    "certificates/letters.py",
    _PROFILES,
    [
        (
            "[self._seen(alpha) + self._hidden(alpha, effort) for",
            "[self._hidden(alpha, effort) for",
        ),
        ("[self._seen(alpha) + self._hidden(alpha, effort) for", "[self._seen(alpha) for"),
        ("return gained / self.users +", "return gained / (self.users + 1) +"),
        (" + top * dyadic(law.cost, law.bits)", ""),
        ("law.below([self.users * top], unit)", "law.below([(self.users - 1) * top], unit)"),
        ("(at_least(0, p0 - alpha * p1) for", "(p0 - alpha * p1 for"),
        ("p1, q in self.letters if not q > 0)", "p1, q in self.letters if q > 0)"),
    ],
    [
        (
            "if letter[2].upper() > 0\n",
            "if letter[2] > 0\n",
            "a chance that may be 0 is what rounding leaves of a sum, less than what is cut",
        ),
    ],
)
MULTISETS = mutants(
    "certificates/multisets.py",
    _PROFILES,
    [
        ("for one, other in self.masses[least:sure])", "for one, other in self.masses[sure:sure])"),
        ("p, q = self.above[sure]", "p, q = self.above[least]"),
        ("p, q = self.above[sure]", "p, q = self.above[sure - 1]"),
        ("x * q / c", "x * q"),
        (" + between_zero_and(self.rest)", ""),
        ("total - above[-1][0])", "arb(0))"),
        (
            "if here * following[i][left - count] < least:",
            "if here * powers[i][left - count] < least:",
        ),
        ("arb.fac_ui(users - 1)", "arb.fac_ui(users)"),
        ("q + count * second", "q + second"),
        ("own.upper() > 0 or other.upper() > 0", "own.upper() > 0 and other.upper() > 0"),
        ("    if found + ceiling(-share, _BITS) > 2:\n", "    if False:\n"),
    ],
)
BINARY_TARGET = mutants(
    "certificates/binary_target.py",
    _PROFILES,
    [
        ("return total + rest * largest", "return total"),
        (
            "weight * (largest * tail - lost * (tail - at))",
            "weight * (largest * tail - lost * tail)",
        ),
    ],
    [
        (
            "return total + between_zero_and(mass * (j + 1) / (2 * j + 1 - c))",
            "return total",
            "the rest is less than the root of c times 2^-prec, and more sums than that were rounded",
        ),
    ],
)
COMPOSITION = mutants(
    "certificates/composition.py",
    _PROFILES,
    [
        ("kept[0] += below", "pass"),
        ("infinite + above, self.bits", "infinite, self.bits"),
        (
            "self.infinite * other.total + other.infinite * self.total",
            "self.infinite * other.infinite",
        ),
        ("return gain + dyadic(self.infinite, self.bits)", "return gain"),
    ],
)
TABLE = mutants(
    "certificates/loss_table.py",
    _PROFILES,
    [
        ("total = exact(self.infinite) + missing", "total = exact(self.infinite)"),
        ("total = exact(self.infinite) + missing", "total = missing"),
        ("weighted += masses[i] * (-exact(self.losses[i])).exp()", "weighted += masses[i]"),
    ],
)
VERIFICATION = mutants(
    "certificates/verification.py",
    _CHECKS,
    [
        ("if law.total != 1 << law.bits:", "if law.total > 1 << law.bits:"),
        ("if law.total != 1 << law.bits:", "if law.total < 1 << law.bits:"),
        ("if not own >= value.upper():", "if False:"),
        ("if not delta <= most:", "if False:"),
        (
            'orders = _ORDERS if any("backward" in law for law in laws) else _ORDERS[:1]',
            "orders = _ORDERS[:1]",
        ),
        ("orders = _ORDERS[:1] if part.profile.symmetric else _ORDERS", "orders = _ORDERS[:1]"),
        ('state["count"] != part.count', "False"),
        ('state["theorem"] != part.theorem', "False"),
        ('if content["adjacency"] != adjacency_of(parts):', "if False:"),
        ('if digest_of(content) != content["digest"]:', "if False:"),
    ],
)

MUTANTS = [
    *ADDITIVE,
    *ALLOCATED,
    *LETTERS,
    *MULTISETS,
    *BINARY_TARGET,
    *COMPOSITION,
    *TABLE,
    *VERIFICATION,
]
