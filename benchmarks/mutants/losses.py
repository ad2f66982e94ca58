"""Faults in the losses: tails, missing mass, swapped ends, probabilities that may err."""

from __future__ import annotations

from benchmarks.mutants.mutant import mutants

_FILE = "tests/losses/test_stressed_losses.py"


def _stressed(*names: str) -> str:
    return " ".join(f"{_FILE}::test_{name}" for name in names)


_STEPS = "tests/losses/test_stressed_steps.py"


def _of_steps(*names: str) -> str:
    return " ".join(f"{_STEPS}::test_{name}" for name in names)


COUNTS = mutants(
    "losses/decoys/counts.py",
    _stressed("blocks_of_counts"),
    [
        ("            weight[-1] += tail\n", "            pass\n"),
        ("    missing = tail if low > 0 else 0.0\n", "    missing = 0.0\n"),
        ("        missing += tail if high < trials else 0.0\n", ""),
        ("        weight = weight + error\n", ""),
        ("        weight = weight + error\n", "        weight = weight - error\n"),
        ("weight = np.maximum(weight - error, 0.0)", "weight = np.maximum(weight, 0.0)"),
        ("weight = np.maximum(weight - error, 0.0)", "weight = np.maximum(weight + error, 0.0)"),
        (
            "slack = mass * np.expm1(log_pmf_error(counts, float(trials), rate, log_weight))",
            "slack = 0.0 * mass",
        ),
        ("tails = np.maximum(upper, lower) * relative", "tails = 0.0 * relative"),
        ("error = tails[first] + tails[last] +", "error = 0.0 * tails[last] +"),
        (
            "return CountBlocks(weight, edges[:-1], edges[1:] - 1.0, missing",
            "return CountBlocks(weight, edges[1:] - 1.0, edges[:-1], missing",
        ),
        ("goal = -math.log(tail) + 1.0", "goal = -0.3 * math.log(tail)"),
        (
            "mass = np.where(astride, 1.0 - lower[first] - upper[last], mass)",
            "mass = np.where(astride, 1.0 - lower[last] - upper[first], mass)",
        ),
    ],
)

DECOYS = mutants(
    "losses/decoys/decoy_counts.py",
    _stressed("counts_of_groups"),
    [
        ("missing=tail + _UNDERFLOW if random else 0.0", "missing=0.0"),
        (
            "mass + error if side is Bound.PESSIMISTIC else mass - error",
            "mass - error if side is Bound.PESSIMISTIC else mass + error",
        ),
        ("mass + error if side is Bound.PESSIMISTIC else mass - error", "mass"),
        ("high=np.append(blocks.high[starts[1:] - 1], blocks.high[-1])", "high=blocks.low[starts]"),
        (
            "weight, first, round_off = np.ones(1), certain, 0.0",
            "weight, first, round_off = np.ones(1), 0, 0.0",
        ),
    ],
)

CLONES = mutants(
    "losses/two_letters/clones.py",
    _stressed("binary_deltas"),
    [
        (
            "(blocks.low if side is Bound.PESSIMISTIC else blocks.high) + 1.0",
            "(blocks.high if side is Bound.PESSIMISTIC else blocks.low) + 1.0",
        ),
        (
            "(blocks.low if side is Bound.PESSIMISTIC else blocks.high) + 1.0",
            "(blocks.low if side is Bound.PESSIMISTIC else blocks.high) + 2.0",
        ),
        (
            "(blocks.low if side is Bound.PESSIMISTIC else blocks.high) + 1.0",
            "(blocks.low if side is Bound.PESSIMISTIC else blocks.high)",
        ),
        ("missing=blocks.missing", "missing=0.0"),
    ],
)

BINARY = mutants(
    "losses/two_letters/binary.py",
    _stressed("divergences_given_counts_far_from_the_mean", "binary_deltas", "binary_atoms"),
    [
        ("pairwise_sum(own=4)) + blocks.missing", "pairwise_sum(own=4))"),
        ("cut = 0.5 * effort.tail if bool(np.any(last < m)) else 0.0", "cut = 0.0"),
        ("truncated = blocks.missing + cut", "truncated = cut"),
        ("truncated = blocks.missing + cut", "truncated = -blocks.missing - cut"),
        ("+ (truncated if upper else 0.0)", ""),
        ("+ (truncated if upper else 0.0)", "+ truncated"),
        ("finite = np.where(np.isfinite(top), top, below)", "finite = top[np.isfinite(top)]"),
        ("tied = blocks.silent + ties(blocks.weight, m)", "tied = blocks.silent"),
        ("mass=outwards(everything, slack, upper=upper)", "mass=everything"),
        (
            "mass=outwards(everything, slack, upper=upper)",
            "mass=outwards(everything, slack, upper=not upper)",
        ),
        (
            "return f * np.maximum(value - error, 0.0), f * np.maximum(value + error, 0.0)",
            "return f * np.maximum(value + error, 0.0), f * np.maximum(value - error, 0.0)",
        ),
        (
            "return f * np.maximum(value - error, 0.0), f * np.maximum(value + error, 0.0)",
            "return f * np.maximum(value, 0.0), f * np.maximum(value, 0.0)",
        ),
        (
            "error = scale + np.abs(value) * exponential(log_pmf_error(first, m, 0.5, log_f))",
            "error = scale",
        ),
        (
            "error = scale + np.abs(value) * exponential(log_pmf_error(first, m, 0.5, log_f))",
            "error = np.abs(value) * exponential(log_pmf_error(first, m, 0.5, log_f))",
        ),
        (
            "np.floor(0.5 * m * (1.0 + reach)) + 1.0, m)  # smallest",
            "np.floor(0.5 * m * (1.0 + reach)) + 2.0, m)  # smallest",
        ),
        (
            "gain, cost = (2.0 + growth) * gap * share, growth * tail",
            "gain, cost = 2.0 * gap * share, growth * tail",
        ),
        ("np.concatenate([loss, -loss, [0.0]])", "np.concatenate([loss, loss, [0.0]])"),
        (
            "np.where(blocks.log_rest == -np.inf, np.exp2(1.0 - blocks.count), 0.0)",
            "np.where(blocks.log_rest == -np.inf, np.exp2(-blocks.count), 0.0)",
        ),
        (
            "np.where(blocks.log_rest == -np.inf, np.exp2(1.0 - blocks.count), 0.0)",
            "np.where(blocks.log_rest == -np.inf, np.exp2(2.0 - blocks.count), 0.0)",
        ),
    ],
)

