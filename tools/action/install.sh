#!/usr/bin/env bash
# Install the hetpart that this action is part of into an environment of its own. Input: HETPART_PYTHON.
set -euo pipefail

python=${HETPART_PYTHON:-python3}
if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
  echo '::error title=hetpart::Python 3.11 or newer is needed: run actions/setup-python before, or set the input `python`'
  exit 2
fi
"$python" -m venv "$RUNNER_TEMP/hetpart"
"$RUNNER_TEMP/hetpart/bin/python" -m pip --disable-pip-version-check install --quiet \
  --constraint "$GITHUB_ACTION_PATH/constraints.txt" "$GITHUB_ACTION_PATH"
