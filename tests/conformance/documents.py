"""Hold what is served to each dialect's OpenAPI document: `make fuzz` (some minutes, so no test).

schemathesis makes requests of each document, valid and not, single ones and sequences, and sends them over a
socket. No answer may be a 5xx, have a status that is not listed, or another shape than the one that is told.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.support.processes import ROOT, running

TOKEN = "the-token-of-everybody"
SETTINGS = {
    "FLEETFOLD_FUSE__MASTER_TOKEN": TOKEN,
    "FLEETFOLD_FUSE__PROBE_TIMEOUT_S": "0.5",
    "FLEETFOLD_ARIA__AGENT_TOKENS": json.dumps([TOKEN]),
}
# Stratum has no tokens set, so the one token has every role.

NOT_CHECKED = (
    "positive_data_acceptance",  # what the one document allows, the state of the fleet may refuse
    "ignored_auth",  # smolfleet and Caravanserai ask for no token
    "missing_required_header",
    "ensure_resource_availability",  # of an id such as `%2F` it asks for `/`
)
EXAMPLES = "50"


def main(arguments: list[str]) -> int:
    """Check the documents of the dialects that are named, else of all; return how many did not hold."""
    documents = sorted((ROOT / "docs" / "schema").glob("openapi.*.json"))
    names = {path.name.split(".")[1]: path for path in documents}
    places = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    fuzzer = shutil.which("schemathesis", path=places)
    assert fuzzer is not None, "schemathesis is in the extra `fuzz`: make fuzz installs it"
    failed = []
    with (
        tempfile.TemporaryDirectory() as folder,
        running("up", "--ephemeral", "--http", "127.0.0.1:0", cwd=Path(folder), settings=SETTINGS) as program,
    ):
        url = program.says(r"API +(http://\S+)/fleet/v1/nodes")[1]
        for name in arguments or names:
            command = [
                fuzzer, "run", str(names[name]), "--url", url, "--header", f"Authorization: Bearer {TOKEN}",
                "--max-examples", EXAMPLES, "--phases", "coverage,fuzzing,stateful", "--checks", "all",
                "--exclude-checks", ",".join(NOT_CHECKED), "--suppress-health-check", "all",
                "--request-timeout", "10", "--no-color",
            ]  # fmt: skip
            if subprocess.run(command, cwd=folder, check=False).returncode:
                failed.append(name)
    print(f"not as documented: {', '.join(failed)}" if failed else "every answer was as documented")
    return len(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
