"""Faults in the lattice: snapping, transforms, what sums leave out, profiles, anchored laws."""

from __future__ import annotations

from benchmarks.mutants.mutant import mutants

_FILE = "tests/lattice/test_stressed_lattice.py"


def _stressed(*names: str) -> str:
    return " ".join(f"{_FILE}::test_{name}" for name in names)


DISCRETIZE = mutants(
    "lattice/discretize.py",
    _stressed("grids_contain_the_atoms", "what_atoms_carry_reaches_the_grid")
    + " tests/lattice/test_discretize.py",
    [
        ("loss_error=atoms.loss_error + 4 * snap * largest", "loss_error=atoms.loss_error"),
        ("loss_error=atoms.loss_error + 4 * snap * largest", "loss_error=4 * snap * largest"),
        (
            "loss_error=atoms.loss_error + 4 * snap * largest",
            "loss_error=atoms.loss_error - 4 * snap * largest",
        ),
        ("outwards(mass, slack, upper=atoms.side is Bound.PESSIMISTIC)", "mass"),
        (
            "outwards(mass, slack, upper=atoms.side is Bound.PESSIMISTIC)",
            "outwards(mass, slack, upper=atoms.side is Bound.OPTIMISTIC)",
        ),
        ("elif atoms.side is Bound.PESSIMISTIC:", "elif atoms.side is Bound.OPTIMISTIC:"),
        ("if scaled.size and np.array_equal(scaled, nearest):", "if scaled.size:"),
        ("        goal[-1] -= 1\n", "        pass\n"),
        ("left[-1] - surplus * (1.0 + 2.0**-40)", "left[-1]"),
        ("infinite=atoms.infinite", "infinite=0.0"),
        ("truncated=atoms.truncated", "truncated=0.0"),
        ("round_off=atoms.round_off + slack", "round_off=slack"),
        ("    low = rounded(mass - high)\n", "    low = 0.999 * rounded(mass - high)\n"),
        ("_totals(index + 1, high, size)", "_totals(index, high, size)"),
        (
            "share = np.expm1(-spacing * (scaled - cell))",
            "share = -spacing * (scaled - cell) + 0 * np.expm1(-spacing)",
        ),
        (
            "np.where(on_grid, nearest, np.floor(scaled))",
            "np.where(on_grid, nearest, np.ceil(scaled))",
        ),
        ("if surplus <= left * deficit:", "if surplus < 0.5 * left * deficit:"),
        ("taken = surplus / deficit\n", "taken = left\n"),
        ("surplus -= left * deficit", "surplus -= 0.5 * left * deficit"),
        (
            "merged = keys[used] / SUBCELLS - np.log1p(share) / spacing",
            "merged = (keys[used] + 1.0) / SUBCELLS",
        ),
    ],
)

CONVOLVE = mutants(
    "lattice/convolve.py",
    _stressed(
        "sums_are_within_their_error_if_all_operations_err",
        "errors_of_powers_add_up_in_one_place",
        "errors_of_factors_are_counted_as_often_as_they_are_added",
    ),
    [
        (
            "noise = per_level() * levels * max(total, 1.0) + factor.mass_error",
            "noise = factor.mass_error",
        ),
        (
            "noise = per_level() * levels * max(total, 1.0) + factor.mass_error",
            "noise = per_level() * levels * max(total, 1.0)",
        ),
        (
            "noise = per_level() * levels * max(total, 1.0) + factor.mass_error",
            "noise = -factor.mass_error",
        ),
        (
            "log_bound += factor.count * np.log(modulus + noise)",
            "log_bound += factor.count * np.log(modulus)",
        ),
        (
            "log_bound += factor.count * np.log(modulus + noise)",
            "log_bound += np.log(modulus + noise)",
        ),
        ("bound -= lowered(modulus, roundings(2 * ELEMENTARY))", "bound -= bound"),
        ("bound -= lowered(modulus, roundings(2 * ELEMENTARY))", "bound -= 2.0 * modulus"),
        ("error = norm * _norm(bound)", "error = 0.0"),
        ("norm = math.sqrt(2.0 / size)", "norm = math.sqrt(1.0 / size)"),
        ("    error += inverse\n", ""),
        (
            "return WindowedSum(start, np.roll(result, -((start - centre) % size)), error)",
            "return WindowedSum(start, np.roll(result, -((start - centre) % size)), 0.5 * error)",
        ),
        ("    bound += moved\n", ""),
        ("turn *= factor.count * roundings(ELEMENTARY + 1 + len(factors))", "turn *= 0.0"),
    ],
)

STACK = mutants(
    "lattice/stack.py",
    _stressed(
        "stacks_are_within_their_error_if_all_operations_err",
        "a_row_of_a_stack_errs_in_one_place",
        "rounding_counts_where_a_row_s_spectrum_is_nothing",
        "errors_of_rows_of_a_stack_are_counted",
    ),
    [
        (
            "noise = own * np.maximum(total, 1.0) + stack.mass_error",
            "noise = own * np.maximum(total, 1.0)",
        ),
        ("noise = own * np.maximum(total, 1.0) + stack.mass_error", "noise = stack.mass_error"),
        ("np.log(modulus + noise[part, None])", "np.log(modulus)"),
    ],
)

