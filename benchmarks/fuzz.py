"""Partition damaged models for as long as it takes, and print as JSON how they ended.

    python benchmarks/fuzz.py --count 100000 [--first 0]

Mutants have numbers and are the same in every run; a finding names its number, and ``--first NUMBER --count 1`` repeats
it. The exit code is 1 where one ended neither in a plan nor in one of hetpart's errors.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))


def main() -> int:
    from tests.fuzz import campaign, seeds

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=10_000, metavar="N", help="mutants to try, 10000 by default")
    parser.add_argument("--first", type=int, default=0, metavar="N", help="number of the first mutant")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        seeds.plant(Path(folder))
        start = time.perf_counter()
        tried = campaign.run(Path(folder), arguments.first, arguments.count)
    seconds = time.perf_counter() - start
    print(json.dumps({"mutants": tried.endings, "findings": tried.findings, "seconds": round(seconds, 1)}, indent=2))
    return 1 if tried.findings else 0


if __name__ == "__main__":
    sys.exit(main())
