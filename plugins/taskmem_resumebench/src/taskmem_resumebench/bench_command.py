"""The command `taskmem bench`, which imports nothing before it runs."""

from __future__ import annotations

import json
import os
import shlex
import shutil
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

if TYPE_CHECKING:
    from taskmem_resumebench.bench_run import Size
    from taskmem_resumebench.models import ChatEndpoint
    from taskmem_resumebench.tasks import GeneratedTask

KEY: Final = "TASKMEM_BENCH_MODEL_KEY"


@click.command("bench")
@click.option("--seed", default=1, show_default=True, help="Which tasks are generated.")
@click.option("--quick", is_flag=True, help="A few tasks, within a minute.")
@click.option("--memory", metavar="COMMAND", help="Measure a program of yours, too.")
@click.option("--model", metavar="URL", help="Let a model decide: an OpenAI-compatible address.")
@click.option("--model-name", default="default", metavar="NAME", help="Which model, at --model.")
@click.option("--gateway", is_flag=True, help="Run a few tasks in the real OpenClaw instead.")
@click.option(
    "--from",
    "stored",
    metavar="FILE",
    help="Show the report that --json has printed, and run nothing.",
)
@click.option("--plot", type=click.File("w", lazy=True), metavar="FILE", help="Draw it, as SVG.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def command(
    context: click.Context,
    *,
    seed: int,
    quick: bool,
    memory: str | None,
    model: str | None,
    model_name: str,
    gateway: bool,
    stored: str | None,
    plot: IO[str] | None,
    as_json: bool,
) -> None:
    """Measure how well an interrupted agent takes up its work again (ResumeBench).

    Scripted agents do generated tasks and are killed at every step, with and without Task memory.
    It runs daemons and homes of its own; yours are left alone.

    With --model a language model decides instead of the scripts. Its key is read from
    TASKMEM_BENCH_MODEL_KEY.

    With --gateway the agents work in the OpenClaw that is on the PATH, with folders of its own,
    which is killed at most three times a task, with --quick once. Each start takes it about half
    a minute of a processor: three tasks take about a quarter of an hour.
    """
    from taskmem_resumebench import bench_run
    from taskmem_resumebench.report import draw_plot, format_report

    _refuse_mixed_options(context)
    if gateway and (memory or model or plot):
        raise click.UsageError("--gateway goes with none of --memory, --model and --plot.")
    yours = () if memory is None else _read_command(memory)
    endpoint = None if model is None else _read_endpoint(model, model_name)
    if plot is not None and plot.name == "-":
        raise click.BadParameter("Name a file: the report goes to the output.", param_hint="--plot")
    if plot is not None and not _can_write(plot.name):
        raise click.BadParameter(f"{plot.name!r} cannot be written.", param_hint="--plot")
    if stored is not None:
        report = _read_stored(stored)
    elif gateway:
        report = _run_in_gateway(seed, quick=quick)
    elif endpoint is None:
        report = _run_bench(
            seed, bench_run.QUICK_SIZE if quick else bench_run.WHOLE_SIZE, yours, None
        )
    else:
        size = bench_run.QUICK_SIZE._replace(others=0) if quick else bench_run.MODEL_SIZE
        report = dict[str, Any](model=model_name, **_run_bench(seed, size, yours, endpoint))
    if plot is not None and "gateway" in report:
        raise click.UsageError("There is no picture of a run with --gateway.")
    click.echo(json.dumps(report, indent=2) if as_json else format_report(report))
    if plot is not None:
        plot.write(draw_plot(report))
    broken = report.get("broken_memories")
    if stored is None and broken:
        raise click.ClickException(" ".join(broken.values()))


def _refuse_mixed_options(context: click.Context) -> None:
    """Refuse options that say what to run beside --from, which runs nothing."""
    if context.params["stored"] is None:
        return
    for name in ("seed", "quick", "memory", "model", "model_name", "gateway"):
        if context.get_parameter_source(name) is ParameterSource.COMMANDLINE:
            option = f"--{name.replace('_', '-')}"
            raise click.UsageError(f"--from runs nothing; it does not go with {option}.")


