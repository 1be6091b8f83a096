"""Check what the documents say against what is there: `python docs/check.py`.

Each relative link leads to a file, and to a heading where it names one; each path in backquotes exists; each
decision is listed; each generated part is what code says now. The commands of the README run in
`tests/system/test_readme.py`.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # so that the script runs from any folder, like `make docs-check` does

from docs.generate import documents, stale  # noqa: E402 - after the path

LINK = re.compile(r"(?<!!)\[[^\]]*\]\(([^)\s]+)\)|!\[[^\]]*\]\(([^)\s]+)\)")
PATH = re.compile(
    r"`((?:events|projections|consumers|api|fleetfold|tests|bench|docs|docker|\.ci)/[A-Za-z0-9_./-]*)`"
)
FENCE = re.compile(r"^(```|~~~).*?^\1[ \t]*$", re.DOTALL | re.MULTILINE)
HEADING = re.compile(r"^#{1,6} +(.+?)[ #]*$", re.MULTILINE)
ELSEWHERE = re.compile(r"^[a-z][a-z0-9+.-]*:")


def complaints() -> Iterator[str]:
    """Yield a sentence for each thing that is not as the documents say."""
    for file in documents():
        text = FENCE.sub("", file.read_text("utf-8"))
        yield from _broken_links(file, text)
        yield from _lost_paths(file, text)
    yield from _forgotten_decisions()
    for file in stale():
        yield f"{file.relative_to(ROOT)}: a generated part is stale: run `make docs`"


def anchors(text: str) -> set[str]:
    """Return the anchors of a document's headings, as code forges make them."""
    found: set[str] = set()
    for heading in HEADING.findall(FENCE.sub("", text)):
        words = re.sub(r"[^\w\- ]", "", re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).lower())
        anchor = base = words.strip().replace(" ", "-")
        again = 0
        while anchor in found:
            again += 1
            anchor = f"{base}-{again}"
        found.add(anchor)
    return found


def _broken_links(file: Path, text: str) -> Iterator[str]:
    for link in (one or other for one, other in LINK.findall(text)):
        if ELSEWHERE.match(link):
            continue
        path, _, anchor = link.partition("#")
        target = (file.parent / path).resolve() if path else file
        if not target.exists():
            yield f"{file.relative_to(ROOT)}: the link {link} leads nowhere"
        elif anchor and target.suffix == ".md" and anchor not in anchors(target.read_text("utf-8")):
            yield f"{file.relative_to(ROOT)}: {target.name} has no heading for #{anchor}"


def _lost_paths(file: Path, text: str) -> Iterator[str]:
    for path in PATH.findall(text):
        if not (ROOT / path).exists():
            yield f"{file.relative_to(ROOT)}: there is no {path}"


def _forgotten_decisions() -> Iterator[str]:
    folder = ROOT / "docs" / "adr"
    listed = (folder / "README.md").read_text("utf-8")
    for decision in sorted(folder.glob("[0-9]*.md")):
        if f"({decision.name})" not in listed:
            yield f"docs/adr/README.md: {decision.name} is not listed"


def main() -> int:
    """Print every complaint; return 1 where there is one."""
    found = list(complaints())
    for complaint in found:
        print(complaint)
    print(f"{len(documents())} documents, {len(found)} complaints")
    return int(bool(found))


if __name__ == "__main__":
    sys.exit(main())
