"""No false claim of a file is believed, and every true one is."""

import pytest

from taskmem_evidence.files import FileVerifier
from taskmem_hookspecs import Verdict
from tests.plugins.evidence.claims import EMPTY, FALSE, TRUE, a_scene, interfere
from tests.support.long_tests import choose_count

SCENES = choose_count("TASKMEM_SCENES", 5, 25)
"""Scenes of each kind: their names, contents and spellings differ."""


async def verify_cases(make, tmp_path):
    for number in range(SCENES):
        top = tmp_path / str(number)
        top.mkdir()
        claim, meanwhile = make(a_scene(top, number))
        with interfere(meanwhile):
            yield await FileVerifier().verify(claim)


@pytest.mark.parametrize("make", FALSE)
async def test_no_false_claim_is_believed(tmp_path, make):
    async for finding in verify_cases(make, tmp_path):
        assert finding.verdict is not Verdict.VERIFIED
        assert finding.detail.isprintable()


@pytest.mark.parametrize("make", TRUE)
async def test_every_true_claim_is_believed(tmp_path, make):
    async for finding in verify_cases(make, tmp_path):
        assert finding.verdict is Verdict.VERIFIED, finding.detail
        assert (finding.size > 0) is (make not in EMPTY)
        assert finding.detail.isprintable()