def _read_command(memory: str) -> Sequence[str]:
    """Split the command of --memory, whose program is there; it is run in other folders."""
    try:
        words = shlex.split(memory)
    except ValueError as error:
        raise click.BadParameter(
            "A quotation mark is not closed.", param_hint="--memory"
        ) from error
    program = shutil.which(words[0]) if words else None
    if program is None:
        named = words[0] if words else memory
        raise click.BadParameter(f"{named!r} is no program to run.", param_hint="--memory")
    return [str(Path(program).absolute()), *words[1:]]


def _read_endpoint(model: str, name: str) -> ChatEndpoint:
    from taskmem_resumebench.models import ChatEndpoint, is_address

    if not is_address(model):
        raise click.BadParameter(
            "Give an HTTP address, such as http://127.0.0.1:8080/v1.", param_hint="--model"
        )
    key = os.environ.get(KEY, "")
    if not (key.isascii() and key.isprintable()):
        raise click.UsageError(f"{KEY} has characters that no key has, such as a line break.")
    return ChatEndpoint(model, name, key)


def _can_write(name: str) -> bool:
    """Return True if a file can be made or overwritten, as far as its folder tells."""
    file = Path(name)
    if os.access(file, os.F_OK):
        return os.access(file, os.W_OK) and not file.is_dir()
    return os.access(file.parent, os.W_OK | os.X_OK)


def _read_stored(name: str) -> Mapping[str, Any]:
    from taskmem_resumebench.report import NotAReport, read_report

    try:
        with click.open_file(name, "rb") as file:
            return read_report(file)
    except OSError as error:
        raise click.ClickException(f"{name} cannot be read: {error.strerror}.") from error
    except NotAReport as error:
        raise click.ClickException(
            f"{name} is not a result of `taskmem bench`; make one with "
            "`taskmem bench --json > FILE`."
        ) from error


def _run_bench(
    seed: int, size: Size, memory: Sequence[str], model: ChatEndpoint | None
) -> Mapping[str, Any]:
    from taskmem_resumebench import bench_run
    from taskmem_resumebench.daemon import DaemonNotServing
    from taskmem_resumebench.memories import CommandFailed
    from taskmem_resumebench.models import EndpointFailed, ModelMind

    _require_git()

    def make_mind(endpoint: ChatEndpoint, task: GeneratedTask) -> ModelMind:
        return ModelMind(task, endpoint.ask)

    minds = None if model is None else partial(make_mind, model)
    try:
        return bench_run.run_bench(seed, size, _tell, memory, minds)
    except (CommandFailed, DaemonNotServing, EndpointFailed) as error:
        raise click.ClickException(str(error)) from error


def _run_in_gateway(seed: int, *, quick: bool) -> Mapping[str, Any]:
    from taskmem_resumebench import bench_run
    from taskmem_resumebench.daemon import DaemonNotServing
    from taskmem_resumebench.openclaw_gateway import GatewayFailed

    _require_git()
    openclaw = shutil.which("openclaw")
    if openclaw is None:
        raise click.ClickException(
            "--gateway needs OpenClaw: run `npm install -g openclaw`, and then this again."
        )
    size = bench_run.QUICK_GATEWAY_SIZE if quick else bench_run.GatewaySize()
    try:
        return bench_run.run_on_gateway(seed, size, openclaw, _tell)
    except (DaemonNotServing, GatewayFailed) as error:
        raise click.ClickException(str(error)) from error


def _require_git() -> None:
    """Refuse to run where there is no git."""
    if shutil.which("git") is None:
        raise click.ClickException("The generated tasks need git; install it, and run this again.")


def _tell(line: str) -> None:
    click.echo(line, err=True)
