"""The command `taskmem bench`, in a file of its own since it imports nothing before it runs."""

from __future__ import annotations

import json
import shlex
import shutil
from collections.abc import Mapping, Sequence
from typing import IO, Any

import click


@click.command("bench")
@click.option("--seed", default=1, show_default=True, help="Which tasks are generated.")
@click.option("--quick", is_flag=True, help="A few tasks, within a minute.")
@click.option("--memory", metavar="COMMAND", help="Measure a program of yours, too.")
@click.option(
    "--from",
    "stored",
    type=click.File(),
    metavar="FILE",
    help="Show the report that --json has printed, and run nothing.",
)
@click.option("--plot", type=click.File("w", lazy=True), metavar="FILE", help="Draw it, as SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(
    *,
    seed: int,
    quick: bool,
    memory: str | None,
    stored: IO[str] | None,
    plot: IO[str] | None,
    as_json: bool,
) -> None:
    """Measure how well an interrupted agent takes up its work again (ResumeBench).

    Scripted agents do generated tasks and are killed at every step, with and without Task memory.
    It runs daemons and homes of its own; yours are left alone.
    """
    from taskmem_resumebench.plot import draw_plot
    from taskmem_resumebench.report_table import format_report

    report = (
        json.load(stored) if stored else _run_bench(seed, shlex.split(memory or ""), quick=quick)
    )
    if plot is not None:
        plot.write(draw_plot(report))
    click.echo(json.dumps(report, indent=2) if as_json else format_report(report))


def _run_bench(seed: int, memory: Sequence[str], *, quick: bool) -> Mapping[str, Any]:
    from taskmem_resumebench import bench_run
    from taskmem_resumebench.command_memory import CommandFailed
    from taskmem_resumebench.daemon_process import DaemonNotServing

    if shutil.which("git") is None:
        raise click.ClickException("The generated tasks need git; install it, and run this again.")
    size = bench_run.QUICK if quick else bench_run.WHOLE
    try:
        return bench_run.run_bench(seed, size, lambda line: click.echo(line, err=True), memory)
    except (CommandFailed, DaemonNotServing) as error:
        raise click.ClickException(str(error)) from error
