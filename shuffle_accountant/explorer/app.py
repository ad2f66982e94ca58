"""The explorer's page, a marimo notebook: sliders above, what they lead to below.

Cells show what `answers` found; none of them computes a number of its own.
"""

import marimo

app = marimo.App(width="medium", app_title="shuffle-accountant explorer")

with app.setup:
    import html
    from collections.abc import Sequence
    from typing import Any

    import marimo as mo

    from shuffle_accountant.explorer import answers, settings

    SHOWN = settings.Deployment()
    RUN = settings.Training()
    COUNTS = settings.Thresholds()
    KEPT = settings.Memoised()
    CELL = 'style="text-align: left; padding: 0.2rem 0.8rem 0.2rem 0; vertical-align: top"'
    # numbers are not broken into lines
    NUMBER = CELL.replace('style="', 'style="white-space: nowrap; ')

    def slider(label: str, steps: Sequence[float], value: float) -> Any:
        """A slider that tells its value when it is let go."""
        return mo.ui.slider(
            steps=steps, value=value, label=label, debounce=True, show_value=True, full_width=True
        )

    def table(rows: Sequence[dict[str, str]]) -> Any:
        """Rows as a table."""
        head = "".join(f"<th {CELL}>{html.escape(name)}</th>" for name in rows[0])
        body = "".join(
            "<tr>"
            + "".join(
                f"<td {NUMBER if cell[:1].isdigit() else CELL}>{html.escape(cell)}</td>"
                for cell in row.values()
            )
            + "</tr>"
            for row in rows
        )
        return mo.Html(
            '<div style="overflow-x: auto"><table style="width: 100%; text-align: left">'
            f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
        )

    def told(answer: answers.Answer, name: str) -> str:
        """An epsilon with its warnings and conditions, in an element whose id is ``name``."""
        warned = "".join(f"<p>{html.escape(line)}</p>" for line in answer.warnings)
        only_if = "".join(f"<li>{html.escape(line)}</li>" for line in answer.conditions)
        return (
            '<p style="font-size: 1.5rem">ε = '
            f'<strong id="{name}" style="white-space: nowrap">{answer.ends}</strong> nats</p>'
            f'{warned}<p>It holds only if:</p><ul id="{name}-conditions">{only_if}</ul>'
        )

    def both_ways(
        question: (
            settings.Deployment | settings.Memoised | settings.Thresholds | settings.Training
        ),
    ) -> Any:
        """The code that gives the same answer, with a button that copies it."""
        return mo.ui.tabs(
            {
                "The same in Python": mo.md(f"```python\n{question.python}```"),
                "on the command line": mo.md(f"```bash\n{question.command}```"),
            }
        )


@app.cell
def _():
    mo.md(
        """
        # What does the shuffler give?

        Each user sends one randomized message in every round; a shuffler hides who sent which.
        What that costs is certified: two ends, with the exact value of what the theorem names
        between them. Report the upper one.
        """
    )


@app.cell
def _():
    users = slider("users", settings.USERS, SHOWN.users)
    rounds = slider("rounds", settings.ROUNDS, SHOWN.rounds)
    eps0 = slider("ε0 (nats)", settings.EPS0, SHOWN.eps0)
    delta = slider("δ", settings.DELTAS, SHOWN.delta)
    categories = slider("categories", settings.CATEGORIES, SHOWN.categories)
    randomizer = mo.ui.dropdown(
        list(settings.RANDOMIZERS), value=SHOWN.randomizer, label="randomizer"
    )
    arrivals = slider("share who send at least", settings.ARRIVALS, SHOWN.arrivals)
    colluding = slider("share who collude", settings.COLLUDING, SHOWN.colluding)
    target = slider("target ε", settings.TARGETS, SHOWN.target)
    sending = mo.ui.dropdown(
        list(settings.SENDING), value=SHOWN.sending, label="each user sends", full_width=True
    )
    shuffler = mo.ui.dropdown(
        list(settings.SHUFFLERS), value=SHOWN.shuffler, label="the shuffler", full_width=True
    )
    parts = [randomizer, sending, shuffler, users, arrivals, colluding, rounds, eps0, delta]
    mo.vstack([*parts, categories, target])
    return (
        arrivals,
        categories,
        colluding,
        delta,
        eps0,
        randomizer,
        rounds,
        sending,
        shuffler,
        target,
        users,
    )


