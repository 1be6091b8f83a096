"""Write the generated parts of the documents: `python docs/generate.py [--check]`.

A part stands between `<!-- generated:NAME -->` and `<!-- /generated -->`, in any Markdown file. NAME is a key
of `PARTS` in `docs/parts.py`, which holds what code says of itself: nothing in such a part is typed by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that the script runs from any folder, like `make docs` does

from docs.parts import PARTS  # noqa: E402 - after the path

GENERATED = re.compile(
    r"(?P<begins><!-- generated:(?P<name>[a-z-]+) -->\n).*?(?P<ends><!-- /generated -->)", re.DOTALL
)
FOLDERS_OF_DOCUMENTS = ("docs", "bench", "tests", "docker")


def documents() -> list[Path]:
    """Return every Markdown file of the repository, sorted."""
    found = list(ROOT.glob("*.md"))
    for folder in FOLDERS_OF_DOCUMENTS:
        found += (ROOT / folder).rglob("*.md")
    return sorted(found)


def regenerated(text: str) -> str:
    """Return a document with each generated part as code says it now; raise KeyError for an unknown name."""
    return GENERATED.sub(
        lambda part: f"{part['begins']}{PARTS[part['name']]().strip()}\n{part['ends']}", text
    )


def stale() -> list[Path]:
    """Return the documents whose generated parts are not what code says now."""
    return [file for file in documents() if regenerated(text := file.read_text("utf-8")) != text]


def main() -> int:
    """Write the parts, or only tell whether they are stale; return the exit code."""
    parser = argparse.ArgumentParser(description="Write the generated parts of the documents.")
    parser.add_argument("--check", action="store_true", help="change nothing, fail where something is stale")
    is_check = parser.parse_args().check
    found = stale()
    for file in found:
        if not is_check:
            file.write_text(regenerated(file.read_text("utf-8")), "utf-8")
        print(f"{'stale' if is_check else 'written'}: {file.relative_to(ROOT)}")
    if is_check and found:
        print("run `make docs` and look at what changed")
    return int(is_check and bool(found))


if __name__ == "__main__":
    sys.exit(main())
