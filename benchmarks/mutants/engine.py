"""Faults in the engine: windows, wrapped and missing mass, directions, the composed law."""

from __future__ import annotations

from benchmarks.mutants.mutant import mutants

_STRESSED = "tests/engine/test_stressed_composition.py"

WINDOWS = mutants(
    "engine/composition.py",
    "tests/engine/test_windows.py",
    [
        ("- value - log_outside) / steps", "- value) / steps"),
        ("- value - log_outside) / steps", "- log_outside) / steps"),
        (
            "math.ceil(least(1.0) / self.spacing) + 1)",
            "math.ceil(0.5 * least(1.0) / self.spacing))",
        ),
        ("math.floor(-least(-1.0) /", "math.floor(-0.5 * least(-1.0) /"),
        ("math.floor(-least(-1.0) /", "math.floor(-least(1.0) /"),
        ("math.ceil(least(1.0) /", "math.ceil(least(-1.0) /"),
        ("found, steps = float(bounds[0]), steps[0]", "found, steps = 0.5 * bounds[0], steps[0]"),
    ],
)

RARE_LOSSES = mutants(
    "engine/rare_losses.py",
    "tests/engine/test_rare_losses.py",
    [
        ("kept = first - grid.offset", "kept = first - grid.offset - 10"),
        ("if kept <= held[0]:", "if kept < held[0]:"),
        ("shorter = shorter or kept <= held[-1]", "shorter = True"),
        ("epsilon += -self._loss_error if self.upper else self._loss_error", "pass"),
        ("epsilon += -self._loss_error if self.upper", "epsilon += self._loss_error if self.upper"),
        ("+ (missed if opposite else 0.0)", ""),
        ("(0.0 if opposite else missed) +", ""),
        ("        missed += off\n", "        missed = 0.0\n"),
        ("most = raised(p, p_error) + off", "most = p"),
        ("value = lowered(p, p_error) -", "value = p -"),
        ("math.exp(min(bound.log_value + shift", "math.exp(min(bound.log_value"),
        ("product(bound.error, exponential(moved))", "0.0"),
        ("log_all += count * log_whole", "log_all += log_whole"),
        (
            "shares.append((min(log_rare - log_whole, 0.0), count))",
            "shares.append((log_rare, count))",
        ),
        ("none = sum(count * math.log1p(-chance)", "none = sum(math.log1p(-chance)"),
        ("if any(chance >= 1.0 for", "if any(chance >= 2.0 for"),
        ("exponential(moved + worst, own=own)", "exponential(worst, own=own)"),
        (
            "    return value, roundings(ELEMENTARY * (2.0 + size",
            "    return value, 0.0 * roundings(ELEMENTARY * (2.0 + size",
        ),
        ("total = first.value + second.value", "total = first.value"),
        ("total = first.value + second.value", "total = second.value"),
        ("aliasing=first.aliasing + second.aliasing", "aliasing=first.aliasing"),
    ],
)