CELLS = mutants(
    "losses/two_letters/cells.py",
    _stressed(
        "binary_atoms",
        "few_messages_that_all_may_tell_are_not_merged_with_others",
        "sums_of_cells_state_their_error",
    ),
    [
        (
            "return np.where(np.isfinite(loss), cell, last + 1)",
            "return np.where(np.isfinite(loss), cell, last)",
        ),
        ("slack=np.full(held.size, product(self._slack, rounding))", "slack=np.zeros(held.size)"),
        (
            "slack=np.full(held.size, product(self._slack, rounding))",
            "slack=np.full(held.size, rounding)",
        ),
        (
            "slack=np.full(held.size, product(self._slack, rounding))",
            "slack=np.full(held.size, self._slack)",
        ),
        ("loss_error=self._shift + 4.0 * rounding *", "loss_error=4.0 * rounding *"),
        (
            "self._shift + 4.0 * rounding * np.where(other > 0, loss, 0.0)",
            "self._shift + 0.0 * loss",
        ),
        (
            "            (self._difference, atoms.difference),\n",
            "            (self._difference, atoms.mass),\n",
        ),
        ("(self._other, atoms.other)", "(self._other, atoms.mass)"),
    ],
)

LISTING = mutants(
    "losses/two_letters/listing.py",
    _stressed("binary_atoms", "atoms_listed_in_runs_state_their_error"),
    [
        ("slack = exponential(off, own=12)", "slack = np.zeros_like(off)"),
        ("    error = log1p(loss, own=8)\n", "    error = 0.0 * loss\n"),
        (
            "share = a * np.exp(log_rest) + b * (1.0 + gap)",
            "share = a * (1.0 - gap) + a * (1.0 + gap)",
        ),
        (
            "HalfAtoms(f * (less + more), f * less, f * more, loss, slack, error)",
            "HalfAtoms(f * less, f * (less + more), f * more, loss, slack, error)",
        ),
        ("less, more = b * ahead + a * behind,", "less, more = a * ahead + b * behind,"),
    ],
)

TABLE = mutants(
    "losses/two_letters/clone_table.py",
    _stressed(
        "rows_of_the_table_of_counts_may_err",
        "rows_of_the_table_of_counts_have_the_right_weights",
        "atoms_from_the_table_of_counts",
    ),
    [
        ("weight[-1] = raised(weight[-1] + found.above, roundings(2))", "pass"),
        ("truncated = raised(found.below + 0.25 * table.tail, roundings(4))", "truncated = 0.0"),
        (
            "truncated = raised(found.below + 0.25 * table.tail, roundings(4))",
            "truncated = 0.25 * table.tail",
        ),
        ("infinite=raised(truncated + _UNDERFLOW, roundings(2)) if upper else 0.0", "infinite=0.0"),
        (
            "infinite=raised(truncated + _UNDERFLOW, roundings(2)) if upper else 0.0",
            "infinite=truncated",
        ),
        ("outwards(found.weight, found.error, upper=upper)", "found.weight"),
        (
            "outwards(found.weight, found.error, upper=upper)",
            "outwards(found.weight, found.error, upper=not upper)",
        ),
        (
            "mass=outwards(everything, slack, upper=upper)",
            "mass=outwards(everything, slack, upper=not upper)",
        ),
        ("below=tail if first > 0 else 0.0", "below=0.0"),
        ("above=tail if last < trials else 0.0", "above=0.0"),
        (
            "    if upper:\n        mass = np.append(down, 0.0) + np.append(0.0, up)",
            "    if not upper:\n        mass = np.append(down, 0.0) + np.append(0.0, up)",
        ),
        ("np.where(single, weight, 0.0), 0.0)", "weight, 0.0)"),
        ("    if not upper:\n        truncated += found.above\n", ""),
    ],
)

SUBSAMPLED = mutants(
    "losses/combined/subsampled.py",
    _stressed("subsampled_deltas", "subsampled_atoms", "subsampled_masses_that_err"),
    [
        ("outwards(inner, error, upper=not upper)", "outwards(inner, error, upper=upper)"),
        (
            "share(value, self.fraction, error, upper=upper)",
            "share(value, self.fraction, error, upper=not upper)",
        ),
        (
            "        rest += doubt if upper else -doubt\n",
            "        rest += -doubt if upper else doubt\n",
        ),
        ("        rest += (1.0 - g) * inner.infinite\n", ""),
        ("mass=outwards(mass, slack, upper=upper)", "mass=mass"),
        ("mass=outwards(mass, slack, upper=upper)", "mass=outwards(mass, slack, upper=not upper)"),
        (
            "outwards(rounded(g * inner.infinite), slack, upper=upper)",
            "rounded(g * inner.infinite)",
        ),
        (
            "outwards(rounded(g * inner.infinite), slack, upper=upper)",
            "outwards(rounded(inner.infinite), slack, upper=upper)",
        ),
        ("truncated=inner.truncated", "truncated=0.0"),
        ("round_off=inner.round_off + slack", "round_off=slack"),
        (
            "loss_error=inner.loss_error + slack * float(moved.max(initial=0.0))",
            "loss_error=slack * float(moved.max(initial=0.0))",
        ),
        (
            "loss_error=inner.loss_error + slack * float(moved.max(initial=0.0))",
            "loss_error=inner.loss_error",
        ),
        (
            "kept = np.where(gains, g + (1.0 - g) * np.exp(-size), 1.0)",
            "kept = np.where(gains, 1.0, g + (1.0 - g) * np.exp(-size))",
        ),
    ],
)

