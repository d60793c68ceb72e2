"""No false claim of a file is believed, and every true one is."""

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from taskmem_evidence.files import FileVerifier
from taskmem_hookspecs import Verdict
from tests.plugins.evidence.claims import EMPTY, FALSE, TRUE, a_scene, interfere

EXAMPLES = 1_000
DICE = st.randoms(use_true_random=False)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("claims")


async def verify_case(make, dice, folder):
    with tempfile.TemporaryDirectory(dir=folder) as top:
        claim, meanwhile = make(a_scene(Path(top), dice))
        with interfere(meanwhile):
            return await FileVerifier().verify(claim)


@settings(max_examples=EXAMPLES)
@given(make=st.sampled_from(FALSE), dice=DICE)
async def test_no_false_claim_is_believed(folder, make, dice):
    finding = await verify_case(make, dice, folder)
    assert finding.verdict is not Verdict.VERIFIED
    assert finding.detail.isprintable()


@settings(max_examples=EXAMPLES)
@given(make=st.sampled_from(TRUE), dice=DICE)
async def test_every_true_claim_is_believed(folder, make, dice):
    finding = await verify_case(make, dice, folder)
    assert finding.verdict is Verdict.VERIFIED, finding.detail
    assert (finding.size > 0) is (make not in EMPTY)
    assert finding.detail.isprintable()