DOUBLING = mutants(
    "lattice/doubling.py",
    _stressed(
        "divergences_count_what_is_lost_and_moved",
        "a_divergence_beyond_all_doubles_is_what_is_lost",
        "values_of_two_laws_may_be_moved",
        "what_two_laws_lost_takes_the_other_s_gain_along",
        "sums_of_ratios_that_leave_much_out",
    ),
    [
        (
            "sign = 1.0 if side is Bound.PESSIMISTIC else -1.0\n        total = self.lost",
            "sign = -1.0 if side is Bound.PESSIMISTIC else 1.0\n        total = self.lost",
        ),
        (
            "total = self.lost if swapped else self.lost_gain",
            "total = self.lost_gain if swapped else self.lost",
        ),
        ("total = self.lost if swapped else self.lost_gain", "total = 0.0"),
        (
            "value = self.value * (1.0 + (-sign if swapped else sign) * self.moved)",
            "value = self.value",
        ),
        (
            "value = self.value * (1.0 + (-sign if swapped else sign) * self.moved)",
            "value = self.value * (1.0 + sign * self.moved)",
        ),
        ("float(self.mass[self.value == 0.0].sum()) if swapped else 0.0", "0.0"),
        ("        mass = outwards(mass, error, upper=upper)\n", ""),
        (
            "        mass = outwards(mass, error, upper=upper)\n",
            "        mass = outwards(mass, error, upper=not upper)\n",
        ),
        ("lost_gain=shares[0] * a.lost_gain\n", "lost_gain=0.0\n"),
        ("        + shares[1] * a.lost\n", ""),
        ("        + shares[1] * b.lost_gain\n", ""),
        ("        + shares[0] * b.lost,\n", ","),
        ("shares = a.count / count, b.count / count", "shares = b.count / count, a.count / count"),
        ("        lost=a.lost + b.lost,\n", "        lost=a.lost,\n"),
        ("        lost=a.lost + b.lost,\n", "        lost=b.lost,\n"),
        ("lost_gain=law.lost_gain + float(gain[~keep].sum())", "lost_gain=law.lost_gain"),
        (
            "lost_gain=law.lost_gain + float(gain[~keep].sum())",
            "lost_gain=float(gain[~keep].sum())",
        ),
        ("lost=law.lost + float(law.mass[~keep].sum())", "lost=law.lost"),
        ("lost=law.lost + float(law.mass[~keep].sum())", "lost=float(law.mass[~keep].sum())"),
        ("        if upper:\n            share", "        if not upper:\n            share"),
        ("            mass[1:] += above[:-1]\n", "            mass[:-1] += above[1:]\n"),
        ("            value = edges + inside\n", "            value = edges + run\n"),
        ("moved=max(a.moved, b.moved) + roundings(8)", "moved=roundings(8)"),
    ],
)

PAIRS = mutants(
    "lattice/pairs.py",
    _stressed("sums_of_pairs_state_their_error") + " tests/lattice/test_doubling.py",
    [
        (
            "return found, sequential_sum(terms, own=16)",
            "return found, 0.0",
        ),
        ("twice, count = 1.0, count + 1  # an atom", "count += 1  # an atom"),
        ("                    if x >= high:\n                        break\n", ""),
        ("row + v[j + _FEW - 1] >= high", "row + v[j] >= high"),
        ("row + v[j + _MANY - 1] < high", "row + v[j] < high"),
        (
            "moment += sums[1, block] + sums[0, block] * (x - low)",
            "moment += sums[0, block] * (x - low)",
        ),
        ("marked[law] += sums[law + 1, block]", "marked[law] += sums[law, block]"),
        ("here[1, cell] += mass * (x - edges[cell])", "here[1, cell] += mass * x"),
        ("                            times[cell] += 1\n", ""),
        ("weight * marked[law] + twice * f[law, i] * mass", "twice * f[law, i] * mass"),
        ("weight * marked[law] + twice * f[law, i] * mass", "weight * marked[law]"),
        ("terms[1] += terms[0] * (value - value[:, :1])", "pass"),
        ("return longest + often", "return 0"),
        (
            "rounded(found, 4), sequential_sum(most + u.size // rows, own=10)",
            "rounded(found, 4), 0.0",
        ),
        ("twice = 2.0 if same else 1.0", "twice = 1.0"),
    ],
)