MADE = [
    *mutants(
        "losses/combined/diluted.py",
        _stressed("diluted_losses"),
        [
            (
                "infinite=outwards(self.active * inner.infinite, _ERROR, upper=upper)",
                "infinite=0.0",
            ),
            ("truncated=inner.truncated", "truncated=0.0"),
            ("loss_error=inner.loss_error", "loss_error=0.0"),
            (
                "share(value, self.active, _ERROR, upper=side is Bound.PESSIMISTIC)",
                "share(value, self.active, _ERROR, upper=side is Bound.OPTIMISTIC)",
            ),
            (
                "outwards(np.append(self.active * inner.mass, self.harmless), _ERROR, upper=upper)",
                "outwards(np.append(self.active * inner.mass, self.harmless), _ERROR, upper=not upper)",
            ),
        ],
    ),
    *mutants(
        "losses/combined/mixture.py",
        _stressed("mixtures_count_what_they_leave_out"),
        [
            ("            total += missing\n", "            pass\n"),
            ("+ (missing if upper else 0.0)", ""),
            ("+ (missing if upper else 0.0)", "+ missing"),
            ("truncated=sums.truncated + missing", "truncated=sums.truncated"),
            ("truncated=sums.truncated + missing", "truncated=missing"),
            (
                "loss_error=np.full(loss.size, atoms.loss_error)",
                "loss_error=np.zeros(loss.size)",
            ),
            ("half.loss_error.max(initial=0.0)", "half.loss_error.min(initial=1.0)"),
            (
                "infinite=outwards(sums.infinite, error, upper=upper) +",
                "infinite=",
            ),
            (
                "infinite=outwards(sums.infinite, error, upper=upper) +",
                "infinite=outwards(sums.infinite, error, upper=not upper) +",
            ),
            ("mass=outwards(everything, slack, upper=upper)", "mass=everything"),
            (
                "mass=outwards(everything, slack, upper=upper)",
                "mass=outwards(everything, slack, upper=not upper)",
            ),
            (
                "slack = np.concatenate([gains.slack, losses.slack, np.full(1 + far_mass.size, error)])",
                "slack = np.concatenate([0.0 * gains.slack, 0.0 * losses.slack, np.full(1 + far_mass.size, error)])",
            ),
            (
                "np.concatenate([gains.mass, losses.other, [sums.harmless], far_mass])",
                "np.concatenate([gains.mass, losses.mass, [sums.harmless], far_mass])",
            ),
            (
                "np.concatenate([gains.mass, losses.other, [sums.harmless], far_mass])",
                "np.concatenate([gains.mass, losses.other, [0.0 * sums.harmless], far_mass])",
            ),
        ],
    ),
    *mutants(
        "losses/tables/tabulated.py",
        _stressed("tables_count_what_is_missing_and_cut"),
        [
            ("                mass[0] += below", "                mass[-1] += 0.0 * below"),
            ("            infinite += table.missing + above\n", "            infinite += above\n"),
            (
                "            infinite += table.missing + above\n",
                "            infinite += table.missing\n",
            ),
            (
                "    if upper:\n            if mass.size",
                "    if not upper:\n            if mass.size",
            ),
            ("truncated=below + above", "truncated=0.0"),
            (
                "total = finite + table.infinity_mass + table.missing",
                "total = finite + table.infinity_mass",
            ),
            (
                "lowered(finite + table.infinity_mass, error)",
                "raised(finite + table.infinity_mass, error)",
            ),
        ],
    ),
]

TAIL = mutants(
    "losses/two_letters/tail.py",
    _stressed(
        "probabilistic_losses",
        "wide_blocks_of_the_probabilistic_loss_have_ordered_ends",
        "probabilistic_losses_at_points_of_the_grid",
        "probabilities_below_all_doubles_are_above_none",
        "blocks_of_the_probabilistic_loss",
        "what_the_probabilistic_loss_leaves_out_is_stated",
        "far_tails_of_the_probabilistic_loss_in_cells",
        "lower_ends_of_probabilities_that_lose_digits",
    ),
    [
        # one question
        (
            "count = (blocks.low if upper else blocks.high) + 1.0",
            "count = (blocks.high if upper else blocks.low) + 1.0",
        ),
        (
            "part *= 1.0 - _moved() if upper else 1.0 + _moved()",
            "part *= 1.0 + _moved() if upper else 1.0 - _moved()",
        ),
        ("part *= 1.0 - _moved() if upper else 1.0 + _moved()", "pass"),
        (
            "np.minimum(np.ceil(part * count), count) - 1.0",
            "np.minimum(np.ceil(part * count), count)",
        ),
        (
            "np.minimum(np.ceil(part * count), count) - 1.0",
            "np.minimum(np.floor(part * count), count) - 1.0",
        ),
        ("        least -= blocks.shift if upper else -blocks.shift\n", ""),
        (
            "least -= blocks.shift if upper else -blocks.shift",
            "least += blocks.shift if upper else -blocks.shift",
        ),
        ("least += (least + blocks.low) % 2.0", "least -= (least + blocks.low) % 2.0"),
        ("likelier = (least >= 1.0) == upper", "likelier = (least >= 1.0) != upper"),
        (
            "law = np.where(likelier, blocks.high, blocks.low)",
            "law = np.where(upper, blocks.high, blocks.low)",
        ),
        (
            "return min(raised(value, _tail_error()) + blocks.missing + 1e-315, 1.0)",
            "return min(raised(value, _tail_error()) + 1e-315, 1.0)",
        ),
        (
            "return min(raised(value, _tail_error()) + blocks.missing + 1e-315, 1.0)",
            "return min(value + blocks.missing + 1e-315, 1.0)",
        ),
        ("return lowered(value, _tail_error())", "return value"),
        ("return lowered(value, _tail_error())", "return raised(value, _tail_error())"),
        # blocks
        (
            "missing = found.missing + (tail if side is Bound.PESSIMISTIC else 0.0)",
            "missing = found.missing",
        ),
        (
            "found.weight, found.low, found.low + 2.0 * pairs, 1.0, missing",
            "found.weight, found.low, found.low, 1.0, missing",
        ),
        ("found.low + 2.0 * pairs, 1.0, missing", "found.low + 2.0 * pairs, 0.0, missing"),
        (
            "most.append(counts[np.minimum(starts + joined, counts.size) - 1])",
            "most.append(counts[starts])",
        ),
        ("sequential_sum(float(joined)), upper=side is", "0.0, upper=side is"),
        # the law on a grid
        ("beyond = 0.5 * effort.tail if reach < most else 0.0", "beyond = 0.0"),
        (
            "math.sqrt(-2.0 * most * math.log(0.25 * effort.tail))",
            "math.sqrt(-1.0 * most * math.log(0.25 * effort.tail))",
        ),
        (
            "cells = _Cells(side, spacing, last, blocks.shift)",
            "cells = _Cells(side, spacing, last, 0.0)",
        ),
        ("1.0 + (shift if self._upper else -shift)", "1.0 - (shift if self._upper else -shift)"),
        ("missing = blocks.missing + beyond\n", "missing = beyond\n"),
        ("missing = blocks.missing + beyond\n", "missing = blocks.missing\n"),
        ("infinite=infinite + missing + _UNDERFLOW if upper else infinite", "infinite=infinite"),
        (
            "infinite=infinite + missing + _UNDERFLOW if upper else infinite",
            "infinite=infinite + missing",
        ),
        ("truncated=missing", "truncated=0.0"),
        ("loss_error=roundings(4.0) * spacing * last", "loss_error=0.0"),
        # cells
        ("_half_law(high if outward else low,", "_half_law(low if outward else high,"),
        ("_half_law(high if outward else low,", "_half_law(high if self._upper else low,"),
        ("                chance[chance < _FEW_DIGITS] = 0.0\n", "                pass\n"),
        ("(inside if outward else 0.0)", "(0.0 if outward else inside)"),
        (
            "count = np.where((majority > 0.0) == self._upper, low, high)",
            "count = np.where((majority > 0.0) == self._upper, high, low)",
        ),
        (
            "np.ceil(np.where(majority > 0.0, 1.0 + _moved(), _moved() - 1.0) * place)",
            "np.ceil(np.where(majority > 0.0, 1.0, -1.0) * place)",
        ),
        (
            "np.floor(np.where(majority > 0.0, 1.0 - _moved(), -1.0 - _moved()) * place)",
            "np.floor(np.where(majority > 0.0, 1.0, -1.0) * place)",
        ),
        (
            "np.floor(np.where(majority > 0.0, 1.0 - _moved(), -1.0 - _moved()) * place)",
            "np.ceil(np.where(majority > 0.0, 1.0 - _moved(), -1.0 - _moved()) * place)",
        ),
        ("-last if self._upper else -last - 1.0, last + 1.0)", "-last - 1.0, last)"),
        ("return mass[1:-1], float(mass[-1]),", "return mass[1:-1], 0.0,"),
        (
            "outwards(rounded(self._mass, self._added), error, upper=self._upper)",
            "rounded(self._mass, self._added)",
        ),
        (
            "outwards(rounded(self._mass, self._added), error, upper=self._upper)",
            "outwards(rounded(self._mass, self._added), error, upper=not self._upper)",
        ),
        ("own=3.0 * self._values + _CENTRE_ERROR)", "own=3.0 * self._values)"),
        ("float(self._added), own=3.0 * self._values + _CENTRE_ERROR)", "0.0, own=_CENTRE_ERROR)"),
        # walks
        ("np.append(values[1:], values[-1] + step)", "np.append(values[1:], values[-1])"),
        ("law + error if upper else law - error, 0.0)", "law, 0.0)"),
        (
            "law + error if upper else law - error, 0.0)",
            "law - error if upper else law + error, 0.0)",
        ),
        ("        law[:, 0] *= 0.5\n", "        pass\n"),
        (
            "return min(raised(value, _tail_error()) + blocks.missing + 1e-315, 1.0)",
            "return min(raised(value, _tail_error()) + blocks.missing, 1.0)",
        ),
        (
            "infinite=infinite + missing + _UNDERFLOW if upper else infinite",
            "infinite=infinite + missing if upper else infinite",
        ),
    ],
)

