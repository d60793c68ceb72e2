"""The settings: environment first, then `config.toml`, read once and passed on.

A setting `x_y` is the variable `TASKMEM_X_Y`. What the file says is put into the
environment, so that plug-ins read one place. What concerns delivery is the home's: for
it the file comes first. Source: design §6.
"""

from __future__ import annotations

import re
import tempfile
import tomllib
from collections.abc import Mapping, MutableMapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

from openclaw_taskmem.domain.redaction import scrub
from openclaw_taskmem.home import Home, HomeRefused, find_home
from taskmem_hookspecs.errors import SettingsInvalid

PREFIX: Final = "TASKMEM_"
MOST_DAYS: Final = 36_500.0
"""A hundred years."""
LONGEST: Final = 1e9
"""Seconds, some thirty years: what every clock and calendar can still add."""
_COUNTS: Final = frozenset({"gemini_calls_per_day", "host_calls_per_day"})
"""Settings of the built-in plug-ins that are whole numbers.

What is none is refused here: a plug-in would find out when it is first needed, which
may be hours after the start.
"""
_FROM_ONE: Final = frozenset({"max_rounds", "step_tools", "keep_mb"})
"""Whole numbers of which none would fail every task, or allow no call or row."""
_FOREIGN: Final = _COUNTS | {
    *("openclaw_bin", "gemini_model", "display", "private_windows", "tmux_socket")
}
"""Settings of the built-in plug-ins, which read them from the environment."""
_OF_HOME: Final = ("wake_transport", "notify", "openclaw_bin")
"""Settings of delivery: one daemon serves all hosts, whoever has started it."""
FILE_FIRST: Final = frozenset(f"{PREFIX}{name.upper()}" for name in _OF_HOME)
"""Their variables."""
_OF_OPENCLAW: Final = (
    *("OPENCLAW_HOME", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH"),
    "OPENCLAW_GATEWAY_PORT",
)
"""OpenClaw's own variables, by which the built-in plug-ins find it."""
FINDS_OPENCLAW: Final = frozenset({f"{PREFIX}OPENCLAW_BIN", *_OF_OPENCLAW})
"""What counts only while no gateway of OpenClaw's is connected."""
_KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Where a key for Gemini may be."""
_OF_CALLERS: Final = frozenset({"host", "session_key"})
"""What only the environment says: who calls."""
_NO_CHOICE: Final = frozenset({"home", "tools", "in_file", "warnings"})
"""Fields that are no setting of the daemon's, or are each caller's own."""
_WORDS: Final = {
    "tools": ("default", "runs", "all"),
    "notify": ("milestones", "important", "off"),
    "evidence_urls": ("all", "public", "none"),
    "openclaw_cli_text": ("auto", "full", "brief"),
    "sandbox_looks": ("workspace", "none", "all"),
}
"""What the settings take that are one of a few words."""
_SWITCH: Final = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}
_WHOLE: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """How this installation behaves.

    Times are in seconds unless they say otherwise; fractions are allowed.
    """

    home: Home
    database_url: str = ""
    """Where everything is kept; empty: `taskmem.db` in the home."""
    stuck_threshold_seconds: float = 300.0
    """Silence after which an active task counts as stuck."""
    stuck_interval_seconds: float = 60.0
    """The longest time between two looks for stuck tasks."""
    stuck_cooldown_seconds: float = 900.0
    """The shortest time between two alerts of one task."""
    wake_transport: str = "auto"
    """A transport's name, or `auto`: any that can work here."""
    wake_ack_seconds: float = 600.0
    """After which a wait's wake that nobody acted on is sent again."""
    carry_on: bool = True
    """Whether an agent is told to go on when its turn ended before its task."""
    idle_pauses: tuple[float, ...] = (60.0, 240.0, 900.0)
    """How long a task rests after turns in a row that brought nothing, before its agent
    is reminded; after as many reminders without effect it has stalled."""
    question_seconds: float = 120.0
    """How long it rests first where the agent's last words end in a question mark."""
    max_rounds: int = 200
    """How often an agent is told to go on with one task before a user says more."""
    max_hours: float = 48.0
    """Hours of work in turns after which it ends likewise."""
    provider_retries: int = 3
    """Turns in a row that may fail for the provider's sake and are begun again."""
    provider_rest_seconds: float = 90.0
    """The rest before the first of them; four times as long each time."""
    lease_seconds: float = 300.0
    """After which an agent of which nothing was seen counts as gone."""
    fresh_seconds: float = 3600.0
    """Age up to which interrupted work resumes by itself."""
    step_tools: int = 3
    """Tool calls that a step of a segmented task has."""
    step_bonus: int = 2
    """How many more it has on request, once."""
    hook_seconds: float = 2.0
    """How long a plug-in may take to answer a hook."""
    judge_timeout_seconds: float = 20.0
    """How long a judge may take for one ruling."""
    readers: tuple[str, ...] = ("gemini", "host")
    """Who is asked what a text or a picture shows, in this order; `none`: nobody."""
    idle_exit_seconds: float = 600.0
    """After which a daemon with nothing to do ends."""
    implicit_tasks: bool = True
    """Whether a user's turn of several calls without a task is covered by one."""
    checkpoint_days: float = 7.0
    """Days for which checkpoints are kept, also of open tasks, and implicit tasks."""
    keep_days: float = 90.0
    """Days for which events, waits and wakes that have ended are kept."""
    keep_mb: int = 2048
    """Size of the database, in MiB, above which the oldest of these, and checkpoints of
    tasks that are over, go earlier, unless several homes share it."""
    picture_days: float = 7.0
    """Days for which pictures of a wait are kept after it ended; 0 keeps none."""
    tools: str = "default"
    """Which tools are offered: `default`, `runs` or `all`."""
    notify: str = "milestones"
    """Of what a session's user is told unasked, where they are: `milestones`,
    `important` (failures, what was completed, what could not be verified) or `off`.
    Questions and the agent's last words are told with every setting."""
    artifact_roots: tuple[str, ...] = ()
    """Folders that what tasks make may lie in; empty: the user's own and the temporary
    one. The agent's own is always one of them."""
    evidence_urls: str = "all"
    """Which URLs are asked that agents name as proof: `all`, `public` (none of this
    machine and of private networks) or `none`. The evidence plug-in reads it."""
    openclaw_cli_text: str = "auto"
    """What a wake by OpenClaw's command says, which other users can read in the process
    list: `full`, `brief` (only what to ask for) or `auto` (`brief` where the machine
    has another user who can log in). The OpenClaw plug-in reads it."""
    sandbox_looks: str = "workspace"
    """What `smart_wait` shows an agent that its host keeps in a sandbox: `workspace`
    (files of its own folder, and what its session runs), `none` (the latter), `all`."""
    hold_back: bool = True
    """Whether a plug-in that asks before it shows an answer is told what is found
    nowhere. OpenClaw's asks only where that was chosen in set-up."""
    disabled_plugins: tuple[str, ...] = ()
    """Plug-ins to leave out, by the name of their entry point."""
    in_file: frozenset[str] = frozenset()
    """The names of the settings that are in the home's file."""
    warnings: tuple[str, ...] = ()
    """What was found and not understood, a sentence each."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders that what tasks make may lie in, besides their agent's own."""
        return self.artifact_roots or (str(Path.home()), tempfile.gettempdir())

    @property
    def look_roots(self) -> tuple[str, ...]:
        """The folders that files to wait on may lie in, besides their agent's own.

        The doctor waits on a file of the home. Unless the user says where, temporary
        files may be where most programs put them, and logs are there to be watched.
        """
        usual = () if self.artifact_roots else ("/tmp", "/var/log")  # noqa: S108
        return (*dict.fromkeys((*self.roots, str(self.home.folder), *usual)),)

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{quote(bytes(self.home.database))}"


def list_variables() -> frozenset[str]:
    """Return the variables of the environment that taskmem itself reads."""
    own = {field.name for field in fields(Settings)} - {"in_file", "warnings"}
    names = own | _FOREIGN | _OF_CALLERS
    return frozenset(f"{PREFIX}{name.upper()}" for name in names)


def load_settings(environ: MutableMapping[str, str]) -> Settings:
    """Read the settings, and put what the file says into `environ`.

    Raises:
        SettingsInvalid: A value cannot be used, or the file cannot be read.
    """
    try:
        home = find_home(environ)
    except HomeRefused as refusal:
        raise SettingsInvalid(str(refusal)) from refusal
    # Plug-ins find the home where everything else is found.
    environ[f"{PREFIX}HOME"] = str(home.folder)
    known = {f.name for f in fields(Settings)} - {"home", "in_file", "warnings"}
    odd: list[str] = []
    written = _read_config_file(home)
    for name, value in written.items():
        if name not in known | _FOREIGN:
            odd.append(f"{home.config} has an unknown setting {name!r}; it was left out.")
        else:
            variable = f"{PREFIX}{name.upper()}"
            if "\x00" in value:
                raise SettingsInvalid(f"{name} in {home.config} holds a NUL; remove it.")
            said = environ.get(variable, "").strip()
            if name in _OF_HOME and said not in ("", value):
                odd.append(f"{variable}={said} does not count: {home.config} has one.")
            environ[variable] = value if name in _OF_HOME else said or value
    values: dict[str, Any] = {}
    for field in fields(Settings):
        raw = environ.get(f"{PREFIX}{field.name.upper()}", "").strip()
        if field.name in known and raw:
            values[field.name] = _parse_setting(field.name, raw, field.default)
    for name in _COUNTS:
        raw = environ.get(f"{PREFIX}{name.upper()}", "").strip()
        if raw and not _WHOLE.fullmatch(raw):
            raise SettingsInvalid(
                f"{PREFIX}{name.upper()} is {raw!r}; it takes a whole number from 0 to "
                "999,999,999, for example 1000."
            )
    in_file = frozenset(written.keys() & (known | _FOREIGN))
    return Settings(home=home, in_file=in_file, warnings=tuple(odd), **values)


def list_chosen(settings: Settings, environ: Mapping[str, str]) -> dict[str, str]:
    """Return by its variable each setting that is not the default, without secrets.

    What each caller decides for itself is not among them. `environ`: where `load` has
    put what the file says.
    """
    chosen: dict[str, str] = {}
    for field in fields(Settings):
        value = getattr(settings, field.name)
        if field.name not in _NO_CHOICE and value != field.default:
            chosen[f"{PREFIX}{field.name.upper()}"] = _format_value(value)
    others = (*(f"{PREFIX}{name.upper()}" for name in _FOREIGN), *_OF_OPENCLAW)
    chosen |= {name: environ[name].strip() for name in others if environ.get(name)}
    chosen |= {name: "set" for name in _KEYS if environ.get(name, "").strip()}
    return {name: scrub(value) for name, value in chosen.items() if value}


def _read_config_file(home: Home) -> Mapping[str, str]:
    try:
        text = home.config.read_text(encoding="utf-8")
        entries = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsInvalid(
            f"{home.config} cannot be read ({error}); mend it or remove it."
        ) from error
    return {name: _format_file_value(value) for name, value in entries.items()}


def _format_file_value(value: object) -> str:
    """Return a value of the file as the environment would have it."""
    if isinstance(value, list):
        return ",".join(map(str, cast("list[object]", value)))
    return str(value)


def _format_value(value: object) -> str:
    """Return a value as the environment would have it."""
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, tuple):
        return ",".join(map(_format_value, cast("tuple[object, ...]", value)))
    return f"{value:g}" if isinstance(value, float) else str(value)