POSITIVE = mutants(
    "lattice/positive.py",
    _stressed("direct_sums_are_within_their_error", "errors_of_direct_sums_add_up")
    + " tests/lattice/test_positive.py",
    [
        (
            "relative=product(a.relative, b.relative, roundings(terms), pairwise_sum())",
            "relative=0.0",
        ),
        (
            "relative=product(a.relative, b.relative, roundings(terms), pairwise_sum())",
            "relative=product(a.relative, roundings(terms), pairwise_sum())",
        ),
        ("(mass_b + infinite_b) + mass_a * infinite_b) / SCALE", "infinite_b) / SCALE"),
        ("(infinite_a * (mass_b + infinite_b) + mass_a", "(infinite_a * mass_b + mass_a"),
        ("LOST = 2.0**-1010", "LOST = 0.0"),
        ("SCALE = 2.0**500", "SCALE = 1.0"),
        (
            "    if side is Bound.PESSIMISTIC:\n        mass[0] += below",
            "    if side is Bound.OPTIMISTIC:\n        mass[0] += below",
        ),
        ("        infinite += above\n", "        pass\n"),
        ("        mass[0] += below\n", ""),
        ("        mass[-1] += above\n", "        mass[-1] += above + below\n"),
    ],
)

LATTICE_SUMS = mutants(
    "lattice/doubling.py",
    _stressed(
        "sums_on_a_lattice_whose_roundings_err",
        "no_mean_of_a_sum_is_beyond_the_extreme_sums",
        "means_that_are_in_doubt_may_be_smaller",
    ),
    [
        (
            "mass = outwards(cells.mass, cells.slack, upper=self.side is Bound.PESSIMISTIC)",
            "mass = cells.mass",
        ),
        (
            "mass = outwards(cells.mass, cells.slack, upper=self.side is Bound.PESSIMISTIC)",
            "mass = outwards(cells.mass, cells.slack, upper=self.side is Bound.OPTIMISTIC)",
        ),
        ("_sum_law(a, b, cells.means, mass), cells=cells)", "_sum_law(a, b, cells.points, mass))"),
        ("means = self.side is Bound.OPTIMISTIC", "means = False"),
        ("means = self.side is Bound.OPTIMISTIC", "means = self.side is Bound.PESSIMISTIC"),
        ("moved = law.moved + cells.means_error / float(law.value.min())", "moved = law.moved"),
    ],
)

EVEN_CELLS = mutants(
    "lattice/even_cells.py",
    "tests/lattice/test_even_cells.py::test_errors_are_within_their_bounds"
    " tests/lattice/test_even_cells.py::"
    "test_points_are_above_and_means_below_in_convex_order"
    " tests/lattice/test_even_cells.py::test_operations_that_err_are_within_their_bounds"
    " tests/lattice/test_even_cells.py::test_what_laws_may_err_is_counted_in_their_sums",
    [
        (
            "slack = product(self.slack, other.slack, sequential_sum(terms, own=4))",
            "slack = product(self.slack, sequential_sum(terms, own=4))",
        ),
        (
            "slack = product(self.slack, other.slack, sequential_sum(terms, own=4))",
            "slack = product(self.slack, other.slack)",
        ),
        (
            "slack=product(slack, sequential_sum(2.0 * most, own=12))",
            "slack=sequential_sum(2.0 * most, own=12)",
        ),
        ("slack=product(slack, sequential_sum(2.0 * most, own=12))", "slack=slack"),
        ("doubt = self.doubt + other.doubt\n", "doubt = self.doubt\n"),
        ("doubt += 2.0 * slack * (self.largest_shift + other.largest_shift)", "pass"),
        (
            "doubt=(1.0 + 4.0 * slack) * (self.doubt + 2.0 * slack * shift)",
            "doubt=(1.0 + 4.0 * slack) * self.doubt",
        ),
        (
            "doubt=(1.0 + 4.0 * slack) * (self.doubt + 2.0 * slack * shift)",
            "doubt=(1.0 + 4.0 * slack) * (2.0 * slack * shift)",
        ),
        (
            "(self.doubt + 2.0 * self.slack * self.largest_shift)",
            "(2.0 * self.slack * self.largest_shift)",
        ),
        ("return replace(found, doubt=4.0 * found.slack * spacing)", "return found"),
        (
            "share * (moment - (spacing * rest) * mass)",
            "share * (moment + (spacing * rest) * mass)",
        ),
        ("total(rest * mass, share * mass)", "total(share * mass, rest * mass)"),
        (
            "moment += convolved(self.mass, other.moment)",
            "moment -= convolved(self.mass, other.moment)",
        ),
    ],
)

_OF_FREQUENCIES = (
    "tests/lattice/test_inversion.py::test_what_lies_outside_and_what_is_left_out_is_counted"
    " tests/lattice/test_inversion.py::test_spectra_that_err"
    " tests/lattice/test_inversion.py::test_what_coefficients_are_off_is_part_of_both_ends"
    " tests/lattice/test_inversion.py::test_random_letters_contain_the_truth"
    " tests/lattice/test_inversion.py::test_windows_of_mirrored_letters_are_mirrored"
    " tests/lattice/test_inversion.py::test_far_letters_take_more_frequencies"
    " tests/lattice/test_inversion.py::test_rare_letters_that_are_left_out_are_counted"
    " tests/lattice/test_inversion.py::test_what_is_left_out_is_less_where_it_matters"
    " tests/lattice/test_inversion.py::test_letters_that_are_added_up_by_themselves"
    " tests/lattice/test_inversion.py::test_bounds_are_close_at_both_ends_of_a_range"
)