GAUSSIAN = mutants(
    "losses/steps/gaussian.py",
    _stressed("normal_ratios_that_leave_much_out", "the_gaussian_profile_is_on_its_side"),
    [
        (
            "lost_gain = _below(low - shift) + _below(shift - high)",
            "lost_gain = _below(shift - high)",
        ),
        (
            "lost_gain = _below(low - shift) + _below(shift - high)",
            "lost_gain = _below(low - shift)",
        ),
        ("lost = _below(low) + _below(-high)", "lost = _below(-high)"),
        ("lost = _below(low) + _below(-high)", "lost = _below(low)"),
        ("1, lost_gain, lost, moved, value[-1])", "1, lost, lost_gain, moved, value[-1])"),
        ("lowered(mass, error)", "raised(mass, error)"),
        (
            "    if side is Bound.OPTIMISTIC:\n            return SumLaw(mean",
            "    if side is Bound.PESSIMISTIC:\n            return SumLaw(mean",
        ),
        ("split[1:] += mass * share", "split[:-1] += mass * share"),
        ("slack = slack if upper else -slack", "slack = -slack if upper else slack"),
        ("slack = slack if upper else -slack", "slack = 0.0"),
        ("return 1e-300 if upper else 0.0", "return 0.0"),
    ],
)

_SHARED = "tests/losses/test_shared_profile.py::test_"

COUNTED = mutants(
    "losses/alphabets/counted_law.py",
    "tests/losses/test_counted_law.py",
    [
        ("+ self.missing + TINY", "+ TINY"),
        ("+ p_off + (1.0 + excess) * q_off + self.missing", "- p_off + self.missing"),
        ("d=(p - q) - p_off - q_off", "d=(p - q) + p_off + q_off"),
        ("value = (p - q) - excess * q", "value = (p - q) - 1.001 * excess * q"),
        ("np.where(rising, 0, self.tails.shape[1] // 2)", "0"),
        ("np.floor(place - moved) + 1.0", "np.floor(place - moved) + 2.0"),
        ("np.ceil(place + moved)", "np.ceil(place + moved) - 1.0"),
        ("np.fmax(np.fmin(place, self.size + 1.0), -1.0)", "np.clip(place, -1.0, self.size - 1.0)"),
        ("start=row.ravel() * (size + 1)", "start=row.ravel() * size"),
        ("r[common[0]] * (rest - least)", "r[common[0]] * rest"),
        ("missing=0.5 * tail + max(float(r0.max()), 1.0) * left_out", "missing=0.0"),
        ("1.01 * (left_out + float(lost[first]))", "0.0"),
        ("if gone < 0.5 else math.log(others)", "if gone < 0.5 else math.log(0.5 * others)"),
        ("- factorial[more]", "- factorial[more - low]"),
        ("mass /= mass.sum(axis=1)[:, None]", "mass *= 1.001 / mass.sum(axis=1)[:, None]"),
        ("both = np.stack([mass, mass * more])", "both = np.stack([mass, mass * count])"),
        ("odds = math.log(second) - math.log(first)", "odds = math.log(first) - math.log(second)"),
    ],
)

SHARED = mutants(
    "losses/alphabets/shared_profile.py",
    f"{_SHARED}tables_of_pairs_contain_the_truth_for_all_numbers"
    f" {_SHARED}what_is_known_of_left_out_pairs_bounds_each_number"
    f" {_SHARED}all_pairs_left_out_are_bounded_all_the_same"
    f" {_SHARED}wide_bounds_between_close_ones_are_bridged"
    f" {_SHARED}a_closer_table_joins_where_it_was_asked"
    f" {_SHARED}counts_of_each_number_are_as_close_as_tables",
    [
        ("return high.upper + self.letters.exposed(self.excess)[1], low", "return high.upper, low"),
        ("excess[narrow], upper[narrow])", "excess, 0.0 * upper)"),
        ("wide = first + np.flatnonzero(~narrow[first:last])", "wide = np.flatnonzero(~narrow)"),
        ("narrow[wide] = upper[wide] - lower <= self.part[wide] * upper[wide]", "narrow[:] = True"),
        ("narrow[at] |= other.narrow", "narrow[:] |= other.narrow.all()"),
        (
            "return np.minimum(upper, self.bounds) + self.exposed",
            "return np.minimum(upper, self.bounds)",
        ),
        ("            upper = np.maximum(upper, rest)\n", ""),
        ("            narrow &= rest <= np.maximum(upper, self.others.tail)\n", ""),
        ("np.maximum(upper, self.others.tail)", "upper"),
        ("atoms = np.maximum(upper, high), narrow", "atoms = high, narrow"),
        ("with_exposed(pair.letters.low, low.q[kept], low.d[kept])", "(low.q[kept], low.d[kept])"),
        ("high = self.high.ends(users, many=many)", "high = self.high.ends(self.high.users[1])"),
        (
            "low = high if self.low is self.high else self.low.ends(users, many=many)",
            "low = self.low.ends(self.low.users[0])",
        ),
        ("return upper + self.exposed[1]", "return upper"),
        (
            "found = self.joined.ends(users, many=many)",
            "found = self.joined.ends(self.joined.users[1])",
        ),
        ("None if likely.all() else tables.only(~likely)", "None"),
        (">= self.largest + _BEYOND", ">= 0.5 * self.largest + _BEYOND"),
        (
            "letters = [OrderedLetters(source, users[0], effort, users[1]) for source in pairs]",
            "letters = [OrderedLetters(source, users[1], effort, users[1]) for source in pairs]",
        ),
    ],
)

