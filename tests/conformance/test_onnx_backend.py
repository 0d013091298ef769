"""Whatever plain ONNX Runtime passes of ``onnx.backend.test``, hetpart passes with random placements. No skip list."""

from __future__ import annotations

import json

import pytest

from tests.conformance.backends import SETUPS, OrtBackend, Tally, hetpart_backend
from tests.conformance.outcomes import every_test, failures

CHUNKS = 12


@pytest.mark.filterwarnings("ignore")  # NumPy warns inside the reference evaluator that makes ONNX's test data
@pytest.mark.parametrize("chunk", range(CHUNKS))
def test_passes_what_plain_onnxruntime_passes(chunk, tmp_path, monkeypatch, record_property):
    monkeypatch.setenv("ONNX_HOME", str(tmp_path))
    wanted = frozenset(every_test(OrtBackend)[chunk::CHUNKS])
    passed = {name for name, failure in failures(OrtBackend, wanted).items() if failure is None}
    tally = Tally()
    backend = hetpart_backend(chunk, tally, SETUPS[chunk % len(SETUPS)])
    failed = {name: why for name, why in failures(backend, passed).items() if why is not None}
    record_property("conformance", json.dumps(tally.counts() | {"tests": len(wanted), "plain": len(passed)}))
    assert len(passed) > len(wanted) // 2
    assert not failed
