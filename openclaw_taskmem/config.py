"""Read the settings once, from the environment first, then from `config.toml`.

The setting `x_y` is the variable `TASKMEM_X_Y`. Settings of the file are put into the environment,
so that plug-ins read one place. For settings of delivery, which belong to the home, the file comes
first. Source: docs/origins.md, "Settings".
"""

from __future__ import annotations

import codecs
import difflib
import re
import tempfile
import tomllib
from collections.abc import Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote

from openclaw_taskmem.domain.policies import KeepPolicy, OutboxPolicy, RunPolicy, StuckPolicy
from openclaw_taskmem.domain.text.texts import MIB
from openclaw_taskmem.domain.wakes.notices import Notify
from openclaw_taskmem.home import Home, HomeRefused, find_home
from taskmem_hookspecs.errors import SettingsInvalid

PREFIX: Final = "TASKMEM_"
MOST_DAYS: Final = 36_500.0
"""A hundred years."""
MOST_SECONDS: Final = 1e9
"""Seconds, about thirty years: any clock and calendar can add this much."""
_COUNTS: Final = {
    "gemini_calls_per_day": 0,
    "host_calls_per_day": 0,
    "record_days": 1,
    "record_mb": 1,
    "record_load": 1,
}
"""Settings of the built-in plug-ins that are whole numbers, with the least that each takes.

They are validated here, because a plug-in would notice only when it first needs one, maybe hours
after the start.
"""
_POSITIVE_COUNTS: Final = frozenset({"max_rounds", "step_tools", "keep_mb"})
"""Whole numbers for which 0 would fail every task, or allow no call or row."""
PLUGIN_SETTINGS: Final = frozenset(_COUNTS) | {
    "openclaw_bin",
    "codex_bin",
    "gemini_model",
    "display",
    "private_windows",
    "screenpipe_url",
    "tmux_socket",
}
"""Settings of the built-in plug-ins, which read them from the environment."""
_DELIVERY_SETTINGS: Final = ("wake_transport", "notify", "openclaw_bin", "codex_bin")
"""Settings of delivery: one daemon serves all hosts, whichever has started it."""
FILE_FIRST: Final = frozenset(f"{PREFIX}{name.upper()}" for name in _DELIVERY_SETTINGS)
"""The variables of these settings."""
DEFAULT_READERS: Final = ("gemini", "host")
"""Readers of the built-in plug-ins, which the setting names by default."""
CALLER_IDENTITY: Final = frozenset({"host", "session_key"})
"""Settings that are only in the environment: who calls."""
PER_CALLER_SETTINGS: Final = frozenset({"tools"})
"""Settings that each caller makes for itself."""
TOOL_PROFILES: Final = ("default", "runs", "all")
"""The sets of tools that can be offered."""
_WORDS: Final[Mapping[str, Sequence[str]]] = {
    "tools": TOOL_PROFILES,
    "notify": tuple(Notify),
    "evidence_urls": ("all", "public", "none"),
    "wait_urls": ("public", "all", "none"),
    "openclaw_cli_text": ("auto", "full", "brief"),
    "sandbox_looks": ("workspace", "none", "all"),
}
"""The allowed words of settings that take one of a few."""
_SWITCH: Final = {
    **dict.fromkeys(("on", "true", "yes", "1"), True),
    **dict.fromkeys(("off", "false", "no", "0"), False),
}
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,9}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Settings:
    """The settings of this installation, those of one subject together in its policy.

    Times are in seconds unless stated otherwise; fractions are allowed.
    """

    home: Home
    stuck: StuckPolicy = field(default_factory=StuckPolicy)
    outbox: OutboxPolicy = field(default_factory=OutboxPolicy)
    runs: RunPolicy = field(default_factory=RunPolicy)
    keep: KeepPolicy = field(default_factory=KeepPolicy)
    database_url: str = ""
    """URL of the database; empty: `taskmem.db` in the home."""
    stuck_interval_seconds: float = 60.0
    """The longest time between two checks for stuck tasks."""
    wake_transport: str = "auto"
    """Names of transports, separated by commas; `auto`: all that can work here."""
    hook_seconds: float = 2.0
    """How long a plug-in may take to answer a hook."""
    judge_timeout_seconds: float = 20.0
    """How long a judge may take for one ruling."""
    readers: tuple[str, ...] = DEFAULT_READERS
    """Readers to ask about a text or a picture, in this order; `none`: no reader."""
    recall_reader: bool = False
    """True if a reader writes out the steps of what was recorded of a screen."""
    idle_exit_seconds: float = 600.0
    """Time after which a daemon with nothing to do exits."""
    picture_days: float = 7.0
    """Days for which pictures of an ended wait are kept; 0: none are kept."""
    tools: str = "default"
    """The tools that are offered: `default`, `runs` or `all`."""
    notify: str = "milestones"
    """Which notices a session's user gets: `milestones`, `important` or `off`.

    `important`: failures, completions, and artifacts that could not be verified. Questions
    and the agent's last words are always shown."""
    artifact_roots: tuple[str, ...] = ()
    """Folders in which artifacts may lie; empty: the user's home and the temporary folder.

    The agent's working directory is always included."""
    evidence_urls: str = "all"
    """Which URLs that agents name as proof are requested: `all`, `public` or `none`.

    `public`: not those of this machine and of private networks. Read by the evidence
    plug-in."""
    openclaw_cli_text: str = "auto"
    """The text of a wake among the arguments of OpenClaw's command: `full`, `brief` or `auto`.

    Other users can read these in the process list. `brief`: only what to ask for; the rest is where
    they cannot read it. `auto`: `brief` if another user can log in to the machine. Read by the
    OpenClaw plug-in."""
    sandbox_looks: str = "workspace"
    """Targets that `smart_wait` shows an agent in a sandbox: `workspace`, `none` or `all`.

    `workspace`: files of its own folder, and what its session runs. `none`: only the latter."""
    wait_urls: str = "public"
    """Which URLs agents may wait for: `public`, `all` or `none`. Read by the plug-in of targets."""
    wait_commands: tuple[str, ...] = ()
    """How the commands begin that agents may have run again and again; `all`: any."""
    hold_back: bool = True
    """True if answers that name missing files are held back, for plug-ins that ask.

    OpenClaw's plug-in asks only if that was chosen in set-up."""
    disabled_plugins: tuple[str, ...] = ()
    """Plug-ins to leave out, by the name of their entry point."""
    in_file: frozenset[str] = frozenset()
    """The names of the settings that are in the home's file."""
    warnings: tuple[str, ...] = ()
    """A sentence for each unknown entry of the file, and each variable that it overrides."""

    @property
    def roots(self) -> tuple[str, ...]:
        """The folders in which artifacts may lie, besides the agent's own."""
        return self.artifact_roots or (str(Path.home()), tempfile.gettempdir())

    @property
    def look_roots(self) -> tuple[str, ...]:
        """The folders in which files to wait on may lie, besides the agent's own.

        The state folder is one of them, as the doctor waits on a file there. Unless the user sets
        `artifact_roots`, so are `/tmp` and `/var/log`: most programs put temporary files and logs
        there.
        """
        usual = () if self.artifact_roots else ("/tmp", "/var/log")  # noqa: S108
        return (*dict.fromkeys((*self.roots, str(self.home.folder), *usual)),)

    @property
    def database(self) -> str:
        """The database's URL."""
        return self.database_url or f"sqlite:///{quote(bytes(self.home.database))}"