ANTIPODAL = mutants(
    "losses/steps/antipodal.py",
    _stressed(
        "letters_of_the_antipodal_pair_may_err",
        "what_letters_may_err_is_taken_off_a_statistic",
        "what_a_statistic_dropped_is_an_outcome",
    ),
    [
        ("second[order], 1, budget().normal)", "second[order], 1, 0.0)"),
        ("low = np.maximum(plus - minus - noise, 0.0)", "low = np.maximum(plus - minus, 0.0)"),
        (
            "low = np.maximum(plus - minus - noise, 0.0)",
            "low = np.maximum(plus - minus + noise, 0.0)",
        ),
        ("missing = np.where(right, 1.0, alpha) * found.lost", "missing = 0.0"),
        ("+ noise / max(1.0 - error, 1e-300) + missing", "+ missing"),
        ("np.max(gain - cost - error, axis=0)", "np.max(gain - 0.9 * cost, axis=0)"),
        (
            "return replace(atoms, mass=mass, loss=-atoms.loss)",
            "return replace(atoms, mass=atoms.mass, loss=-atoms.loss)",
        ),
    ],
)

NULL_CLONES = mutants(
    "losses/steps/null_clones.py",
    _stressed(
        "weights_of_numbers_of_clones",
        "the_charge_for_clones",
        "divergences_of_means_count_what_is_lost_and_moved",
        "reversed_atoms_of_null_clones",
    ),
    [
        (
            "gamma = min(gamma * (1.0 + sign * roundings(16.0 + 4.0 * h)), BELOW_ONE)",
            "gamma = min(gamma * (1.0 - sign * roundings(16.0 + 4.0 * h)) ** 9, BELOW_ONE)",
        ),
        (
            "return min(beta * (1.0 + sign * roundings(2 * ELEMENTARY + 2)), 1.0)",
            "return min(beta * (1.0 - sign * roundings(200)), 1.0)",
        ),
        (
            "mass = mass * (1.0 + sign * (error + atoms.loss_error))",
            "mass = mass * (1.0 - sign * (error + atoms.loss_error))",
        ),
        (
            "mass = mass * (1.0 + sign * (error + atoms.loss_error))",
            "mass = mass * (1.0 + sign * error)",
        ),
        ("infinite=max(rest, 0.0) if atoms.side is Bound.PESSIMISTIC else 0.0", "infinite=0.0"),
        (
            "infinite=max(rest, 0.0) if atoms.side is Bound.PESSIMISTIC else 0.0",
            "infinite=max(rest, 0.0)",
        ),
        (
            "forward = moment[at] - excess * mass[at] + sign * error",
            "forward = moment[at] - excess * mass[at]",
        ),
        (
            "forward = moment[at] - excess * mass[at] + sign * error",
            "forward = moment[at] - excess * mass[at] - sign * error",
        ),
        (
            "(moment[at] - short * mass[at] + sign * error)",
            "(moment[at] - short * mass[at] - sign * error)",
        ),
        ("(moment[at] - short * mass[at] + sign * error)", "(moment[at] - short * mass[at])"),
        (
            "forward, backward = forward + law.lost_gain, backward + law.lost",
            "forward, backward = forward, backward + law.lost",
        ),
        (
            "forward, backward = forward + law.lost_gain, backward + law.lost",
            "forward, backward = forward + law.lost_gain, backward",
        ),
        (
            "forward, backward = forward + law.lost_gain, backward + law.lost",
            "forward, backward = forward + law.lost, backward + law.lost_gain",
        ),
        ("gain = law.value * (1.0 + sign * law.moved)", "gain = law.value"),
        ("gain = law.value * (1.0 - sign * law.moved)", "gain = law.value"),
        (
            "gain = law.value * (1.0 + sign * law.moved)",
            "gain = law.value * (1.0 - sign * law.moved)",
        ),
        ("np.maximum(1.0 + (error if upper else -error), 0.0)", "np.ones(first.size)"),
        (
            "np.maximum(1.0 + (error if upper else -error), 0.0)",
            "np.maximum(1.0 - (error if upper else -error), 0.0)",
        ),
        ("sequential_sum(float(law.size), own=16.0)", "0.0"),
        (
            'np.searchsorted(np.floor(places / unit) * unit, counts, side="right")',
            "np.append(np.searchsorted(places, counts)[1:], places.size)",
        ),
        (
            "mass, starts = mass[: ends[-1]], np.append(0, ends[:-1])",
            "starts = np.append(0, ends[:-1])",
        ),
        (
            "starts = np.searchsorted(places, counts)\n",
            "starts = np.append(0, np.searchsorted(places, counts)[:-1])\n",
        ),
    ],
)

_BAGS = "tests/losses/test_null_bags.py::test_"

BAGS = mutants(
    "losses/two_letters/null_bags.py",
    f"{_BAGS}profiles_are_on_their_side {_BAGS}counts_that_are_left_out"
    f" {_BAGS}probabilities_are_as_good_as_stated {_BAGS}probabilities_that_err_are_followed"
    f" {_BAGS}windows_hold_all_but_what_is_stated",
    [
        ("moved = roundings(64) * (np.abs(gain) + 2.0)", "moved = 0.0 * np.abs(gain)"),
        ("value = sign * gain + (moved if upper else -moved)", "value = sign * gain + moved"),
        ("np.maximum(value, 0.0), relative, upper", "np.maximum(value, 0.0), 0.0, upper"),
        ("exponential(_OFF * float(error.max()))", "exponential(0.0)"),
        ("found[0] += lost * growth", "found[0] += lost"),
        ("found[1] += lost * np.exp(points)", "found[1] += 0.0 * lost"),
        ("underflow(2.0 * terms) + 2.01 * self.left_out", "underflow(2.0 * terms)"),
        ("np.floor(m * s - self._below) - 1.0", "np.floor(m * s - 0.5 * self._below) - 1.0"),
        ("- last / k", "+ last / k"),
        ("m = np.maximum(k - last, 0.0)", "m = k"),
    ],
)

