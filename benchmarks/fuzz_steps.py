"""Random questions of `benchmarks.fuzz` beside those about channels: steps, one user, files.

* Steps of training and rounds of one user have closed forms. They are asked in both orders, of the
  loss itself and of its atoms, and mostly near the largest loss, with parameters that rounds derive
  from those given (shares of steps and populations, noise of several passes, probabilities of
  eps0). The truth has 80 digits.
* States and certificates are altered. What is altered under its old digest is refused; under a new
  digest it may be read, and then claims no less than what holds.
"""

from __future__ import annotations

import copy
import importlib
import json
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import hypothesis
import numpy as np

import shuffle_accountant as sa
from shuffle_accountant.losses.base import Effort
from shuffle_accountant.numerics.rounding import Bound

_TESTS = str(Path(__file__).resolve().parent.parent / "tests")
if _TESTS not in sys.path:
    sys.path.insert(0, _TESTS)
MP = importlib.import_module("oracles.precision").MP.clone()
MP.dps = 80
mutated = importlib.import_module("oracles.mutated")
divergence = importlib.import_module("oracles.atoms").divergence

_EFFORT = Effort(tail=1e-30, resolution=1e-3)
# Altered states for each question about files.
_STATES = 20
Real = Any


@dataclass(frozen=True)
class Digits:
    """An exact value in 80 digits, of which cancellation leaves more than 40."""

    value: Real

    def may_stay_below(self, upper: float) -> bool:
        """Whether it may be at most the upper end."""
        return bool(self.value * (1 - MP.mpf("1e-40")) - MP.mpf("1e-60") <= MP.mpf(upper))

    def may_reach(self, lower: float) -> bool:
        """Whether it may be at least the lower end."""
        return bool(MP.mpf(lower) <= self.value * (1 + MP.mpf("1e-40")) + MP.mpf("1e-60"))

    def __str__(self) -> str:
        return str(MP.nstr(self.value, 20))


# ------------------------------------------------------------------------------- closed forms


def response(alpha: Real, eps0: Real) -> Real:
    """Of the two messages of binary randomized response, for any alpha > 0."""
    power = MP.exp(eps0)
    p, q = power / (1 + power), 1 / (1 + power)
    return max(p - alpha * q, 0) + max(q - alpha * p, 0)


def laplace(alpha: Real, eps0: Real) -> Real:
    """Of Laplace's law and the one moved by 1, scale 1/eps0."""
    level = MP.log(alpha)
    if level >= eps0:
        return MP.mpf(0)
    if level <= -eps0:
        return 1 - alpha
    return 1 - MP.exp((level - eps0) / 2)


def normal(alpha: Real, shift: Real) -> Real:
    """Divergence of two normal laws, given their distance in deviations."""
    place = MP.log(alpha) / shift
    return MP.ncdf(shift / 2 - place) - alpha * MP.ncdf(-shift / 2 - place)


def sampled(base: Callable[[Real], Real], rate: Real, alpha: Real, *, swapped: bool) -> Real:
    """Of the mixture of a law P with the null law Q, against Q; or the other way round."""
    if not swapped:
        level = (alpha - 1 + rate) / rate
        return rate * base(level) if level > 0 else 1 - alpha
    left = 1 - alpha * (1 - rate)
    if left <= 0:
        return MP.mpf(0)
    level = alpha * rate / left  # (Q - level P)_+, and the base pair is symmetric
    return left * base(level)


def dealt(eps0: Real, steps: int, alpha: Real, *, swapped: bool) -> Real:
    """Of steps of randomized response of which one has the record, count by count."""
    power = MP.exp(eps0)
    total = MP.mpf(0)
    for a in range(steps + 1):
        chance = MP.binomial(steps, a) * power ** (steps - a) / (1 + power) ** steps
        ratio = (a * power + (steps - a) / power) / steps
        total += chance * (max(1 - alpha * ratio, 0) if swapped else max(ratio - alpha, 0))
    return total


# --------------------------------------------------------------------------------- questions


def _number(rng: np.random.Generator, low: float, high: float) -> float:
    return float(10.0 ** rng.uniform(math.log10(low), math.log10(high)))


def _near(rng: np.random.Generator, largest: float) -> Iterator[float]:
    """Epsilons near the largest loss, from far to the next double, and anywhere below."""
    yield float(rng.random()) * largest
    for _ in range(4):
        yield max(largest * (1.0 - 10.0 ** -rng.uniform(0.0, 17.0)), 0.0)
    yield max(largest - 10.0 ** -rng.uniform(0.0, 15.0), 0.0)
    yield math.nextafter(largest, 0.0)
    yield largest