@app.cell
def _(
    arrivals,
    categories,
    colluding,
    delta,
    eps0,
    randomizer,
    rounds,
    sending,
    shuffler,
    target,
    users,
):
    chosen = settings.Deployment(
        users=users.value,
        rounds=rounds.value,
        eps0=eps0.value,
        delta=delta.value,
        categories=categories.value,
        randomizer=randomizer.value,
        sending=sending.value,
        shuffler=shuffler.value,
        arrivals=arrivals.value,
        colluding=colluding.value,
        target=target.value,
    )
    mo.stop(
        chosen.refused is not None,
        mo.Html(f'<p id="refused">No theorem covers this: {html.escape(str(chosen.refused))}</p>'),
    )
    return (chosen,)


@app.cell
def _(chosen):
    answer = answers.epsilon_of(chosen)
    mo.Html(
        f"<p>At δ = {chosen.delta:g}, "
        f'by the reduction <em id="reduction">{answer.bracket.reduction}</em>; '
        f'without the shuffler it would be <span id="local">{answer.local:g}</span>.</p>'
        + told(answer, "epsilon")
    )


@app.cell
def _(chosen):
    mo.Html(f'<p id="target">{html.escape(answers.target_met(chosen))}</p>')


@app.cell
def _(chosen):
    both_ways(chosen)


@app.cell
def _(chosen):
    mo.vstack(
        [
            mo.md("## δ against ε"),
            mo.image(answers.profile_picture(chosen), alt="δ against ε", width="100%"),
        ]
    )


@app.cell
def _(chosen):
    mo.vstack(
        [
            mo.md("## Error of the estimate\n\nRoot mean squared, from the messages of one round."),
            table(answers.error_rows(chosen)),
        ]
    )


@app.cell
def _(chosen):
    mo.vstack(
        [
            mo.md("## What an attacker learns\n\nHow much depends on what the adversary knows."),
            table(answers.attack_rows(chosen)),
        ]
    )


@app.cell
def _():
    sampled = slider("probability of a report", settings.SAMPLED, COUNTS.probability)
    threshold = slider("threshold", settings.THRESHOLDS, COUNTS.threshold)
    mo.vstack(
        [
            mo.md(
                "## Counts above a threshold\n\nOf values that are reported as they are, at the δ "
                "and in the number of rounds chosen above."
            ),
            sampled,
            threshold,
        ]
    )
    return sampled, threshold


@app.cell
def _(chosen, sampled, threshold):
    counts = settings.Thresholds(
        probability=sampled.value,
        threshold=threshold.value,
        rounds=chosen.rounds,
        delta=chosen.delta,
    )
    mo.vstack([mo.Html(told(answers.epsilon_of(counts), "threshold")), both_ways(counts)])


@app.cell
def _():
    permanent = slider("ε0 of the answer that is kept", settings.EPS0, KEPT.permanent)
    instantaneous = slider("ε0 of a copy", settings.EPS0, KEPT.instantaneous)
    mo.vstack(
        [
            mo.md(
                "## Noisy copies of one answer\n\nEach user keeps one randomized binary answer and "
                "sends a noisy copy of it in every round, with the users, rounds and δ chosen "
                "above."
            ),
            permanent,
            instantaneous,
        ]
    )
    return instantaneous, permanent


@app.cell
def _(chosen, instantaneous, permanent):
    copies = settings.Memoised(
        permanent=permanent.value,
        instantaneous=instantaneous.value,
        **chosen.numbers,
        rounds=chosen.rounds,
        delta=chosen.delta,
    )
    mo.vstack([mo.Html(told(answers.epsilon_of(copies), "copies")), both_ways(copies)])


@app.cell
def _():
    noise_multiplier = slider("noise multiplier", settings.NOISE_MULTIPLIERS, RUN.noise_multiplier)
    steps = slider("steps of an epoch", settings.STEPS, RUN.steps)
    epochs = slider("epochs", settings.EPOCHS, RUN.epochs)
    bands = slider("bands of correlated noise (seconds)", settings.BANDS, RUN.bands)
    mo.vstack(
        [
            mo.md("## DP-SGD, by the way its batches are made\n\nAt the δ chosen above."),
            noise_multiplier,
            steps,
            epochs,
            bands,
        ]
    )
    return bands, epochs, noise_multiplier, steps


@app.cell
def _(bands, delta, epochs, noise_multiplier, steps):
    run = settings.Training(
        noise_multiplier=noise_multiplier.value,
        steps=steps.value,
        epochs=epochs.value,
        bands=bands.value,
        delta=delta.value,
    )
    mo.vstack([table(answers.sampling_rows(run)), both_ways(run)])


if __name__ == "__main__":
    app.run()