FAR_BELOW = mutants(
    "losses/steps/null_clones.py",
    _of_steps("where_mixtures_are_far_below_the_gaussian_mechanism"),
    [
        (
            "gaussian_profile(sigma, x, Bound.OPTIMISTIC) for x in losses.tolist()])\n    low = whole",
            "gaussian_profile(sigma, x, Bound.PESSIMISTIC) for x in losses.tolist()])\n    low = whole",
        ),
        (
            "np.minimum(low[1:], low[:-1]) >= np.maximum(mixed[1:], mixed[:-1])",
            "np.maximum(low[1:], low[:-1]) >= np.maximum(mixed[1:], mixed[:-1])",
        ),
        (
            "np.minimum(low[1:], low[:-1]) >= np.maximum(mixed[1:], mixed[:-1])",
            "low[1:] >= np.maximum(mixed[1:], mixed[:-1])",
        ),
        (
            "np.minimum(low[1:], low[:-1]) >= np.maximum(mixed[1:], mixed[:-1])",
            "low[:-1] >= np.maximum(mixed[1:], mixed[:-1])",
        ),
        (
            "np.minimum(low[1:], low[:-1]) >= np.maximum(mixed[1:], mixed[:-1])",
            "np.minimum(low[1:], low[:-1]) >= np.minimum(mixed[1:], mixed[:-1])",
        ),
        (
            "np.append(False, step) & np.append(step, False)",
            "np.append(False, step) | np.append(step, False)",
        ),
        ("np.append(False, step) & np.append(step, False)", "np.append(False, step)"),
        ("np.append(False, step) & np.append(step, False)", "np.append(step, False)"),
    ],
)

MEAN_RATIO = mutants(
    "losses/steps/mean_ratio.py",
    _of_steps(
        "means_of_ratios",
        "no_law_of_known_total_has_larger_losses_if_sums_err",
        "nothing_is_completed_beyond_the_total_if_sums_err",
        "where_one_ratio_outweighs_all_others",
    )
    + " tests/losses/test_mean_ratio.py",
    [
        # one question
        ("total = self._infinite(law) if upper else 0.0", "total = 0.0"),
        (
            "nudge = (1.0 + law.moved) if upper != self.swapped else (1.0 - law.moved)",
            "nudge = 1.0",
        ),
        (
            "nudge = (1.0 + law.moved) if upper != self.swapped else (1.0 - law.moved)",
            "nudge = (1.0 - law.moved) if upper != self.swapped else (1.0 + law.moved)",
        ),
        (
            "nudge = (1.0 + law.moved) if upper != self.swapped else (1.0 - law.moved)",
            "nudge = (1.0 + law.moved) if upper else (1.0 - law.moved)",
        ),
        ("total = raised(total, pairwise_sum(own=8)) + _SUBNORMAL", "total += _SUBNORMAL"),
        (
            "total = max(total * (1.0 - pairwise_sum(own=8)) - _SUBNORMAL, 0.0)",
            "total = max(total - _SUBNORMAL, 0.0)",
        ),
        (
            "-growth - (1.0 + growth) * gain if self.swapped else gain - growth",
            "gain - growth",
        ),
        (
            "            total += float(np.sum(law.mass[law.value == 0.0]))\n",
            "            pass\n",
        ),
        (
            "return self.fraction * self.source.infinite * (1.0 - roundings(4))",
            "return self.source.infinite",
        ),
        (
            "            total += self.fraction * self.source.infinite * (1.0 - roundings(4))\n",
            "            total += 2.0 * self.fraction * self.source.infinite\n",
        ),
        ("        if self.swapped:\n            return law.lost\n", ""),
        (
            "return self.fraction * law.lost_gain + (1.0 - self.fraction) * law.lost",
            "return self.fraction * law.lost_gain",
        ),
        (
            "return self.fraction * law.lost_gain + (1.0 - self.fraction) * law.lost",
            "return (1.0 - self.fraction) * law.lost",
        ),
        # where one ratio decides
        (
            "least = self.source.alone(alone * (1.0 + slack), side)",
            "least = self.source.alone(epsilon, side)",
        ),
        ("self.fraction * least * (1.0 - math.exp(-epsilon) - slack)", "least"),
        ("best = min(best, (one + rest) * (1.0 + slack))", "best = min(best, one)"),
        ("one = self.fraction * self.source.alone(point, side)", "one = 0.0"),
        # atoms
        ("own = product(slack, law.moved)", "own = slack"),
        ("own = product(slack, law.moved)", "own = law.moved"),
        (
            "        loss, mass, own = -loss, law.mass, slack\n",
            "        loss, own = -loss, slack\n",
        ),
        ("        loss, mass, own = -loss, law.mass, slack\n", "        mass = law.mass\n"),
        (
            "            lost += float(law.mass[nothing].sum()) * (1.0 + slack)\n",
            "            pass\n",
        ),
        (
            "certain = float(law.mass[nothing].sum()) * (1.0 - slack)",
            "certain = float(law.mass.sum())",
        ),
        ("outwards(mass[order], own, upper=upper)", "mass[order]"),
        ("outwards(mass[order], own, upper=upper)", "outwards(mass[order], own, upper=not upper)"),
        ("infinite=lost + _SUBNORMAL if upper else certain", "infinite=_SUBNORMAL"),
        ("infinite=lost + _SUBNORMAL if upper else certain", "infinite=lost"),
        (
            "loss_error=law.moved + slack * float(np.max(np.abs(loss), initial=1.0))",
            "loss_error=slack * float(np.max(np.abs(loss), initial=1.0))",
        ),
        (
            "loss_error=law.moved + slack * float(np.max(np.abs(loss), initial=1.0))",
            "loss_error=law.moved",
        ),
        ("mass = _completed(mass, 1.0 - lost)", "mass = _completed(mass, 1.0)"),
        ("        elif self.source.complete:\n", "        else:\n"),
        # masses of a known total
        ("mass.size) * (1.0 - 2.0 * error) - 1.0", "mass.size) - 1.0"),
        ("mass.size) * (1.0 - 2.0 * error) - 1.0", "mass.size) * (1.0 - error) - 1.0"),
        ("np.clip(below - excess, 0.0, mass)", "np.clip(mass - excess, 0.0, mass)"),
        (
            "np.clip(below - excess, 0.0, mass)",
            "np.clip(np.cumsum(mass[::-1])[::-1] - excess, 0.0, mass)",
        ),
        ("missing = total * (1.0 - error) -", "missing = total -"),
        (
            "np.append(rounded(mass[0] + missing, 3), mass[1:])",
            "np.append(mass[:-1], mass[-1] + missing)",
        ),
    ],
    [
        (
            "self.fraction * least * (1.0 - math.exp(-epsilon) - slack)",
            "self.fraction * least * (1.0 - slack)",
            "the positive part of a sum of numbers >= 0 less a threshold is no less than the sum of"
            " theirs, so that two large ratios at once only add",
        ),
    ],
)

