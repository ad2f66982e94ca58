"""`ledger`: budgets kept in a database, for jobs that are no Python programs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import typer

from shuffle_accountant.cli import flags
from shuffle_accountant.cli.output import computing, print_answer
from shuffle_accountant.cli.parsing import examples, flag, group
from shuffle_accountant.reports.tables import columns
from shuffle_accountant.training.budget import BudgetExceeded
from shuffle_accountant.training.filters import PrivacyFilter
from shuffle_accountant.training.ledger import ShuffleLedger

Kept = TypeVar("Kept")

Url = Annotated[
    str,
    typer.Argument(help="Database: sqlite:///FILE or postgresql+psycopg://USER@HOST/DB."),
]
Name = Annotated[str, typer.Argument(help="Name of the ledger in it.")]
# named, as the parser of numbers changes the options that it finds here
Count = Annotated[int, flag("How many steps, >= 0.")]
StepUsers = Annotated[int | None, flag("Users of each step, if not as many as planned.")]
StepPopulation = Annotated[
    int | None, flag("People that the users of each step were drawn from, if not as planned.")
]
OfFilter = Annotated[bool, flag("The name is that of a `PrivacyFilter`.", "--filter")]


@examples("create sqlite:///budget.db survey --eps0 2 --users 1e4 --epsilon 1 --delta 1e-6")
@flags.with_flags_of(flags.NamedRandomizer)
def create(
    named: flags.NamedRandomizer,
    url: Url,
    name: Name,
    users: flags.Users,
    epsilon: Annotated[float, flag("Largest ε that may be spent, >= 0.")],
    delta: Annotated[float, flag("δ of the budget, in (0, 1).")],
    eps0: flags.Eps0 = None,
    population: flags.Population = None,
    categories: flags.Categories = None,
) -> None:
    """Make a ledger with a budget; one that is there already must be the same."""
    make = named.maker(categories=categories, interactive=False)
    ledger = _opened(
        ShuffleLedger.open,
        url,
        name,
        randomizer=make() if eps0 is None else make(eps0=eps0),
        users=users,
        population=population,
        budget=(epsilon, delta),
    )
    rows = [("ledger", name), ("round", repr(ledger.round)), ("steps", str(len(ledger)))]
    print(columns([*rows, ("budget", f"epsilon = {epsilon:g} at delta = {delta:g}")]))


@examples("step sqlite:///budget.db survey", "step sqlite:///budget.db survey --count 3")
def step(
    url: Url,
    name: Name,
    count: Count = 1,
    users: StepUsers = None,
    population: StepPopulation = None,
) -> None:
    """Record steps before they are released; exit code 1 if the budget refuses them."""
    ledger = _opened(ShuffleLedger.open, url, name)
    try:
        receipt = ledger.step(count, users=users, population=population)
    except BudgetExceeded as refused:
        print(f"refused: {refused}")
        raise typer.Exit(1) from None
    print(f"receipt: {receipt}\nrecorded: {count} of now {len(ledger)} steps")


@examples("show sqlite:///budget.db survey --json", "show sqlite:///budget.db search --filter")
def show(url: Url, name: Name, of_filter: OfFilter = False, as_json: flags.AsJson = False) -> None:
    """Print what a ledger or a filter has spent, and whether another step fits."""
    if of_filter:
        kept = _opened(PrivacyFilter.open, url, name)
        with computing():
            used: dict[str, Any] = {
                "steps": len(kept),
                "budget": kept.epsilon,
                "delta": kept.delta,
                "plan": kept.kind,
                "used": kept.spent,
                "receipt": str(kept.receipt),
            }
        text = columns([(label, str(value)) for label, value in used.items()])
        print_answer(as_json, used, text)
        return
    ledger = _opened(ShuffleLedger.open, url, name)
    state = ledger.state_dict()
    epsilon, delta = state["max_epsilon"], state["target_delta"]
    found: dict[str, Any] = {"steps": len(ledger), "budget": epsilon, "delta": delta}
    found["receipt"] = state["receipt"]
    with computing():
        if delta is not None:
            spent = ledger.epsilon()
            found |= {"lower": spent.lower, "upper": spent.upper}
        if epsilon is not None:
            found["another_fits"] = not ledger.would_exceed()
    rows = [(label.replace("_", " "), str(value)) for label, value in found.items()]
    text = columns([("round", repr(ledger.round)), *rows])
    print_answer(as_json, found | {"round": state["round"]}, text)


@examples("verify sqlite:///budget.db survey --at-least RECEIPT")
def verify(
    url: Url,
    name: Name,
    at_least: Annotated[
        str | None, flag("Receipt of an earlier step, which the ledger must still have.")
    ] = None,
    of_filter: OfFilter = False,
) -> None:
    """Check a ledger's file and every entry's digest; exit code 2 if anything is wrong."""
    open_one: Callable[..., ShuffleLedger | PrivacyFilter] = ShuffleLedger.open
    if of_filter:
        open_one = PrivacyFilter.open
    print(f"verified: {len(_opened(open_one, url, name, at_least=at_least))} steps")


def _opened(open_one: Callable[..., Kept], url: str, name: str, **options: Any) -> Kept:
    """The ledger or the filter of that name; its warnings are printed."""
    with computing():
        return open_one(url, name, **options)


LEDGER = group(
    "ledger",
    "Budgets kept in a database.",
    "show sqlite:///budget.db survey",
    (create, step, show, verify),
)
