"""What the tests of a plug-in need: a clock to turn by hand, and conformance suites.

Subclass a suite in your own tests, give it the one fixture it asks for, and
pytest runs every rule that the core relies on:

    from taskmem_hookspecs.testing import TransportSuite

    class TestNtfy(TransportSuite):
        def make_transport(self):
            return Ntfy("http://127.0.0.1:2586")
"""

from taskmem_hookspecs.testing.clock import FakeClock

__all__ = ["FakeClock"]