PRODUCT_RATIO = mutants(
    "losses/steps/product_ratio.py",
    _of_steps("products_of_ratios", "products_of_ratios_whose_masses_are_subnormal"),
    [
        ("infinite = one.lost_gain if upper else ratio.one.infinite", "infinite = 0.0"),
        (
            "infinite = one.lost_gain if upper else ratio.one.infinite",
            "infinite = one.lost_gain",
        ),
        ("mass * np.maximum(1.0 + sign * slack, 0.0)", "mass"),
        (
            "mass * np.maximum(1.0 + sign * slack, 0.0)",
            "mass * np.maximum(1.0 - sign * slack, 0.0)",
        ),
        ("lost = passes * one.lost + _TAIL + unseen if upper else 0.0", "lost = _TAIL"),
        ("lost = passes * one.lost + _TAIL + unseen if upper else 0.0", "lost = one.lost"),
        ("moved = math.expm1(passes * grid.loss_error) +", "moved ="),
        ("moved = math.expm1(passes * grid.loss_error) +", "moved = grid.loss_error +"),
        (
            "PldAtoms(side, p[ends:], loss[ends:], infinite, 0.0, 0.0, one.moved)",
            "PldAtoms(side, p[ends:], loss[ends:], infinite, 0.0, 0.0, 0.0)",
        ),
        ("some = -math.expm1(passes *", "some = -math.expm1("),
        ("    if never > 0.0:\n", "    if False:\n"),
        ("some if upper else min(some, left)", "some"),
        (
            "lost_gain = min(gained, 1.0)",
            "lost_gain = 0.0",
        ),
        ("return -math.expm1(none) * (1.0 - roundings(2 * ELEMENTARY + 2))", "return 1.0"),
        ("    if not upper:  # putting mass", "    if upper:  # putting mass"),
        ("off <= one.moved + roundings(16) * abs(float(loss[0])) else 0", "True else 0"),
        ("(mass >= NORMAL) & (upper |", "(mass >= 0.0) & (upper |"),
        (" + (float(np.sum(scaled[~normal])) if upper else 0.0)", ""),
    ],
)

TABLE_RATIO = mutants(
    "losses/steps/table_ratio.py",
    _of_steps("tables_of_ratios", "masses_of_tables_under_q", "the_least_profile_states_its_error"),
    [
        ("        infinite += table.missing\n", ""),
        ("        infinite += float(p[far].sum())\n", ""),
        ("p = _capped(table.probabilities, infinite)", "p = table.probabilities"),
        ("kept = np.append(np.zeros(first), p[first:])", "kept = p.copy()"),
        ("min(rounded(left(first)), float(p[first - 1]))", "0.0"),
        ("min(rounded(left(first)), float(p[first - 1]))", "p[first - 1]"),
        ("[1.0, -infinite, *(-p[first:])]", "[1.0, *(-p[first:])]"),
        ("q * (1.0 + error if upper else 1.0 - error)", "q"),
        (
            "q * (1.0 + error if upper else 1.0 - error)",
            "q * (1.0 - error if upper else 1.0 + error)",
        ),
        (
            "    if float(q.sum()) > 1.0 + noise or missing > 0.0:\n",
            "    if float(q.sum()) > 1.0 + noise:\n",
        ),
        (
            "    if float(q.sum()) > 1.0 + noise or missing > 0.0:\n",
            "    if missing > 0.0:\n",
        ),
        ("    if rest > slack:\n", "    if False:\n"),
        ("rest + (slack if upper else -slack)", "rest"),
        ("rest + (slack if upper else -slack)", "rest + (-slack if upper else slack)"),
        ("min(infinite, 1.0), 0.0, moved", "0.0, 0.0, moved"),
        ("np.append(noise / q_below, error[first:])", "np.append(0.0, error[first:])"),
        ("        moved + 2.0 * noise / q_below,\n", "        moved,\n"),
        ("np.append(p_below / q_below, ratio[first:])", "np.append(1.0, ratio[first:])"),
        (" + missing, p.size)", ", p.size)"),
        ("return self.bounds.lower.infinity_mass", "return 1.0"),
        (
            "loss, p = np.maximum(loss[~far], -_LARGEST_LOG), p[~far]",
            "loss, p = np.minimum(loss, _LARGEST_LOG), p",
        ),
        ("_from_below(np.minimum(loss, _LARGEST_LOG), p)", "np.maximum(loss, -_LARGEST_LOG), p"),
    ],
)

BOUNDED_RATIO = mutants(
    "losses/steps/bounded_ratio.py",
    _of_steps("two_valued_ratios", "two_valued_ratios_that_leave_much_out", "laplace_ratios"),
    [
        ("np.maximum(1.0 + sign * error, 0.0)", "1.0"),
        ("np.maximum(1.0 + sign * error, 0.0)", "np.maximum(1.0 - sign * error, 0.0)"),
        ("moved = roundings(8.0 + 4.0 * self.largest)", "moved = 0.0"),
        ("moved = roundings(8.0 + 4.0 * self.eps0)", "moved = 0.0"),
        ("lost = tail if low > 0 or high < users else 0.0", "lost = 0.0"),
        ("goal = -math.log(0.25 * tail)", "goal = 0.1"),
        (
            "gain = loss + sign * roundings(4) * self.largest - epsilon",
            "gain = loss - sign * 1e-6 * self.largest - epsilon",
        ),
        ("mass[::-1] * -np.expm1", "mass * -np.expm1"),
        ("return rounded(total, pairwise_sum(own=8), side)", "return total"),
        ("value, mass = p / q, q * (1.0 - error)", "value, mass = p / q, q * (1.0 + error)"),
        ("value, mass = p / q, q * (1.0 - error)", "value, mass = p / q, q"),
        ("[[0.5], mass, [highest * (1.0 - error)]]", "[[0.5], mass, [highest]]"),
        ("            mass *= 1.0 + error\n", ""),
        ("            mass *= 1.0 + error\n", "            mass *= 1.0 - error\n"),
        ("            mass[-1] += highest\n", ""),
        ("            mass[0] += 0.5\n", ""),
        ("mass[1:] += q * share", "mass[:-1] += q * share"),
        (
            "value + sign * roundings(16) * (abs(value) + eps0)",
            "value",
        ),
        (
            "value + sign * roundings(16) * (abs(value) + eps0)",
            "value - sign * roundings(16) * (abs(value) + eps0)",
        ),
        (
            "value + sign * roundings(16) * (abs(value) + eps0)",
            "value + sign * roundings(16) * abs(value)",
        ),
    ],
)