INVERSION = mutants(
    "lattice/inversion.py",
    _OF_FREQUENCIES,
    [
        ("replace(found, index=alpha[found.index])", "found"),
        ("poor = (over.sum(axis=0) > 1.0)", "poor = (over.sum(axis=0) > 1e300)"),
        (
            "np.max([self._left_out(n) for n in {*self.users}]",
            "np.max([self._left_out(self.users[1])]",
        ),
        ("rare=_RARE * self.width", "rare=_RARE + self.width"),
        ("upper = (upper + found.rare_gain)", "upper = upper"),
        ("+ self._apart.missed) *", ") *"),
        ("d, q = d + more - off, (q", "d, q = d + 1.01 * more - off, (q"),
        ("(q + sent + off_sent) *", "q *"),
        ("apart = more - anchor * sent +", "apart = 0.0 * more +"),
        ("1.0 - 1.01 * n * found.rare, math.nan", "1.0, math.nan"),
        ("return value, error + self._found.dropped", "return value, error"),
        (
            "above = (value[0] + error[0] + most) * (1.0 + relative)",
            "above = (value[0] + error[0]) * (1.0 + relative)",
        ),
        (
            "above = (value[0] + error[0] + most) * (1.0 + relative)",
            "above = (value[0] - error[0] + most) * (1.0 + relative)",
        ),
        (
            "sum_low = (value[0] - error[0] - most) * (1.0 - relative)",
            "sum_low = (value[0] + error[0] - most) * (1.0 - relative)",
        ),
        (
            "sum_low = (value[0] - error[0] - most) * (1.0 - relative)",
            "sum_low = (value[0] - error[0]) * (1.0 - relative)",
        ),
        ("gain = sum_low - noise\n", "gain = sum_low\n"),
        ("np.maximum(value[2] + error[2], 0.0)", "np.maximum(value[2] - error[2], 0.0)"),
        (
            "np.where(anchor > 0.0, anchor * low, anchor * high)",
            "anchor * high",
        ),
        (
            "outside = self._outside + anchor * (n * found.sent * found.outside)",
            "outside = self._outside",
        ),
        ("lower = (d - excess * q) *", "lower = d *"),
        ("q = scale * high *", "q = 0.999 * scale * high *"),
    ],
)

LETTERS_APART = mutants(
    "lattice/letters_apart.py",
    "tests/lattice/test_letters_apart.py"
    " tests/lattice/test_inversion.py::test_letters_that_are_added_up_by_themselves",
    [
        ("power = np.exp((n - 1) * self.log_mass)", "power = np.exp(n * self.log_mass)"),
        ("some = -np.expm1((n - 1) *", "some = -np.expm1(n *"),
        ("self.gain + some * self.rest_gain,", "self.gain,"),
        ("self.sent + some * self.rest_sent\n", "self.sent\n"),
        ("found = chance * (np.exp(bound)", "found = 0.1 * chance * (np.exp(bound)"),
        ("* deviation + below)", "* deviation)"),
        (
            "cut, missed = np.where(good, tried, cut), np.where(good, found, missed)",
            "cut = np.where(good, tried, cut)",
        ),
        ("chance=mine.sum(axis=1) / total", "chance=mine.sum(axis=1)"),
        ("(float(q.sum()) - 1.0)", "0.0"),
        ("log > 0.0, users[1] - 1.0, users[0] - 1.0", "log > 0.0, users[0] - 1.0, users[1] - 1.0"),
        ("below += others * max(others - 1.0, 0.0) *", "below += 0.0 *"),
    ],
)

POWER_SUMS = mutants(
    "lattice/power_sums.py",
    "tests/lattice/test_power_sums.py",
    [
        ("        off = self._off_each[:, some] * n\n", "        off = 0.0 * self._off[:, some]\n"),
        ("self._off_each[:, some] * n", "self._off_each[:, some]"),
        ("        off += self._off[:, some]\n", ""),
        ("terms -= self._imag[:, some] * sine", "terms += self._imag[:, some] * sine"),
        ("new[self._starts[:-1]] = True", "new[self._starts[0]] = True"),
        ("if not firsts.size or _FEWER * firsts.size > key.size:", "if not firsts.size:"),
        ("phase = (key[firsts] + 0.5) * turn", "phase = (key[firsts] - 0.5) * turn"),
        ("angle = self._angle - phase[group]", "angle = self._angle"),
        ("self._real * sine + self._imag * cosine", "self._real * sine - self._imag * cosine"),
        ("error=2.0 * np.stack(error)", "error=0.0 * np.stack(error)"),
        ("self._bent(float(users[0]), half, angle)", "self._bent(float(users[1]), half, angle)"),
        ("self._bent(float(users[0]), half, angle)", "self._bent(float(users[0]), middle, angle)"),
        ("np.log(0.5 * half *", "np.log(0.25 * half *"),
        ("math.lgamma(_NODES + 1.0)", "math.lgamma(_NODES + 2.0)"),
        ("np.hypot(self._log_modulus, angle) + off", "np.abs(angle)"),
        ("error * (1.0 + own) + self.bent", "error * (1.0 + own)"),
        ("real * cosine - imag * sine, self.rows", "real * cosine + imag * sine, self.rows"),
    ],
)

