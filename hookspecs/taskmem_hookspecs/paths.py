"""Decide which files an agent may see: those within given folders, except secret ones.

Paths are absolute texts with links already resolved (`resolve_links`).
"""
# ruff: noqa: PTH117

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from typing import Final

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
    return any(_is_within(path, root) for root in roots)


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