FAR_APART = mutants(
    "losses/steps/far_apart.py",
    _of_steps(
        "one_ratio_that_is_followed_in_its_score",
        "two_ratios_that_are_followed_in_the_larger_one_s_score",
    ),
    [
        ("mass=mass * (1.0 + error if upper else 1.0 - error)", "mass=mass"),
        (
            "mass=mass * (1.0 + error if upper else 1.0 - error)",
            "mass=mass * (1.0 - error if upper else 1.0 + error)",
        ),
        ("infinite=lost if upper else 0.0", "infinite=0.0"),
        ("infinite=lost if upper else 0.0", "infinite=lost"),
        ("np.logaddexp(target[1:], others) - total", "np.logaddexp(target[:-1], others) - total"),
        ("np.logaddexp(target[1:], others) - total", "target[1:] - total"),
        ("np.logaddexp(target[:-1] - total, nothing)", "np.logaddexp(target[1:] - total, nothing)"),
        ("total = math.log(loss.users / loss.fraction)", "total = math.log(loss.users)"),
        ("total = math.log(loss.users / loss.fraction)", "total = -math.log(loss.fraction)"),
        ("    mass = loss.fraction * mass\n", ""),
        ("logs, mass = np.append(rest, logs), np.append(idle, mass)", "pass"),
        (
            "np.logaddexp(ratio[:-1] + math.log(loss.fraction / n), nothing)",
            "np.logaddexp(ratio[1:] + math.log(loss.fraction / n), nothing)",
        ),
        (
            "np.logaddexp(ratio[:-1] + math.log(loss.fraction / n), nothing)",
            "np.logaddexp(ratio[:-1] + math.log(loss.fraction), nothing)",
        ),
        (
            "np.logaddexp(ratio[1:] + math.log(loss.fraction), nothing)",
            "np.logaddexp(ratio[:-1] + math.log(loss.fraction), nothing)",
        ),
        (
            "np.logaddexp(ratio[1:] + math.log(loss.fraction), nothing)",
            "np.logaddexp(ratio[1:] + math.log(loss.fraction / n), nothing)",
        ),
        ("mass = np.exp(n * logs[1:])", "mass = np.exp(logs[1:])"),
        ("outside = math.exp(n * float(log_ndtr(bottom))) +", "outside ="),
        (" + n * math.exp(float(log_ndtr(-top)))", ""),
        (
            "total = float(np.sum(atoms.mass * weight)) + atoms.infinite",
            "total = float(np.sum(atoms.mass * weight))",
        ),
    ],
)

DIVERGENCE = mutants(
    "losses/divergence.py",
    _stressed("hockey_stick_norms_bound_their_sums"),
    [
        (
            "return math.sqrt(min(top * points, top + integral / spacing))",
            "return math.sqrt(min(top * points, integral / spacing))",
        ),
        (
            "return 1.0 if lam == 0 else float((lam / (lam + 1)) ** lam / (lam + 1))",
            "return 1.0 if lam == 0 else float((lam / (lam + 1)) ** lam / (lam + 2))",
        ),
        (
            "            return math.sqrt(top * points)\n        integral",
            "            return math.sqrt(top)\n        integral",
        ),
    ],
)

MUTANTS = [
    *mutants(
        "losses/two_letters/binary.py",
        "tests/losses/test_losses.py::test_what_is_alike_in_many_blocks_is_computed_once",
        [
            (
                "[(m * size + a).astype(np.intp)]",
                "[(m * size + np.maximum(a - 1, 0)).astype(np.intp)]",
            ),
            ("size = 1 << math.ceil(math.log2(largest + 1.0))", "size = int(largest)"),
        ],
    ),
    *mutants(
        "losses/alphabets/mixed_profiles.py",
        "tests/losses/test_random_users.py tests/losses/test_random_users.py"
        "::test_mixtures_contain_the_sum_over_all_multisets"
        " tests/losses/test_rare_numbers.py",
        [
            ("found = ~self.narrow\n", "found = np.zeros(self.narrow.shape, dtype=bool)\n"),
            (
                "searchsorted(self.excess, high)) + 1 :] = False",
                "searchsorted(self.excess, high)) :] = False",
            ),
            ("value = share * (np.interp", "value = (np.interp"),
            ("return bool(np.any(number * value > most))", "return False"),
            ("most = 1 + max(profile.q.size", "most = max(profile.q.size"),
            ("sequential_sum(len(self.parts))) + self.missing)", "sequential_sum(1.0)))"),
            ("part.upper_at(excess) for part in self.parts]", "self.parts[0].upper_at(excess)]"),
            ("part.events_at(excess) for part in self.parts]", "self.parts[0].events_at(excess)]"),
            ("self.fraction[:, None] * (1.0 - roundings(4))", "self.fraction[:, None] * 1.001"),
            (
                "(right - left), 0.0, 1.0) * (1.0 - roundings(8))",
                "(right - left), 0.0, 1.0) * 1.001",
            ),
            (
                "self.upper[row, first] * (1.0 - share) + self.upper[row, first + 1] * share",
                "self.upper[row, first + 1]",
            ),
            ("total = (self.weight * self.fraction) @ value", "total = self.weight @ value"),
            (
                "d += (self.weight[some] * fraction) @ self.d[row[:, None], best]",
                "d += self.weight[some] @ self.d[row[:, None], best]",
            ),
            (
                "q += self.weight[some] @ self.q[row[:, None], best]",
                "q += (self.weight[some] * fraction) @ self.q[row[:, None], best]",
            ),
            (
                "outwards(excess, roundings(ELEMENTARY + 4), upper=not upper)",
                "outwards(excess, 0.01, upper=upper)",
            ),
        ],
    ),
    *mutants(
        "losses/alphabets/random_users.py",
        "tests/losses/test_random_users.py tests/losses/test_random_users.py"
        "::test_mixtures_contain_the_sum_over_all_multisets",
        [
            ("truncated=found.missing", "truncated=0.0"),
            (
                "float(part.excess[-1] * part.fraction.max())",
                "float(part.excess[-1] * part.fraction.min())",
            ),
            ("np.append(excess, further[further > excess[-1]])", "excess"),
        ],
    ),
    *mutants(
        "losses/alphabets/random_questions.py",
        "tests/losses/test_random_users.py tests/losses/test_random_users.py"
        "::test_mixtures_contain_the_sum_over_all_multisets",
        [
            ("for users in (min(numbers), max(numbers))", "for users in (max(numbers),) * 2"),
            ("(missing if crowd.largest == math.inf else 0.0)", "0.0"),
            ("return lowered(share * least, error)", "return raised(least, error)"),
        ],
    ),
    *COUNTS,
    *DECOYS,
    *CLONES,
    *BINARY,
    *CELLS,
    *LISTING,
    *TABLE,
    *SUBSAMPLED,
    *MADE,
    *TAIL,
    *GAUSSIAN,
    *COUNTED,
    *SHARED,
    *ANTIPODAL,
    *NULL_CLONES,
    *BAGS,
    *FAR_BELOW,
    *MEAN_RATIO,
    *PRODUCT_RATIO,
    *TABLE_RATIO,
    *BOUNDED_RATIO,
    *FAR_APART,
    *DIVERGENCE,
]