_POLICIES: Final[Mapping[str, Any]] = {
    "stuck": StuckPolicy(),
    "outbox": OutboxPolicy(),
    "runs": RunPolicy(),
    "keep": KeepPolicy(),
}
"""The policies with their defaults, by their names in the settings."""
_PLACES: Final[Mapping[str, tuple[str, str]]] = {
    "stuck_threshold_seconds": ("stuck", "threshold_seconds"),
    "stuck_cooldown_seconds": ("stuck", "cooldown_seconds"),
    "wake_ack_seconds": ("outbox", "ack_seconds"),
    "keep_days": ("keep", "days"),
    "keep_mb": ("keep", "most_bytes"),
    **{
        name: ("runs", name)
        for name in (
            "carry_on",
            "idle_pauses",
            "question_seconds",
            "max_rounds",
            "max_hours",
            "provider_retries",
            "provider_rest_seconds",
            "lease_seconds",
            "fresh_seconds",
            "step_tools",
            "step_bonus",
            "checkpoint_days",
            "implicit_tasks",
        )
    },
}
"""The policy and the field of each setting that a policy holds."""
_UNITS: Final = {"keep_mb": MIB}
"""How many of a policy's unit are one of the setting's."""


def list_defaults() -> dict[str, object]:
    """Return the default of each setting by its name, but for the home."""
    own = {each.name: each.default for each in fields(Settings)}
    held = {name: _read_place(_POLICIES[group], name) for name, (group, _) in _PLACES.items()}
    hidden = {*_POLICIES, "home", "in_file", "warnings"}
    return {name: value for name, value in {**own, **held}.items() if name not in hidden}


