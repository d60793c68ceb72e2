"""The command `taskmem bench`, in a file of its own since it imports nothing before it runs."""

from __future__ import annotations

import json
import shlex
import shutil

import click


@click.command("bench")
@click.option("--seed", default=1, show_default=True, help="Which tasks are generated.")
@click.option("--quick", is_flag=True, help="A few tasks, within a minute.")
@click.option("--memory", metavar="COMMAND", help="Measure a program of yours, too.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def command(*, seed: int, quick: bool, memory: str | None, as_json: bool) -> None:
    """Measure how well an interrupted agent takes up its work again (ResumeBench).

    Scripted agents do generated tasks and are killed at every step, with and without Task memory.
    It runs a daemon and a home of its own; yours are left alone.
    """
    from taskmem_resumebench import bench_run
    from taskmem_resumebench.command_memory import CommandFailed
    from taskmem_resumebench.daemon_process import DaemonNotServing
    from taskmem_resumebench.report_table import format_report

    if shutil.which("git") is None:
        raise click.ClickException("The generated tasks need git; install it, and run this again.")
    size = bench_run.QUICK if quick else bench_run.WHOLE
    try:
        yours = shlex.split(memory or "")
        report = bench_run.run_bench(seed, size, lambda line: click.echo(line, err=True), yours)
    except (CommandFailed, DaemonNotServing) as error:
        raise click.ClickException(str(error)) from error
    click.echo(json.dumps(report, indent=2) if as_json else format_report(report))
