"""Who is at the other end of the socket."""

from __future__ import annotations

import os
import socket
import struct
from unittest.mock import create_autospec

from openclaw_taskmem.daemon import door


def test_macos_is_asked_for_the_process_at_the_other_end() -> None:
    peer = create_autospec(socket.socket, instance=True)
    peer.getsockopt.return_value = struct.pack("i", os.getpid())

    assert door.peer_number(peer) == os.getpid()
    # SOL_LOCAL and LOCAL_PEERPID, as <sys/un.h> numbers them.
    peer.getsockopt.assert_called_once_with(0, 2, 4)