def _step(rng: np.random.Generator) -> tuple[str, Any, Callable[..., Real], float]:
    """A round, its line, its exact divergence (alpha, swapped) and about its largest loss."""
    kind = int(rng.integers(6))
    rate = float(rng.choice([_number(rng, 1e-6, 0.99), 1.0 / float(rng.integers(2, 50))]))
    if kind in (0, 1):  # sampled steps of bounded loss
        eps0 = _number(rng, 1e-3, 30.0)
        if kind == 0:
            line, mechanism = f"sa.PureMechanism(epsilon={eps0!r})", sa.PureMechanism(epsilon=eps0)
            whole = MP.mpf(eps0)
        else:
            scale = 1.0 / eps0
            line, mechanism = (
                f"sa.LaplaceMechanism(scale={scale!r})",
                sa.LaplaceMechanism(scale=scale),
            )
            whole = 1 / MP.mpf(scale)
        base = response if kind == 0 else laplace
        one: Any = sa.PoissonSampled(mechanism, rate=rate)
        line = f"sa.PoissonSampled({line}, rate={rate!r})"

        def bounded(alpha: Real, swapped: bool) -> Real:
            return sampled(lambda x: base(x, whole), MP.mpf(rate), alpha, swapped=swapped)

        return line, one, bounded, math.log1p(rate * math.expm1(float(whole)))
    if kind == 2:  # normal noise, several passes through one step
        sigma, passes = _number(rng, 0.1, 50.0), int(rng.choice([1, 2, 3, 7, 49, 1000]))
        mechanism = sa.GaussianMechanism(noise_multiplier=sigma)
        one = sa.RandomAllocation(mechanism, steps=1, passes=passes)
        line = f"sa.RandomAllocation(sa.{mechanism!r}, steps=1, passes={passes})"
        shift = MP.sqrt(passes) / MP.mpf(sigma)
        return line, one, lambda alpha, swapped: normal(alpha, shift), 8.0 * float(shift)
    if kind == 3:  # one step of some, with the record
        eps0, steps = _number(rng, 1e-3, 20.0), int(rng.integers(1, 30))
        one = sa.RandomAllocation(sa.PureMechanism(epsilon=eps0), steps=steps)
        line = f"sa.RandomAllocation(sa.PureMechanism(epsilon={eps0!r}), steps={steps})"

        def share(alpha: Real, swapped: bool) -> Real:
            return dealt(MP.mpf(eps0), steps, alpha, swapped=swapped)

        return line, one, share, eps0
    # one user of randomized response, alone or of a population
    k = int(rng.choice([2, 3, 10, 1000, 2**31, 2**53]))
    if kind == 4:
        eps0 = _number(rng, 1e-6, 200.0)
        randomizer = sa.RandomizedResponse(categories=k, eps0=eps0)
        power = MP.exp(MP.mpf(eps0))
    else:
        gamma = float(rng.choice([_number(rng, 1e-300, 0.99), 1.0 - _number(rng, 1e-15, 0.9)]))
        randomizer = sa.RandomizedResponse.from_gamma(categories=k, gamma=gamma)
        power = 1 + (1 - MP.mpf(gamma)) * k / MP.mpf(gamma)
        eps0 = float(MP.log(power))
    population = int(rng.choice([1, 1, 3, 49, 10**6, 10**15]))
    asked = "" if population == 1 else f", population={population}"
    one = sa.ShuffleRound(
        randomizer,
        users=1,
        population=None if population == 1 else population,
        reduction="blanket",
    )
    line = f"sa.ShuffleRound(sa.{randomizer!r}, users=1{asked}, reduction='blanket')"
    part = 1 / MP.mpf(population)
    keep, lie = power / (power + k - 1), 1 / (power + k - 1)

    def letters(alpha: Real, swapped: bool) -> Real:
        """Of one user, replaced; whether it takes part is not seen."""
        return part * max(keep - ((alpha - 1) / part + 1) * lie, 0)

    def whole_order(alpha: Real, swapped: bool) -> Real:
        return letters(alpha, swapped)

    return (
        line,
        one,
        whole_order,
        eps0 if population == 1 else math.log1p(math.expm1(min(eps0, 700.0)) / population),
    )


def steps(judge: Any, rng: np.random.Generator) -> None:
    """One round by its closed form, in both orders, as a question and through its atoms."""
    judge.style = "closed forms"
    line, one, truth, largest = _step(rng)
    orders = isinstance(one, sa.PoissonSampled | sa.RandomAllocation)
    # of more values than that the pair is that of all randomizers with that eps0
    own = orders or one.randomizer.categories <= 2**31
    loss = one.reduced().loss
    for epsilon in _near(rng, largest):
        alpha = MP.exp(MP.mpf(epsilon))
        values = [truth(alpha, swapped) for swapped in (False, True)]
        said = f"sa.delta({line}, epsilon={epsilon!r})"
        bracket = judge.ask(lambda e=epsilon: sa.delta(one, epsilon=e), said)
        if bracket is not None:
            compare = judge.contains if own else judge.above
            compare("closed form", bracket, Digits(max(values)), said)
        if not orders:
            continue
        for order, value in zip((loss, loss.reversed), values, strict=True):
            name = "first order" if order is loss else "second order"
            said = f"{line}.reduced().loss, {name}, epsilon={epsilon!r}"
            found = judge.ask(lambda o=order, e=epsilon: _direct(o, e), said)
            if found is not None:
                judge.contains(name, found, Digits(value), said)
    if orders and rng.random() < 0.3:
        _atoms(judge, rng, line, loss, truth, largest)


