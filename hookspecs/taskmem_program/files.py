"""Write files so that a crash leaves the old content or the new, never a part; check sockets."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path


def replace_file(target: Path, content: bytes, *, mode: int = 0o600) -> None:
    """Give a file a new content as a whole; a link of that name is replaced, not followed.

    Raises:
        OSError: It cannot be written, and is as it was; or its disk does not say that it keeps it.
    """
    import tempfile  # 5 ms, which each start of a command would pay

    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    draft = Path(name)
    try:
        with os.fdopen(handle, "wb") as out:
            out.write(content)
            out.flush()
            os.fsync(out.fileno())
        draft.chmod(mode)
        draft.replace(target)
    except BaseException:
        draft.unlink(missing_ok=True)
        raise
    sync_folder(target.parent)


def sync_folder(folder: Path) -> None:
    """Have the names in a folder outlive a power cut, if its file system can do that."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        # Some network and FUSE file systems sync files, but no folder.
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


def require_own_socket(path: Path) -> None:
    """Refuse a path that is no socket of our own user.

    Raises:
        OSError: It is not, or it is not there.
    """
    found = path.lstat()
    if not stat.S_ISSOCK(found.st_mode) or found.st_uid != os.geteuid():
        raise PermissionError(None, "it is no socket of this user")