SPECTRA = mutants(
    "lattice/spectra.py",
    _OF_FREQUENCIES,
    [
        (
            "np.flatnonzero(size == one) for one in sizes",
            "np.flatnonzero(size == one) for one in sizes[1:]",
        ),
        ("survey.left_out[:, rows]", "0.0 * survey.left_out[:, rows]"),
        (
            "log_rest = letters.log_bound(modulus, s, users[0])",
            "log_rest = letters.log_bound(modulus, s, users[1])",
        ),
        ("np.minimum(bent, apart * size)", "0.0 * np.minimum(bent, apart * size)"),
        ("others = np.where(valid & ~near, np.exp(log_rest), 0.0)", "others = 0.0 * first"),
        ("limits, others) + left_out", "limits, others)"),
        (
            'dropped = np.einsum("akj,kj->ak", limits, others) + left_out',
            "dropped = left_out",
        ),
        ("dropped += series *", "dropped += 0.0 * series *"),
        ("both += first.sum(axis=2)[:, :, None]", "both += 0.0"),
        ("both += np.matmul(self.fine, weight[:, :, None]).transpose(0, 2, 1)", "both += 0.0"),
        ("    both += moved.sum(axis=3)[..., None]\n", ""),
        ("    both += np.matmul(turned, few.transpose(0, 2, 1))[:, :, None]\n", ""),
        ("        near_waves += near_few\n", ""),
        ("many = waves(_BLOCK * _FEW * step,", "many = waves(_BLOCK * step,"),
        ("there = np.repeat(np.take_along_axis(near, order, 1)", "there = np.repeat(near | True"),
        ("np.where(small, 0.5 * np.log1p(square), np.log(modulus))", "np.log1p(square)"),
    ],
)

RARE_LETTERS = mutants(
    "lattice/rare_letters.py",
    "tests/lattice/test_rare_letters.py",
    [
        ("rare = low / (mass.sum(axis=1) - low * _ROUNDED)", "rare = 0.0 * low"),
        ("(rare + high) * _ROUNDED", "rare * _ROUNDED"),
        ("gain * _ROUNDED)", "0.5 * gain)"),
        ("return kept, count - 1", "return kept, count - 2"),
        ("np.arange(order.shape[1]) >= count", "np.arange(order.shape[1]) > count"),
        ("np.argsort(-value, axis=1)", "np.argsort(value, axis=1)"),
        ("kept & others, (rare", "others, (rare"),
    ],
)

TILTED_LETTERS = mutants(
    "lattice/tilted_letters.py",
    _OF_FREQUENCIES,
    [
        ("    shrunk[far] = np.expm1(-moved[far])\n", ""),
        ("often = near & left_out.kept", "often = left_out.kept"),
        ("rare=left_out.rare,", "rare=0.0 * left_out.rare,"),
        ("some = self.weight.any(axis=0)", "some = self.weight.all(axis=0)"),
        (
            "np.min((users[1] * found + grown) / steps, axis=1)",
            "0.1 * np.min((users[1] * found + grown) / steps, axis=1)",
        ),
        ("(users - 1) * np.log(most)", "2.0 * users * np.log(most)"),
    ],
)

WAVES = mutants(
    "lattice/waves.py",
    "tests/lattice/test_waves.py",
    [
        ("    found += first\n", ""),
        ("then * (1.0 + first)", "then * first"),
        ("first[..., 1:, :] *= 2.0", "first[..., 1:, :] *= 1.0"),
        ("np.multiply(sine, -sine,", "np.multiply(sine, sine,"),
        ("waves(radix * step,", "waves(step,"),
    ],
)