def list_values(settings: Settings) -> dict[str, object]:
    """Return the value of each setting by its name, but for the home."""
    return {
        name: _read_place(getattr(settings, _PLACES[name][0]), name)
        if name in _PLACES
        else getattr(settings, name)
        for name in list_defaults()
    }


def _read_place(policy: object, name: str) -> object:
    value = getattr(policy, _PLACES[name][1])
    return value // _UNITS[name] if name in _UNITS else value


def list_variables() -> frozenset[str]:
    """Return the environment variables that taskmem itself reads."""
    names = {"home", *list_defaults()} | PLUGIN_SETTINGS | CALLER_IDENTITY
    return frozenset(f"{PREFIX}{name.upper()}" for name in names)


def load_settings(environ: MutableMapping[str, str]) -> Settings:
    """Read the settings, and put those of the file into `environ`.

    Raises:
        SettingsInvalid: A value is invalid, the file cannot be read, or the state folder is not
            ours.
    """
    settings, wrong = read_settings(environ)
    for sentence in wrong.values():
        raise SettingsInvalid(sentence)
    return settings


def read_settings(environ: MutableMapping[str, str]) -> tuple[Settings, Mapping[str, str]]:
    """Load the settings without the invalid values; return by variable why each is invalid."""
    try:
        home = find_home(environ)
    except HomeRefused as refusal:
        raise SettingsInvalid(str(refusal)) from refusal
    # Plug-ins read the home from the environment, like all other settings.
    environ[f"{PREFIX}HOME"] = str(home.folder)
    known = list_defaults()
    odd: list[str] = []
    wrong: dict[str, str] = {}
    from_file: dict[str, str] = {}
    written = _read_config_file(home)
    for name, value in written.items():
        if name not in known and name not in PLUGIN_SETTINGS:
            meant = _suggest(name.lower().removeprefix(PREFIX.lower()))
            odd.append(f"{home.config} has an unknown setting {name!r}; it was left out.{meant}")
        else:
            variable = f"{PREFIX}{name.upper()}"
            if "\x00" in value:
                raise SettingsInvalid(f"{name} in {home.config} holds a NUL; remove it.")
            text = environ.get(variable, "").strip()
            if not text:
                from_file[variable] = f"{name} in {home.config}"
            if name in _DELIVERY_SETTINGS and text not in ("", value):
                odd.append(f"{variable}={text} does not count: {home.config} has one.")
            environ[variable] = value if name in _DELIVERY_SETTINGS else text or value
    values = _move_to_policies(_parse_settings(environ, known, from_file, wrong))
    for name, least in _COUNTS.items():
        variable = f"{PREFIX}{name.upper()}"
        raw = environ.get(variable, "").strip()
        if raw and (not _WHOLE_NUMBER.fullmatch(raw) or int(raw) < least):
            takes = f"it takes a whole number from {least} to 999,999,999, for example 1000."
            wrong[variable] = f"{variable} is {raw!r}; {takes}"
    in_file = frozenset(written.keys() & (known.keys() | PLUGIN_SETTINGS))
    return Settings(home=home, in_file=in_file, warnings=tuple(odd), **values), wrong