def _direct(loss: Any, epsilon: float) -> Any:
    low, high = (
        loss.delta(epsilon, side, _EFFORT) for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
    )
    return SimpleNamespace(lower=low, upper=high)


def _atoms(
    judge: Any,
    rng: np.random.Generator,
    line: str,
    loss: Any,
    truth: Callable[..., Real],
    largest: float,
) -> None:
    """The atoms that compositions start from, in both orders."""

    def edges(most: float) -> Any:
        return np.linspace(0.0, 1.01 * most + 1e-9, 400)

    for order, swapped in ((loss, False), (loss.reversed, True)):
        said = f"{line}.reduced().loss{'.reversed' if swapped else ''}.atoms"
        judge.checks[judge.style] += 1
        try:
            atoms = [
                order.atoms(side, edges, _EFFORT) for side in (Bound.OPTIMISTIC, Bound.PESSIMISTIC)
            ]
        except Exception as error:
            judge.fail(f"atoms raise {type(error).__name__}", f"{error!s:.120}", said)
            continue
        for epsilon in [float(x) * largest for x in rng.random(3)]:
            low, high = (divergence(one, epsilon) for one in atoms)
            found = SimpleNamespace(lower=low, upper=high)
            value = truth(MP.exp(MP.mpf(epsilon)), swapped)
            judge.contains("atoms", found, Digits(value), f"{said}, epsilon={epsilon!r}")


# ------------------------------------------------------------------------------------- files


def files(judge: Any, rng: np.random.Generator) -> None:
    """Altered states of one format: refused in a line, or read if the digest is made anew."""
    judge.style = "altered files"
    formats = {**mutated.FORMATS, **_certificates()}
    name = str(rng.choice(list(formats)))
    made = formats[name]

    @hypothesis.seed(int(rng.integers(2**31)))
    @hypothesis.settings(
        max_examples=_STATES,
        deadline=None,
        database=None,
        phases=[hypothesis.Phase.generate],
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(mutated.mutations(made.state), mutated.texts(made.state))
    def reads(state: Any, text: str) -> None:
        for call in (lambda: made.read(state), lambda: made.read_text(text)):
            judge.checks[judge.style] += 1
            fault = mutated.refusal(call)
            if fault:
                judge.fail(f"{name}: {fault.partition(':')[0]}", fault, f"{state!r:.400}")
        for kind, read in _SEALED.items():
            if name == kind:
                _under_its_old_digest(judge, kind, read, made.state, state)

    reads()
    if name.startswith("verified"):
        _claims(judge, rng, made.state)


def _certificates() -> dict[str, Any]:
    try:
        return dict(mutated.certificate_formats())
    except ImportError:  # they need an optional library
        return {}


_SEALED: dict[str, Callable[[Any], Any]] = {
    "accountant": sa.FourierAccountant.from_state_dict,
    "ledger": sa.training.ShuffleLedger.from_state_dict,
}


def _under_its_old_digest(
    judge: Any, name: str, read: Callable[[Any], Any], before: Any, state: Any
) -> None:
    """Whoever alters a state and leaves its digest is refused."""
    judge.checks[judge.style] += 1
    if not isinstance(state, dict) or state.get("digest") != before["digest"]:
        return
    if json.dumps(_plain(state), sort_keys=True, default=str) == json.dumps(
        _plain(before), sort_keys=True
    ):
        return
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            read(copy.deepcopy(state))
    except (TypeError, ValueError):
        return
    judge.fail(f"{name}: altered and read", "no error", f"{state!r:.400}")


def _plain(value: Any) -> Any:
    """Whole floats as integers, which digests take for the same."""
    if isinstance(value, dict):
        return {key: _plain(held) for key, held in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(held) for held in value]
    if isinstance(value, float) and value.is_integer() and abs(value) <= 2**53:
        return int(value)
    return value


def _claims(judge: Any, rng: np.random.Generator, state: Any) -> None:
    """A certificate that claims less than what holds is not verified, whatever its digest says."""
    content = {key: held for key, held in copy.deepcopy(state).items() if key != "digest"}
    made = sa.certificates.Certificate.from_content(content)
    number = "epsilon" if rng.random() < 0.5 else "delta"
    claimed = float(getattr(made, number))
    changed = _replaced(content, claimed, claimed * float(1.0 - 10.0 ** -rng.uniform(0.1, 1.5)))
    judge.checks[judge.style] += 1
    try:
        outcome = sa.certificates.verify(sa.certificates.Certificate.from_content(changed))
    except (TypeError, ValueError):
        return
    if outcome.verified:
        said = f"{number} {claimed!r} lowered"
        judge.fail("certificate: verified though altered", said, f"{changed!r:.400}")


def _replaced(value: Any, before: float, after: float) -> Any:
    """All that is that number is another one."""
    if isinstance(value, dict):
        return {key: _replaced(held, before, after) for key, held in value.items()}
    if isinstance(value, list):
        return [_replaced(held, before, after) for held in value]
    return after if isinstance(value, float) and value == before else value