COMPOSITION = mutants(
    "engine/composition.py",
    _STRESSED,
    [
        # infinite losses
        ("value + (error if upper else -error)", "value + (-error if upper else error)"),
        ("value + (error if upper else -error)", "value"),
        ("            roundings(ELEMENTARY) * value\n", "            0.0\n"),
        (
            "+ sequential_sum(len(self.parts), own=ELEMENTARY + 2) * moved",
            "",
        ),
        ("self.infinite = self._at_least_one([grid.infinite", "self.infinite = max([grid.infinite"),
        (
            "self.truncated = min(sum(count * grid.truncated",
            "self.truncated = min(sum(grid.truncated",
        ),
        (
            "self.loss_error = sum(count * grid.loss_error",
            "self.loss_error = sum(grid.loss_error",
        ),
        ("self.loss_error = sum(count", "self.loss_error = 0.0 * sum(count"),
        # the window
        ("math.exp(log_outside)", "0.0"),
        ("0.0 if first == bottom else outside", "0.0"),
        ("0.0 if last == top else outside", "0.0"),
        (
            "0.0 if first == bottom else outside, 0.0 if last == top else outside",
            "0.0 if last == top else outside, 0.0 if first == bottom else outside",
        ),
        # weights
        ("error = exponential(roundings(ELEMENTARY) * moved)", "error = 0.0"),
        # one end
        (
            "        epsilon += -source.loss_error if upper else source.loss_error\n        spacing",
            "        spacing",
        ),
        (
            "        epsilon += -source.loss_error if upper else source.loss_error\n        spacing",
            "        epsilon += source.loss_error if upper else -source.loss_error\n        spacing",
        ),
        ("rounding = law.error * divergence.norm(lam, spacing, size)", "rounding = 0.0"),
        ("law.error * divergence.norm(lam, spacing, size)", "law.error"),
        ("math.exp(-budget().reach) * 1.01", "0.0"),
        ("wrapped = (self._below + self._above) *", "wrapped = self._above *"),
        ("wrapped = (self._below + self._above) *", "wrapped = self._below *"),
        ("wrapped = (self._below + self._above) *", "wrapped = 0.0 *"),
        ("missing = self._above * math.exp(", "missing = 0.0 * math.exp("),
        ("            missing += self._below * divergence.largest(lam)\n", "            pass\n"),
        ("if epsilon < spacing * law.start:", "if epsilon > spacing * law.start:"),
        (
            "(body + rounding + missing + beyond) + underflow(1), relative)",
            "(body - rounding + missing + beyond) + underflow(1), relative)",
        ),
        (
            "(body + rounding + missing + beyond) + underflow(1), relative)",
            "(body + rounding + beyond) + underflow(1), relative)",
        ),
        (
            "(body + rounding + missing + beyond) + underflow(1), relative)",
            "(body + rounding + missing) + underflow(1), relative)",
        ),
        (
            "raised(scale * (body + rounding + missing + beyond) + underflow(1), relative)",
            "scale * (body + rounding + missing + beyond) + underflow(1)",
        ),
        (
            "max(0.0, scale * (body - rounding - wrapped)",
            "max(0.0, scale * (body + rounding - wrapped)",
        ),
        ("max(0.0, scale * (body - rounding - wrapped)", "max(0.0, scale * (body - rounding)"),
        (
            "lowered(max(0.0, scale * (body - rounding - wrapped)), relative)",
            "max(0.0, scale * (body - rounding - wrapped))",
        ),
        ("min(pairwise_sum(own=64 + exponents), 1e300)", "pairwise_sum()"),
        (
            "value = min(max(value, 0.0) + source.infinite, 1.0)",
            "value = min(max(value, 0.0), 1.0)",
        ),
        # without a transform
        (
            "        epsilon += -source.loss_error if upper else source.loss_error\n        above",
            "        above",
        ),
        (
            "        epsilon += -source.loss_error if upper else source.loss_error\n        above",
            "        epsilon += source.loss_error if upper else -source.loss_error\n        above",
        ),
        (
            "share(body, 1.0 / SCALE, 2.0 * relative, upper=upper)",
            "share(body, 1.0 / SCALE, 2.0 * relative, upper=not upper)",
        ),
        ("share(body, 1.0 / SCALE, 2.0 * relative, upper=upper)", "body / SCALE"),
        (
            "source.divergence.weight(above))) + law.scaled_infinite",
            "source.divergence.weight(above)))",
        ),
        # the composed law's masses
        (
            "np.maximum(law.mass[: losses.size], 0.0) + law.error",
            "np.maximum(law.mass[: losses.size], 0.0)",
        ),
        (
            "below = share(self._below, scale, 0.0, upper=True) if lam == 0.0 else math.inf",
            "below = 0.0 if lam == 0.0 else math.inf",
        ),
        (
            "below = share(self._below, scale, 0.0, upper=True) if lam == 0.0 else math.inf",
            "below = share(self._below, scale, 0.0, upper=True)",
        ),
        ("min(above, 1.0)", "0.0"),
    ],
)

COMPOSED_LAW = mutants(
    "engine/composed_law.py",
    _STRESSED,
    [
        (
            "first, bound, lost, below = start, mass, above, under",
            "first, bound, lost, below = start, mass, 0.0, under",
        ),
        (
            "first, bound, lost, below = start, mass, above, under",
            "first, bound, lost, below = start, mass, above, 0.0",
        ),
        ("wider = np.ones(", "wider = np.zeros("),
        ("    bound[0] += below\n", ""),
        ("whole = math.floor(error / spacing)", "whole = 0"),
        ("+ (error - whole * spacing)", ""),
        ("share = raised(share, roundings(2 * ELEMENTARY + 4))", "share = 0.999 * share"),
        (
            "    return start, raised(split, sequential_sum(2 * steps, own=16))",
            "    return start, split",
        ),
        (
            "infinite = min(infinite - surplus + roundings(2), 1.0)",
            "infinite = min(infinite - surplus, 1.0)",
        ),
        ("infinite = min(infinite - surplus + roundings(2), 1.0)", "pass"),
        (
            "min(mass[cut], below[cut] - surplus + rounding)",
            "min(mass[cut], below[cut] - surplus - rounding)",
        ),
        ("min(mass[cut], below[cut] - surplus + rounding)", "min(mass[cut], below[cut] - surplus)"),
        ("mass, infinite = np.zeros(1), 1.0", "mass, infinite = np.zeros(1), infinite"),
        (
            "surplus = math.fsum([*mass.tolist(), infinite]) - 1.0",
            "surplus = math.fsum(mass.tolist()) - 1.0",
        ),
        ("error = composition.loss_error + roundings(8) * reach", "error = roundings(8) * reach"),
        (
            "infinite = min(raised(composition.infinite, roundings(8)) + lost + _UNDERFLOW, 1.0)",
            "infinite = min(raised(composition.infinite, roundings(8)) + _UNDERFLOW, 1.0)",
        ),
        (
            "infinite = min(raised(composition.infinite, roundings(8)) + lost + _UNDERFLOW, 1.0)",
            "infinite = min(lost + _UNDERFLOW, 1.0)",
        ),
        (
            "infinite=min(atoms.infinite + float(atoms.mass[far].sum()), 1.0)",
            "infinite=min(atoms.infinite, 1.0)",
        ),
    ],
)

