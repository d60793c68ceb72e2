"""Write a home into one archive, and unpack such an archive.

It is a compressed tar file with the database, pictures, settings and identity of the home. The last
member lists the others, so that an archive that was cut short is noticed.
"""

from __future__ import annotations

import gzip
import io
import os
import tarfile
import zlib
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import Any, Final

from pydantic import AwareDatetime, BaseModel, ValidationError

from openclaw_taskmem.home import Home

FORMAT: Final = 1
"""Version of the form of archives."""
DATABASE: Final = "taskmem.db"
_LIST: Final = "backup.json"
_SINGLE_FILES: Final = (DATABASE, "config.toml", "home.id")
_PICTURES: Final = "pictures"
_OWNER_ONLY: Final = 0o600
_PART: Final = 1024 * 1024
"""Bytes that are copied at once."""
_LEVEL: Final = 1
"""The fastest compression."""


class ArchiveRefused(Exception):
    """A file is no whole archive of a home; `str()` says why."""


class ArchiveList(BaseModel):
    """The last member of an archive."""

    version: str
    """Version of the program that wrote the archive."""
    made_at: AwareDatetime
    home: str
    format: int = FORMAT
    files: dict[str, int] = {}
    """Sizes of the other members, by name."""


def write_archive(home: Home, database: Path, file: Path, about: ArchiveList) -> None:
    """Write a home into a new archive that only its owner may read.

    `database`: a copy of its database; `about`: its list, to which the other members are added.

    Raises:
        OSError: It cannot be written, or is there already.
    """
    descriptor = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    sizes: dict[str, int] = {}
    with os.fdopen(descriptor, "wb") as raw:
        with tarfile.open(fileobj=raw, mode="w:gz", compresslevel=_LEVEL) as archive:
            with database.open("rb") as copy:
                sizes[DATABASE] = database.stat().st_size
                archive.addfile(_describe_member(DATABASE, sizes[DATABASE]), copy)
            for name, content in _iterate_files(home):
                sizes[name] = len(content)
                archive.addfile(_describe_member(name, len(content)), io.BytesIO(content))
            listed = about.model_copy(update={"files": sizes}).model_dump_json().encode()
            archive.addfile(_describe_member(_LIST, len(listed)), io.BytesIO(listed))
        raw.flush()
        os.fsync(raw.fileno())


def _iterate_files(home: Home) -> Iterator[tuple[str, bytes]]:
    """Yield the name and content of each file but the database."""
    single = [home.folder / name for name in _SINGLE_FILES if name != DATABASE]
    for path in (*single, *sorted(home.pictures.rglob("*"))):
        try:
            # The daemon, too, follows a link in the place of the settings.
            if path.is_file() and (path == home.config or not path.is_symlink()):
                yield path.relative_to(home.folder).as_posix(), path.read_bytes()
        except FileNotFoundError:
            continue  # its days are up


def _describe_member(name: str, size: int) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.size, member.mode = size, _OWNER_ONLY
    return member


def unpack_archive(file: Path, folder: Path) -> ArchiveList:
    """Unpack an archive into an empty folder, and return its list.

    Raises:
        ArchiveRefused: It is no archive of a home, damaged, or not whole.
        OSError: A file cannot be opened.
    """
    sizes: dict[str, int] = {}
    listed: ArchiveList | None = None
    with _translate_errors(file), gzip.open(file) as stream:
        with tarfile.open(fileobj=stream, mode="r|") as archive:
            for member in archive:
                content = archive.extractfile(member) if member.isreg() else None
                if content is None or listed is not None:
                    raise _refuse_member(file, member.name)
                if member.name == _LIST:
                    listed = ArchiveList.model_validate_json(content.read())
                    continue
                _require_known_name(file, member.name)
                sizes[member.name] = _write_file(folder / member.name, content)
        # The checksum is behind the last byte.
        while stream.read(_PART):
            pass
    if listed is None or listed.files != sizes or DATABASE not in sizes:
        raise ArchiveRefused(
            f"{file} is damaged or was cut short; copy it again, or use another back-up."
        )
    if listed.format != FORMAT:
        raise ArchiveRefused(f"{file} is of a newer version; update openclaw-taskmem.")
    return listed


@contextmanager
def _translate_errors(file: Path) -> Generator[None]:
    """Refuse an archive that cannot be read, or whose content cannot be written."""
    try:
        yield
    except ValidationError as error:
        raise ArchiveRefused(f"{file} is no back-up, or its {_LIST} is damaged.") from error
    except (tarfile.TarError, zlib.error, EOFError, ValueError) as error:
        raise ArchiveRefused(f"{file} is no back-up, or is damaged ({error}).") from error
    except OSError as error:
        if error.filename is not None:
            raise
        if error.errno is not None:
            raise ArchiveRefused(
                f"{file} cannot be read, or its content not be written ({error.strerror})."
            ) from error
        # A wrong checksum, or another kind of file.
        raise ArchiveRefused(f"{file} is no back-up, or is damaged.") from error


def _require_known_name(file: Path, name: str) -> None:
    parts = PurePosixPath(name).parts
    is_picture = len(parts) > 1 and parts[0] == _PICTURES and ".." not in parts
    if name not in _SINGLE_FILES and not is_picture:
        raise _refuse_member(file, name)


def _refuse_member(file: Path, name: str) -> ArchiveRefused:
    return ArchiveRefused(
        f"{file} holds {name!r}, which no back-up holds; name a file that `taskmem backup` wrote."
    )


def _write_file(path: Path, content: Any) -> int:  # noqa: ANN401 - a file of an archive
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _OWNER_ONLY)
    written = 0
    with os.fdopen(descriptor, "wb") as target:
        while part := content.read(_PART):
            written += target.write(part)
        target.flush()
        os.fsync(target.fileno())
    return written