def _parse_setting(name: str, raw: str, default: object) -> object:
    variable = f"{PREFIX}{name.upper()}"
    if isinstance(default, bool):
        return _parse_switch(variable, raw)
    if isinstance(default, int):
        least = 1 if name in _FROM_ONE else 0
        if not _WHOLE.fullmatch(raw) or int(raw) < least:
            raise SettingsInvalid(
                f"{variable} is {raw!r}; it takes a whole number from {least}, for "
                f"example {default}."
            )
        return int(raw)
    if isinstance(default, float):
        try:
            number = float(raw)
        except ValueError:
            number = float("nan")
        if name in ("picture_days", "checkpoint_days", "keep_days"):
            return _check_days(variable, raw, number, none=name != "keep_days")
        if not 0 < number <= LONGEST:
            unit = "hours" if name == "max_hours" else "seconds"
            raise SettingsInvalid(
                f"{variable} is {raw!r}; it takes {unit} greater than 0 and at most "
                f"{LONGEST:,.0f}, for example 300 or 0.5."
            )
        return number
    if isinstance(default, tuple):
        parts = tuple(part.strip() for part in raw.split(",") if part.strip())
        return _parse_pauses(variable, raw, parts) if name == "idle_pauses" else parts
    words = _WORDS.get(name)
    if words is not None and raw not in words:
        *most, last = words
        raise SettingsInvalid(f"{variable} is {raw!r}; it takes {', '.join(most)} or {last}.")
    return raw


def _parse_switch(variable: str, raw: str) -> bool:
    word = raw.lower()
    if word not in _SWITCH:
        raise SettingsInvalid(f"{variable} is {raw!r}; it takes on or off.")
    return _SWITCH[word]


def _parse_pauses(variable: str, raw: str, parts: tuple[str, ...]) -> tuple[float, ...]:
    try:
        pauses = tuple(map(float, parts))
    except ValueError:
        pauses = ()
    if not pauses or not all(0 < pause <= LONGEST for pause in pauses):
        raise SettingsInvalid(
            f"{variable} is {raw!r}; it takes seconds greater than 0, separated by "
            "commas, for example 60,240,900."
        )
    return pauses


def _check_days(variable: str, raw: str, number: float, *, none: bool) -> float:
    """Return days; `none`: whether 0 may be said."""
    if not 0 <= number <= MOST_DAYS or (number == 0 and not none):
        least = "from 0 to" if none else "greater than 0 and at most"
        raise SettingsInvalid(
            f"{variable} is {raw!r}; it takes days {least} {MOST_DAYS:,.0f}, for example 7 or 0.5."
        )
    return number