CLASSES = mutants(
    "engine/classes.py",
    "tests/engine/test_stressed_classes.py",
    [
        (
            "min(math.ceil(users), min(point.users for point in points))",
            "min(point.users for point in points) + 1",
        ),
        (
            "min(math.ceil(users), min(point.users for point in points))",
            "max(point.users for point in points)",
        ),
        (
            "max(math.ceil(users), max(point.users for point in points))",
            "max(point.users for point in points) - 1",
        ),
        (
            "max(math.ceil(users), max(point.users for point in points))",
            "min(point.users for point in points)",
        ),
        ("max(x.fraction for x in points), 1), 1.0)", "max(x.fraction for x in points), -1), 1.0)"),
        (
            "self._outwards(self.eps0, eps0, max(point.eps0 for point in points), 1)",
            "self._outwards(self.eps0, eps0, max(point.eps0 for point in points), -1)",
        ),
        (
            "min(point.fraction for point in points), -1)",
            "min(point.fraction for point in points), 1)",
        ),
        ("min(point.eps0 for point in points), -1)", "min(point.eps0 for point in points), 1)"),
        ("return far(edge, extreme) * (1.0 + sign * _NUDGE)", "return far(edge, extreme)"),
        (
            "return far(edge, extreme) * (1.0 + sign * _NUDGE)",
            "return far(edge, extreme) * (1.0 - sign * _NUDGE)",
        ),
        ("        and worse.users <= better.users\n", ""),
        ("        and no_less(worse.eps0, better.eps0)\n", ""),
        ("return first == second or first >= second * (1.0 + _NUDGE)", "return first <= second"),
        ("far = max if sign > 0 else min", "far = min if sign > 0 else max"),
    ],
)

TRADE_OFF = mutants(
    "engine/trade_off.py",
    "tests/engine/test_trade_off.py",
    [
        # round-off
        ("roundings(_OPERATIONS) * size", "0.0 * points"),
        ("least, most = line - above - moved,", "least, most = line - above,"),
        ("line - below + moved  # of h", "line - below - moved  # of h"),
        ("points[:-1] * rate + moved[:-1]", "points[:-1] * rate - moved[:-1]"),
        ("(most[1:-1] - least[:-2]) / gap[:-1]", "(least[1:-1] - most[:-2]) / gap[:-1]"),
        ("(least[2:] - most[1:-1]) / gap[1:]", "(most[2:] - least[1:-1]) / gap[1:]"),
        # which end, which point
        (
            "line - above - moved, line - below + moved",
            "line - below - moved, line - above + moved",
        ),
        ("lower = float(np.max(least))", "lower = float(np.max(most))"),
        ("1.0 - below[1:] - points[:-1] * rate", "1.0 - below[1:] - points[1:] * rate"),
        ("1.0 - below[1:] - points[:-1] * rate", "1.0 - above[:-1] - points[:-1] * rate"),
        ("np.maximum(np.maximum(first, last), meeting)", "np.maximum(first, last)"),
        ("np.maximum(np.maximum(first, last), meeting)", "np.minimum(first, last)"),
        ("    if rising[-1] <= 0.0:\n", "    if True:\n"),
        ("last = max(last, float(most[-1]))", "last = float(most[-1])"),
        ("max(float(cells[highest]), last, lower)", "max(last, lower)"),
        # mirror images, and the rate zero
        ("1.0 - (1.0 - upper[:0:-1]) / t[:0:-1]", "1.0 - (1.0 - upper[:0:-1]) * t[:0:-1]"),
        ("1.0 - (1.0 - lower[:0:-1]) / t[:0:-1]", "1.0 - (1.0 - lower[:0:-1]) / t[:0:-1] ** 2"),
        ("np.where(rates == 0.0, np.maximum", "np.where(rates >= 0.0, np.maximum"),
        ("1.0 - delta(last)[1] - roundings", "1.0 - delta(last)[0] - roundings"),
    ],
    [
        (
            "np.maximum(-falling * gap[:-1], 0.0)",
            "-falling * gap[:-1]",
            "where a line rises towards its point, h rises through the cell: no more than the next",
        ),
        (
            "np.maximum(rising * gap[1:], 0.0)",
            "rising * gap[1:]",
            "where a line falls from its point, h falls through the cell: no more than the one before",
        ),
    ],
)

MUTANTS = [*WINDOWS, *RARE_LOSSES, *COMPOSITION, *COMPOSED_LAW, *CLASSES, *TRADE_OFF]
