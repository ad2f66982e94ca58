"""`python -m benchmarks`: put every claim to the test, print one table, write the measurements.

Exit code 0 if no claim fails, 1 if one does, 2 for a wrong command line.
"""

from __future__ import annotations

import argparse
import csv
import dataclasses
import importlib
import json
import os
import platform
import shutil
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from tqdm import tqdm

import shuffle_accountant as sa
from benchmarks.claims import Claim, Outcome, format_table

SCRIPTS = (
    "start_up",
    "scale_users",
    "scale_rounds",
    "scale_order",
    "scale_estimates",
    "phones",
    "tiny_delta",
    "randomizers",
    "distinct_rounds",
    "crowds",
    "crowds_at_random",
    "sparse_channels",
    "filters",
    "catalogue",
    "interruption",
    "vectors",
    "allocation",
    "figures.fig1",
    "figures.fig2",
    "figures.fig3",
    "figures.fig4",
    "figures.fig5",
    "figures.dpsgd",
    "figures.reidentification",
    "figures.mutual_information",
    "figures.qif",
    "figures.order",
    "figures.deployment",
    "errata",
    "errata_qif",
    "errata_order",
    "peers",
    "peers_allocation",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the scripts that the command line names.

    Args:
        arguments: the command line without the program's name; that of the process if None.

    Returns:
        The exit code.
    """
    options = _parser().parse_args(arguments)
    names = list(dict.fromkeys(options.only or SCRIPTS))
    options.output.mkdir(parents=True, exist_ok=True)

    start = time.perf_counter()
    outcomes: dict[str, Outcome] = {}
    seconds: dict[str, float] = {}
    # disable=None: no bar unless stderr is a terminal
    with tqdm(names, disable=None, file=sys.stderr, leave=False) as bar:
        for name in bar:
            bar.set_description(name)
            script = importlib.import_module(f"benchmarks.{name}")
            begin = time.perf_counter()
            outcomes[name] = script.run(options.quick, bar.set_postfix_str)
            seconds[name] = time.perf_counter() - begin
            file_name = name.rpartition(".")[2]
            _write_rows(options.output / f"{file_name}.csv", outcomes[name])
            undrawn = _write_figure(options.output / f"{file_name}.png", outcomes[name])
            if undrawn:
                tqdm.write(undrawn, file=sys.stderr)

    claims = [(name, claim) for name, outcome in outcomes.items() for claim in outcome.claims]
    results = {
        "version": sa.__version__,
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cores": os.cpu_count(),
        "quick": options.quick,
        "seconds": {name: round(value, 3) for name, value in seconds.items()},
        "claims": [{"script": name, **dataclasses.asdict(claim)} for name, claim in claims],
    }
    text = json.dumps(results, indent=2, ensure_ascii=False)
    (options.output / "results.json").write_text(text + "\n", encoding="utf-8")

    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else None
    print(format_table(claims, columns))
    failed = [claim for _, claim in claims if claim.holds is False]
    print(_summary([claim for _, claim in claims], time.perf_counter() - start))
    print(f"measurements: {options.output}")
    return 1 if failed else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks", description="Put the claims about size and speed to the test."
    )
    parser.add_argument("--quick", action="store_true", help="fewer settings, under two minutes")
    parser.add_argument(
        "--only", action="append", choices=SCRIPTS, metavar="NAME", help=", ".join(SCRIPTS)
    )
    parser.add_argument(
        "--output",
        type=Path,
        default=Path("benchmarks", "output"),
        metavar="DIR",
        help="where results.json, CSV and PNG files go (default: %(default)s)",
    )
    return parser


def _write_rows(path: Path, outcome: Outcome) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        columns = list(outcome.rows[0]) if outcome.rows else ["nothing measured"]
        writer = csv.DictWriter(file, columns, lineterminator="\n")
        writer.writeheader()
        writer.writerows(outcome.rows)


def _write_figure(path: Path, outcome: Outcome) -> str:
    """Draw the figure if there is one; what is wrong if that cannot be done."""
    if outcome.draw is None:
        return ""
    try:
        outcome.draw(path)
    except ImportError as error:
        return f"{path.name} is not drawn: {error}"
    return ""


def _summary(claims: Sequence[Claim], seconds: float) -> str:
    counts = {verdict: sum(c.holds is verdict for c in claims) for verdict in (True, False, None)}
    text = f"{counts[True]} of {len(claims)} claims hold"
    if counts[False]:
        text += f", {counts[False]} fail"
    if counts[None]:
        text += f", {counts[None]} could not be tested"
    return f"{text}; {seconds:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
