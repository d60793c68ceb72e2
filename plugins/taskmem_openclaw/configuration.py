"""Read the parts of OpenClaw's configuration that wakes need."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple, cast

from taskmem_openclaw.json_values import find_value, to_object

PLUGIN: Final = "taskmem"
"""Id of our plug-in in OpenClaw."""
_CONFIG_NAME: Final = "openclaw.json"
DEFAULT_PORT: Final = 18789
_LARGEST_PORT: Final = 65535
_BINDS_WITHOUT_LOOPBACK: Final = ("tailnet", "custom")
"""Values of `gateway.bind` that exclude loopback."""
_DIGITS: Final = re.compile(r"[0-9]{1,9}")


class Webhooks(NamedTuple):
    """Address and token of OpenClaw's webhooks."""

    url: str
    """`http://127.0.0.1:PORT/PATH`; the default path is `hooks`."""
    token: str
    port: int


def find_config_file(environ: Mapping[str, str]) -> Path:
    """Return the path of the configuration file, which need not exist.

    Where OpenClaw's variables are not set, it is the file that was set up with this home: whoever
    started the daemon may not have had them.
    """
    if own := environ.get("OPENCLAW_CONFIG_PATH"):
        return Path(own).expanduser()
    return _find_config_of_home(environ) or find_state_folder(environ) / _CONFIG_NAME


def build_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment of OpenClaw's command: it finds the same configuration.

    The database URL is left out, since it may contain a password.
    """
    kept = {k: v for k, v in environ.items() if k != "TASKMEM_DATABASE_URL"}
    of_home = None if kept.get("OPENCLAW_CONFIG_PATH") else _find_config_of_home(environ)
    return kept if of_home is None else kept | {"OPENCLAW_CONFIG_PATH": str(of_home)}


def find_other_config(home: Path, config: Path) -> Path | None:
    """Return the configuration of another OpenClaw that was set up with this home.

    None: there is none, or its file no longer exists.
    """
    for file in sorted((home / "setup").glob("openclaw-*.json")):
        try:
            found: object = json.loads(file.read_bytes())
        except (OSError, ValueError, RecursionError):
            continue
        other = to_object(found).get("config")
        if isinstance(other, str) and other != str(config) and Path(other).exists():
            return Path(other)
    return None


def _find_config_of_home(environ: Mapping[str, str]) -> Path | None:
    """Return the file that was set up with this home; None: it is the default, or there is none."""
    home = environ.get("TASKMEM_HOME")
    if not home or environ.get("OPENCLAW_STATE_DIR"):
        return None
    return find_other_config(Path(home), find_state_folder(environ) / _CONFIG_NAME)


def find_state_folder(environ: Mapping[str, str]) -> Path:
    """Return OpenClaw's state folder."""
    if folder := environ.get("OPENCLAW_STATE_DIR"):
        return Path(folder).expanduser()
    home = Path(environ.get("OPENCLAW_HOME") or environ.get("HOME") or "~")
    return home.expanduser() / ".openclaw"


def read_config(environ: Mapping[str, str]) -> Mapping[str, Any] | None:
    """Return the parsed configuration file; None: it is missing or unreadable.

    Includes and references to secrets are not resolved.
    """
    try:
        found = parse_json(find_config_file(environ).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else None


def parse_json(text: str) -> object:
    """Parse JSON or JSON5; return None if the text is neither.

    JSON is tried first: OpenClaw writes it, and parsing JSON5 takes a hundred times as long.
    """
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    import json5

    try:
        return json5.loads(text)
    except (ValueError, RecursionError):
        return None


def find_webhooks(environ: Mapping[str, str]) -> Webhooks | None:
    """Return how to reach the webhooks on loopback.

    None: they are off, or the token or the port is unknown.
    """
    found = read_config(environ) or {}
    hooks = to_object(found.get("hooks"))
    token = hooks.get("token")
    if hooks.get("enabled") is not True or not isinstance(token, str) or not token:
        return None
    token = _resolve_variable(token, environ)
    port = find_local_port(found, environ)
    if not token or port is None:
        return None
    path = str(hooks.get("path") or "/hooks").strip("/")
    return Webhooks(f"http://127.0.0.1:{port}/{path}", token, port)


def may_want_plugin(environ: Mapping[str, str]) -> bool:
    """Return whether OpenClaw may be configured to load our plug-in.

    True also if the configuration cannot be read or may be set in an included file.
    """
    found = read_config(environ)
    if found is None:
        return find_config_file(environ).exists()
    plugins = to_object(found.get("plugins"))
    entry = to_object(find_value(plugins, ("entries", PLUGIN)))
    if has_includes(found):
        return entry.get("enabled") is not False
    return entry.get("enabled") is True and plugins.get("enabled") is not False


def has_includes(config: Mapping[str, Any], sections: Sequence[str] = ("plugins",)) -> bool:
    """Return whether some sections of a configuration have parts in other files."""
    parts = [config.get(name) for name in sections]
    return "$include" in config or '"$include":' in json.dumps(parts)


def find_local_port(config: Mapping[str, Any], environ: Mapping[str, str]) -> int | None:
    """Return the gateway's port on loopback; None: it is unknown, or the gateway is elsewhere."""
    gateway = to_object(config.get("gateway"))
    elsewhere = gateway.get("mode") == "remote" or gateway.get("bind") in _BINDS_WITHOUT_LOOPBACK
    if elsewhere or "$include" in config or "$include" in gateway:
        return None
    port = environ.get("OPENCLAW_GATEWAY_PORT") or gateway.get("port", DEFAULT_PORT)
    return _parse_port(port, environ)


def _resolve_variable(text: str, environ: Mapping[str, str]) -> str:
    """Return the text, or the value of the variable if it is `${NAME}`; empty: it is not set."""
    if text.startswith("${") and text.endswith("}"):
        return environ.get(text[2:-1], "")
    return text


def _parse_port(value: object, environ: Mapping[str, str]) -> int | None:
    port = _resolve_variable(value, environ) if isinstance(value, str) else value
    if isinstance(port, str) and _DIGITS.fullmatch(port):
        port = int(port)
    if isinstance(port, bool) or not isinstance(port, int):
        return None
    return port if 0 < port <= _LARGEST_PORT else None