PROFILE = mutants(
    "lattice/profile.py",
    _stressed(
        "masses_of_almost_straight_profiles_are_within_their_slack",
        "losses_of_a_profile_that_are_off",
        "profiles_whose_roundings_err",
        "profiles_of_every_function_between_the_bounds",
    )
    + " tests/lattice/test_profile.py",
    [
        (
            "which = 1 if side is Bound.PESSIMISTIC else 0",
            "which = 0 if side is Bound.PESSIMISTIC else 1",
        ),
        (
            "mass=outwards(mass[kept], slack[kept], upper=side is Bound.PESSIMISTIC)",
            "mass=mass[kept]",
        ),
        (
            "mass=outwards(mass[kept], slack[kept], upper=side is Bound.PESSIMISTIC)",
            "mass=outwards(mass[kept], slack[kept], upper=side is Bound.OPTIMISTIC)",
        ),
        ("own = exponential(roundings(2 * ELEMENTARY) * np.abs(loss))", "own = 0.0 * loss"),
        (
            "slack = np.divide(roundings(16) * size, change, out",
            "slack = np.divide(0.0 * size, change, out",
        ),
        ("loss_error=roundings(2 * ELEMENTARY)", "loss_error=0.0"),
        (
            "        infinite=infinite,\n        truncated",
            "        infinite=0.0,\n        truncated",
        ),
        ("    return np.asarray(low - below)", "    return np.asarray(low)"),
        (
            "before = np.concatenate([edge, (low[..., 1:-1] - high[..., :-2]) / run[:-1]], axis=-1)",
            "before = np.concatenate([edge, (low[..., 1:-1] - low[..., :-2]) / run[:-1]], axis=-1)",
        ),
        (
            "after = (high[..., 2:] - low[..., 1:-1]) / run[1:]",
            "after = (low[..., 2:] - low[..., 1:-1]) / run[1:]",
        ),
        (
            "if side is Bound.OPTIMISTIC:\n        points = _clip",
            "if side is Bound.PESSIMISTIC:\n        points = _clip",
        ),
        ("truncated = infinite if side is Bound.PESSIMISTIC else 0.0", "truncated = 0.0"),
        ("slope = (low[-1] - high[-2]) / run", "slope = (low[-1] - low[-2]) / run"),
        ("below = np.exp(-losses[:0:-1]) * backward", "below = backward"),
    ],
)

_SMOOTHED = "tests/lattice/test_smoothed.py::test_"

SMOOTHED = mutants(
    "lattice/smoothed.py",
    f"{_SMOOTHED}what_lies_outside_and_what_is_left_out_is_counted"
    f" {_SMOOTHED}rows_are_as_good_as_stated {_SMOOTHED}spectra_that_err"
    f" {_SMOOTHED}transforms_of_what_is_added {_SMOOTHED}strict_containment_in_exact_arithmetic"
    f" {_SMOOTHED}what_wrapping_adds_is_stated {_SMOOTHED}random_letters_contain_the_truth"
    f" {_SMOOTHED}the_scale_errs_by_what_is_stated"
    f" {_SMOOTHED}windows_leave_out_what_is_stated {_SMOOTHED}spectra_of_one_letter"
    f" {_SMOOTHED}how_far_wrapped_places_are_from_their_sums",
    [
        ("missing=left * largest + total * far", "missing=total * far"),
        ("missing=left * largest + total * far", "missing=left * largest"),
        ("overstated=left * largest + away", "overstated=away"),
        ("overstated=left * largest + away", "overstated=left * largest"),
        ("spurious=left * users * float(letter.r1.max())", "spurious=0.0"),
        ("relative=1.01 * users * letter.relative", "relative=0.0 * letter.relative"),
        (
            "log_scale = users * letter.log_scale + 0.5 *",
            "log_scale = users * letter.log_scale + 0.0 *",
        ),
        ("log_scale, size = top + math.log(total)", "log_scale, size = top"),
        ("grown = steps * (self.theta + 0.5 * steps) * smooth -", "grown = 0.0 * steps -"),
        ("np.sum(away)), float(np.sum(away * s[~held]))", "0.0 * n), 0.0 * n"),
        ("total += math.exp(-0.5 * smoothing.smooth * end**2) / fall", "pass"),
        ("2.02 * dropped", "1.0 * dropped"),
        ("[shared, distance, n * b", "[shared, 0.0 * distance, n * b"),
        ("n * b * shared, n * (bb", "0.0 * shared, n * (bb"),
        ("n * (bb + n * b * b) * shared", "bb * shared"),
        ("normal * (-self.spacing * mean * slope -", "normal * (self.spacing * mean * slope -"),
        ("mean * slope - self.smooth * z * shared)", "mean * slope + self.smooth * z * shared)"),
        ("* weight + own * moment", "* weight"),
        ("(apart + own * self.theta) * weight", "0.0 * weight"),
        ("bounds = np.concatenate([error[:1], nothing, error[1:]])", "bounds = 0.0 * values.real"),
        ("turned = np.exp(-1j * s * rest)", "turned = np.exp(0j * s * rest)"),
        ("disturbed(values, own), error + own", "disturbed(values, own), error"),
        ("error = 2.0 * (error + own).sum(axis=1)", "error = 0.0 * own.sum(axis=1)"),
    ],
)

