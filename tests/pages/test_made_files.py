"""Which files of a task a page shows, and how they are read."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Any

import pytest

from openclaw_taskmem.domain.tasks.proofs import Proof, ProofStanding
from openclaw_taskmem.pages.made_files import (
    LARGEST_FILE_BYTES,
    SHOWN_CHARS,
    is_offered,
    is_openable,
    read_made_file,
)
from taskmem_hookspecs import InvalidArguments
from taskmem_hookspecs.testing import DAWN

PNG = b"\x89PNG\r\n\x1a\n\0\0"


def a_proof(path: Path, content: bytes = b"", **fields: Any) -> Proof:
    known = {
        "what": str(path),
        "standing": ProofStanding.CHECKED,
        "tested": "exists",
        "size": len(content),
        "sha256": hashlib.sha256(content).hexdigest(),
        "looked_at": DAWN,
    }
    return Proof.model_validate({**known, **fields})


def write(path: Path, content: bytes) -> Proof:
    path.write_bytes(content)
    return a_proof(path, content)


def read_text(proof: Proof) -> str | None:
    return read_made_file(proof, "/home").text


def test_a_text_is_shown_without_credentials(tmp_path: Path) -> None:
    key = "AKIA" + "IOSFODNN7EXAMPLE"
    shown = read_text(write(tmp_path / "a.md", f"# Keys\n{key}\n".encode())) or ""
    assert shown.startswith("# Keys\n")
    assert key not in shown


def test_an_image_is_shown_as_what_it_is(tmp_path: Path) -> None:
    found = read_made_file(write(tmp_path / "a.html", PNG), "/home")
    assert (found.text, found.content_type, found.image) == (None, "image/png", PNG)


def test_a_long_text_says_how_much_is_not_shown(tmp_path: Path) -> None:
    found = read_made_file(write(tmp_path / "a.log", b"x" * (SHOWN_CHARS + 7)), "/home")
    assert (len(found.text or ""), found.rest) == (SHOWN_CHARS, 7)


@pytest.mark.parametrize(
    "fields",
    [
        {"standing": ProofStanding.CLAIMED},
        {"standing": ProofStanding.UNCHECKED},
        {"sha256": None},
        {"size": LARGEST_FILE_BYTES + 1},
        {"is_file": False},
        {"what": "/home/user/.ssh/id_ed25519"},
        {"what": "/home/user/fullchain.pem"},
        {"what": "/home/user/.docker/./config.json"},
        {"what": "/home/user/.docker//config.json"},
        {"what": "/home/user/a/../.docker/config.json"},
        {"what": "//home/recordings/run.log"},
        {"what": "/home//recordings/run.log"},
    ],
)
def test_what_was_not_checked_or_is_secret_is_not_opened(
    tmp_path: Path, fields: dict[str, Any]
) -> None:
    assert not is_openable(write(tmp_path / "a.md", b"x").model_copy(update=fields), "/home")


def test_a_file_that_changed_since_is_not_shown(tmp_path: Path) -> None:
    proof = write(tmp_path / "a.md", b"as checked")
    (tmp_path / "a.md").write_bytes(b"another")
    with pytest.raises(InvalidArguments, match="changed after it was checked"):
        read_text(proof)


def test_no_link_is_followed(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    write(tmp_path / "real" / "a.md", b"x")
    (tmp_path / "folder").symlink_to(tmp_path / "real")
    (tmp_path / "link.md").symlink_to(tmp_path / "real" / "a.md")
    for path in (tmp_path / "link.md", tmp_path / "folder" / "a.md"):
        with pytest.raises(InvalidArguments, match="cannot be read now"):
            read_text(a_proof(path, b"x"))
        assert not is_offered(a_proof(path, b"x"), "/home")
    assert is_offered(a_proof(tmp_path / "real" / "a.md", b"x"), "/home")


def test_a_pipe_is_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "a.md")
    with pytest.raises(InvalidArguments, match="cannot be read now"):
        read_text(a_proof(tmp_path / "a.md"))


def test_other_files_are_told_by_path_and_sum_only(tmp_path: Path) -> None:
    with pytest.raises(InvalidArguments, match="neither a text nor an image"):
        read_text(write(tmp_path / "a.pdf", b"%PDF\0\xff"))