def _move_to_policies(values: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the settings: of the policies, each with the values that it holds."""
    changed: dict[str, dict[str, Any]] = {group: {} for group in _POLICIES}
    for name in values.keys() & _PLACES.keys():
        group, place = _PLACES[name]
        value = values.pop(name)
        changed[group][place] = value * _UNITS[name] if name in _UNITS else value
    policies = {
        group: policy.model_copy(update=changed[group]) for group, policy in _POLICIES.items()
    }
    return values | policies


def _suggest(name: str) -> str:
    """Say which setting is meant by an unknown one in the file; empty: not clear."""
    names = {*list_defaults(), *PLUGIN_SETTINGS} - PER_CALLER_SETTINGS
    near = difflib.get_close_matches(name, names, n=1)
    return f" {near[0]} is meant, perhaps." if near else ""


def _parse_settings(
    environ: Mapping[str, str],
    known: Mapping[str, object],
    from_file: Mapping[str, str],
    wrong: dict[str, str],
) -> dict[str, Any]:
    """Return the values of the settings that are set; add to `wrong` why others are invalid.

    `from_file`: by variable, how the file's settings are named there.
    """
    values: dict[str, Any] = {}
    for name, default in known.items():
        variable = f"{PREFIX}{name.upper()}"
        raw = environ.get(variable, "").strip()
        if not raw:
            continue
        try:
            values[name] = _parse_setting(name, raw, default)
        except SettingsInvalid as error:
            wrong[variable] = str(error).replace(variable, from_file.get(variable, variable), 1)
    return values


def _read_config_file(home: Home) -> Mapping[str, str]:
    try:
        content = home.config.read_bytes()
        # Editors and shells of Windows write UTF-16 as well, with a byte order mark.
        is_utf16 = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
        text = content.decode("utf-16" if is_utf16 else "utf-8-sig")
        entries = tomllib.loads(text)
    except (FileNotFoundError, NotADirectoryError):
        return {}
    except UnicodeDecodeError as error:
        raise SettingsInvalid(
            f"{home.config} cannot be read (it is no UTF-8 from its byte {error.start + 1} on); "
            "save it as UTF-8."
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise SettingsInvalid(
            f"{home.config} cannot be read ({error}); mend it or remove it."
        ) from error
    return {name: _format_file_value(value) for name, value in entries.items()}


def _format_file_value(value: object) -> str:
    """Format a value of the file as in the environment."""
    if isinstance(value, list):
        return ",".join(map(str, cast("list[object]", value)))
    return str(value)


def _parse_setting(name: str, raw: str, default: object) -> object:
    variable = f"{PREFIX}{name.upper()}"
    if isinstance(default, bool):
        return _parse_switch(variable, raw)
    if isinstance(default, int):
        least = 1 if name in _POSITIVE_COUNTS else 0
        if not _WHOLE_NUMBER.fullmatch(raw) or int(raw) < least:
            takes = f"it takes a whole number from {least} to 999,999,999, for example {default}."
            raise SettingsInvalid(f"{variable} is {raw!r}; {takes}")
        return int(raw)
    if isinstance(default, float):
        try:
            number = float(raw)
        except ValueError:
            number = float("nan")
        if name in ("picture_days", "checkpoint_days", "keep_days"):
            return _check_days(variable, raw, number, none=name != "keep_days")
        if not 0 < number <= MOST_SECONDS:
            unit = "hours" if name == "max_hours" else "seconds"
            raise SettingsInvalid(
                f"{variable} is {raw!r}; it takes {unit} greater than 0 and at most "
                f"{MOST_SECONDS:,.0f}, for example 300 or 0.5."
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
    if not pauses or not all(0 < pause <= MOST_SECONDS for pause in pauses):
        raise SettingsInvalid(
            f"{variable} is {raw!r}; it takes seconds greater than 0, separated by "
            "commas, for example 60,240,900."
        )
    return pauses


def _check_days(variable: str, raw: str, number: float, *, none: bool) -> float:
    """Return days; refuse a number out of range; `none`: 0 is allowed."""
    if not 0 <= number <= MOST_DAYS or (number == 0 and not none):
        least = "from 0 to" if none else "greater than 0 and at most"
        raise SettingsInvalid(
            f"{variable} is {raw!r}; it takes days {least} {MOST_DAYS:,.0f}, for example 7 or 0.5."
        )
    return number