ANCHORED = mutants(
    "lattice/anchored.py",
    _stressed(
        "the_spread_at_a_point_counts_errors_of_rows",
        "what_wrapping_adds_to_the_cost_of_an_event_is_counted",
        "a_line_through_the_only_event_gains_nothing_from_wrapping",
        "errors_of_rows_of_anchored_laws_are_counted",
        "places_and_the_scale_of_anchored_laws_are_counted",
        "anchored_laws_contain_the_truth",
    ),
    [
        (
            "product = np.maximum(w + e0, 0.0) * np.maximum(s + es, 0.0)",
            "product = w * np.maximum(s + es, 0.0)",
        ),
        (
            "product = np.maximum(w + e0, 0.0) * np.maximum(s + es, 0.0)",
            "product = np.maximum(w + e0, 0.0) * np.maximum(s, 0.0)",
        ),
        ("np.maximum(np.abs(b) - eb, 0.0) ** 2", "(np.abs(b) + eb) ** 2"),
        ("spread = product * (1.0 + 8 * UNIT_ROUNDOFF) -", "spread = 0.0 * product -"),
        ("still = self._noise(0, self.place) + order", "still = order"),
        (
            "moving = self.users * self.mean * self._noise(0) + self._noise(2)",
            "moving = self.users * self.mean * self._noise(0)",
        ),
        (
            "result += still + np.maximum(eta, 0.0) * moving + self.missing + 2.0 * self.shift",
            "result += np.maximum(eta, 0.0) * moving + self.missing + 2.0 * self.shift",
        ),
        (
            "result += still + np.maximum(eta, 0.0) * moving + self.missing + 2.0 * self.shift",
            "result += still + np.maximum(eta, 0.0) * moving + 2.0 * self.shift",
        ),
        (
            "result += still + np.maximum(eta, 0.0) * moving + self.missing + 2.0 * self.shift",
            "result += still + np.maximum(eta, 0.0) * moving + self.missing",
        ),
        ("slack = 1.0 + self.relative + 128 * UNIT_ROUNDOFF", "slack = 1.0"),
        ("gain = self.place * w + r", "gain = self.place * w"),
        (
            "lost = self._noise(0, self.place) + self._noise(1) + self.overstated + self.shift",
            "lost = self._noise(0, self.place) + self._noise(1) + self.shift",
        ),
        (
            "lost = self._noise(0, self.place) + self._noise(1) + self.overstated + self.shift",
            "lost = self._noise(1) + self.overstated + self.shift",
        ),
        (
            "lost = self._noise(0, self.place) + self._noise(1) + self.overstated + self.shift",
            "lost = self._noise(0, self.place) + self.overstated + self.shift",
        ),
        (
            "lost = self._noise(0, self.place) + self._noise(1) + self.overstated + self.shift",
            "lost = self._noise(0, self.place) + self._noise(1) + self.overstated",
        ),
        ("blurred = self.users * self.mean * self._noise(0) + self._noise(2)", "blurred = 0.0"),
        (
            "return gains, np.maximum(sents - blurred - self.spurious, 0.0), sents + blurred",
            "return gains, np.maximum(sents - blurred, 0.0), sents + blurred",
        ),
        (
            "return gains, np.maximum(sents - blurred - self.spurious, 0.0), sents + blurred",
            "return gains, np.maximum(sents - self.spurious, 0.0), sents + blurred",
        ),
        (
            "return gains, np.maximum(sents - blurred - self.spurious, 0.0), sents + blurred",
            "return gains, sents + blurred, np.maximum(sents - blurred, 0.0)",
        ),
        (
            "best * self.scale * max(1.0 - self.relative - 64 * UNIT_ROUNDOFF, 0.0)",
            "best * self.scale",
        ),
        ("scale = self.scale * max(1.0 - self.relative, 0.0)", "scale = self.scale"),
        (
            "found = gain - eta * sent - _RATIO",
            "found = gain - _RATIO",
        ),
    ],
)

ANCHORING = mutants(
    "lattice/anchoring.py",
    _stressed(
        "anchored_laws_contain_the_truth",
        "what_wrapping_adds_to_the_cost_of_points_is_stated",
        "the_scale_of_anchored_laws_errs_by_what_is_stated",
    ),
    [
        ("missing=total * (self.left * largest + far)", "missing=total * far"),
        ("missing=total * (self.left * largest + far)", "missing=total * self.left * largest"),
        ("overstated=total * self.left * (largest + reach)", "overstated=0.0"),
        ("spurious=total * self.left * self.users * float(self.r1.max())", "spurious=0.0"),
        ("relative=self._scale_error(log_scale)", "relative=0.0"),
        ("error=law.pointwise", "error=0.0 * law.pointwise"),
        ("norm=law.error / math.sqrt(size)", "norm=0.0 * law.error"),
    ],
)

HEAVY = mutants(
    "lattice/heavy_tails.py",
    _stressed(
        "heavy_positive_parts_that_leave_much_out", "heavy_positive_parts_of_values_that_are_off"
    ),
    [
        ("+ n * law.lost_gain", ""),
        ("np.maximum(law.value + error, 0.0)", "np.maximum(law.value - error, 0.0)"),
        ("np.maximum(law.value - error, 0.0)", "np.maximum(law.value + error, 0.0)"),
        ("return alone if side is Bound.PESSIMISTIC else 0.0", "return alone"),
        ("return alone if side is Bound.PESSIMISTIC else 0.0", "return 0.0"),
        (
            "return min(raised(found, roundings(4)), alone)",
            "return 0.999999 * min(raised(found, roundings(4)), alone)",
        ),
        ("reach=float(np.max(np.abs(one.value)))", "reach=0.0"),
    ],
)

