"""Decide which files an agent may see: those within given folders, except secret ones.

Paths are absolute texts with links already resolved (`resolve_links`).
"""
# ruff: noqa: PTH112, PTH117, PTH118

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from typing import Final

PATTERN_CHARS: Final = re.compile(r"[*?\[]")
"""Characters that make a path a pattern."""

_SECRET_PATHS: Final = re.compile(
    r"""
    # keys and credentials of programs
      /\.ssh/(?!(?:[^/]*\.pub|known_hosts(?:\.old)?|authorized_keys|config)\Z)
    | /\.(?:gnupg|password-store|aws|azure|kube)/
    | /\.config/(?:gcloud|gh|github-copilot|op|sops|rclone|hub|git/credentials\Z)
    | /\.docker/config\.json\Z
    | /\.openclaw/(?:credentials|identity|secrets)
    | /openclaw\.json[^/]*\Z | /auth-profiles?[^/]*\.json\Z
    | /\.(?:codex/auth|claude/\.credentials|claude)\.json\Z
    | /\.?(?:_netrc|netrc|git-credentials|pgpass|my\.cnf|npmrc|pypirc|vault-token)\Z
    | /\.env(?:rc|\.(?!example|sample|template)[^/]*)?\Z | /oauth_creds\.json\Z
    | /\.(?:s3cfg|boto|htpasswd)\Z
    | /(?:\.cargo|\.gem|\.terraform\.d)/credentials[^/]*\Z
    | /id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?(?:\.(?:bak|old|orig))?\Z
    | \.(?:pem|key|p12|pfx|jks|keystore|keytab|ppk|kdbx?)(?:\.(?:bak|old|orig))?\Z
    # what browsers and desktops keep of logins
    | /(?:login\ data|cookies|web\ data)(?:\ for\ account)?(?:-journal)?\Z
    | /(?:logins(?:-backup)?\.json|key[34]\.db|signons\.sqlite|cookies\.sqlite[^/]*)\Z
    | /\.local/share/(?:keyrings|kwalletd)/ | /library/(?:keychains|cookies)/
    # what was typed
    | /\.[^/]*_history(?:[.-][^/]*)?\Z | /\.?(?:fish_history|zhistory|histfile)\Z
    | /\.(?:lesshst|viminfo)\Z
    # accounts and keys of the system, and what its processes hold
    | \A/(?:private/)?etc/(?:[^/]*shadow|sudoers|security/opasswd|master\.passwd|krb5\.)
    | \A/(?:private/)?etc/(?:ssl/private|ssh/ssh_host_[^/]*key\Z|wireguard|ppp/)
    | \A/etc/networkmanager/system-connections/
    | \A/var/backups/[^/]*shadow | \A/(?:proc|sys)/
    # what taskmem keeps, wherever its folder or a back-up of it lies
    | /taskmem\.db[^/]*\Z
    """,
    re.VERBOSE,
)
_HOME_SECRETS: Final = re.compile(
    r"/(?:config\.toml\Z|home\.id\Z|(?:terminals|pictures|recordings|recall|listings|setup)/)"
)
"""Secret paths within the state folder; recordings are watched by their names."""


def resolve_links(path: str) -> str:
    """Resolve the links in a path, whether or not the file exists.

    Raises:
        RecursionError: There are too many links.
    """
    return os.path.realpath(path)


def _is_within(path: str, root: str) -> bool:
    """Return True if a resolved path is the folder or lies below it."""
    if not os.path.isabs(root):
        return False
    try:
        folder = resolve_links(root).rstrip("/")
    except (ValueError, RecursionError):  # no folder can have such a name
        return False
    return f"{path}/".startswith(f"{folder}/")


def is_within_any(path: str, roots: Iterable[str]) -> bool:
    """Return True if a resolved path is one of the folders or lies below one."""
    roots = [*roots]
    # No link is above a resolved path: a folder that it names is not asked, as others may hang.
    named = (root.rstrip("/") for root in roots if os.path.isabs(root))
    return any(f"{path}/".startswith(f"{root}/") for root in named) or any(
        _is_within(path, root) for root in roots
    )


def is_hidden(path: str, home: str | None = None) -> bool:
    """Return True if a file is never shown to any agent, judged by its path.

    Such files hold keys, passwords or typed input, or belong to the system or to taskmem. Case is
    ignored, as some file systems do. `home` is the state folder.
    """
    low = path.casefold()
    if _SECRET_PATHS.search(low):
        return True
    if not home or not _is_within(path, home):
        return False
    below = path[len(resolve_links(home).rstrip("/")) :]
    return _HOME_SECRETS.match(below.casefold()) is not None


# --- patterns ---------------------------------------------------------------------


def iterate_matches(pattern: str, roots: Sequence[str]) -> Iterator[str | None]:
    """Yield the paths within `roots` that a pattern such as `/out/**/*.png` matches.

    None stands for each path that was only looked at, so that the caller can stop in time. `**`
    enters no link and no `.git`; a `/` at the end means a folder. What cannot be read is left out.
    """
    waiting = [("/", [part for part in pattern.split("/") if part])]
    while waiting:
        here, parts = waiting.pop()
        plain = next((i for i, part in enumerate(parts) if PATTERN_CHARS.search(part)), len(parts))
        path, parts = os.path.join(here, *parts[:plain]), parts[plain:]
        yield None
        if (plain and not os.path.lexists(path)) or not _leads_into(path, roots):
            continue
        if not parts:
            yield path if os.path.isdir(path) or not pattern.endswith("/") else None
            continue
        part, *rest = parts
        deep = part == "**"
        if deep:
            while rest[:1] == ["**"]:
                rest = rest[1:]
            if not rest:
                yield path
                continue
            waiting.append((path, rest))
        with suppress(OSError), os.scandir(path) as entries:
            for entry in entries:
                yield None
                if not deep and fnmatchcase(entry.name, part):
                    waiting.append((entry.path, rest))
                elif deep and entry.name != ".git" and entry.is_dir(follow_symlinks=False):
                    waiting.append((entry.path, ["**", *rest]))


def _leads_into(path: str, roots: Iterable[str]) -> bool:
    with suppress(ValueError, RecursionError):
        return is_within_any(resolve_links(path), roots)
    return False