MOMENTS = mutants(
    "lattice/moments.py",
    _stressed(
        "errors_of_moments_are_counted_in_powers",
        "moments_whose_operations_err",
        "powers_of_transforms_err_by_what_is_stated",
        "a_coarser_lattice_errs_by_what_is_stated",
    )
    + " tests/lattice/test_moments.py",
    [
        ("        error += own\n", ""),
        ("error[0] = c * e0 * g1", "error[0] = e0 * g1"),
        ("error[1] = c * (g1 * er + once * size_r)", "error[1] = c * g1 * er"),
        ("error[1] = c * (g1 * er + once * size_r)", "error[1] = c * once * size_r"),
        ("error[2] = c * (g1 * eb + once * size_b)", "error[2] = c * once * size_b"),
        ("error[3] = c * (g1 * es + once * size_s)", "error[3] = c * once * size_s"),
        ("        error += relative * bound\n", ""),
        (
            "error[:, ~seen] = _power_sizes(g, r, b, s, c)[:, None]",
            "error[:, ~seen] = 0.0",
        ),
        (
            "total = self.error + levels * np.abs(self.values)",
            "total = levels * np.abs(self.values)",
        ),
        ("total = self.error + levels * np.abs(self.values)", "total = self.error"),
        ("    error[1] += law.error[0] * growth * width\n", ""),
        ("    error += rounding\n    return MomentRows", "    return MomentRows"),
        (
            "error[row] += factor * (self.error[i] * size2[j] + first * other.error[j])",
            "error[row] += factor * self.error[i] * size2[j]",
        ),
        (
            "error[row] += factor * (self.error[i] * size2[j] + first * other.error[j])",
            "error[row] += factor * first * other.error[j]",
        ),
    ],
)

REGION = mutants(
    "lattice/region.py",
    _stressed("regions_are_below_what_their_points_say"),
    [
        ("* (1.0 - slack)", "* (1.0 + slack)"),
        ("loss_error=slack * float(np.max(np.abs(loss), initial=1.0))", "loss_error=0.0"),
        ("rest = max(1.0 - 2.0 * x[-1] - y[-1], 0.0)", "rest = max(1.0 - x[-1], 0.0)"),
        (
            "return (b[1] - a[1]) * (c[0] - b[0]) > (c[1] - b[1]) * (b[0] - a[0])",
            "return (b[1] - a[1]) * (c[0] - b[0]) < (c[1] - b[1]) * (b[0] - a[0])",
        ),
        (
            "x = np.where(beyond, np.maximum(0.5 * (1.0 - y), 0.0), x)",
            "x = np.where(beyond, 0.5 * x, x)",
        ),
    ],
)

STATISTIC = mutants(
    "lattice/statistic.py",
    _stressed(
        "statistics_state_their_error",
        "errors_of_statistics_are_handed_on",
        "statistics_of_sums_are_exact_where_cells_are_narrow",
        "coarser_statistics_state_their_error",
        "what_statistics_drop_is_lost",
    ),
    [
        ("lost=self.lost + raised(", "lost=raised("),
        ("lost=self.lost + raised(", "lost=0.1 * raised("),
        ("lost = self.lost if self is other else self.lost + other.lost", "lost = 0.0"),
        ("error = product(self.error, sequential_sum(terms))", "error = sequential_sum(terms)"),
        ("error = product(self.error, sequential_sum(terms))", "error = self.error"),
        (
            "[self.null, part * self.first, part * self.second]",
            "[self.null, self.first, self.second]",
        ),
        ("product(self.error, other.error, error, roundings(8))", "0.0"),
        ("product(self.error, other.error, error, roundings(8))", "product(error, roundings(8))"),
        ("product(self.error, other.error, error, roundings(8))", "self.error + other.error"),
        (
            "product(self.error, other.error, error, roundings(8))",
            "product(other.error, error, roundings(8))",
        ),
    ],
)

FAR = mutants(
    "lattice/far_letters.py",
    "tests/lattice/test_far_letters.py",
    [
        (
            "found * parts.untouched(upper=upper) + (most if upper else least)",
            "found * parts.untouched(upper=upper) + (least if upper else most)",
        ),
        (
            "found * parts.untouched(upper=upper) + (most if upper else least)",
            "found * parts.untouched(upper=upper)",
        ),
        ("error = exponential(n * product(slack, _ERROR))", "error = product(slack, _ERROR)"),
        (
            "raised(total, error) if upper else lowered(total, error)",
            "0.9999 * total if upper else 1.0001 * total",
        ),
    ],
)

MUTANTS = [
    *DISCRETIZE,
    *CONVOLVE,
    *STACK,
    *DOUBLING,
    *PAIRS,
    *POSITIVE,
    *LATTICE_SUMS,
    *EVEN_CELLS,
    *INVERSION,
    *LETTERS_APART,
    *POWER_SUMS,
    *SPECTRA,
    *RARE_LETTERS,
    *TILTED_LETTERS,
    *PROFILE,
    *WAVES,
    *SMOOTHED,
    *ANCHORED,
    *ANCHORING,
    *HEAVY,
    *MOMENTS,
    *REGION,
    *STATISTIC,
    *FAR,
]
