"""The documents say what is there, and the check that says so finds what is wrong."""

from __future__ import annotations

from pathlib import Path

import pytest

from docs import check, generate


def test_the_documents_say_what_is_there() -> None:
    assert list(check.complaints()) == []


def test_a_broken_link_a_lost_path_and_a_forgotten_decision_are_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "there.md").write_text("# One heading\n", "utf-8")
    wrong = tmp_path / "wrong.md"
    wrong.write_text(
        "[a](there.md#one-heading) [b](gone.md) [c](there.md#two) [d](https://example.com/x)\n"
        "`events/gone.py`\n"
        "```sh\n[e](not-a-link.md)\n```\n",
        "utf-8",
    )
    monkeypatch.setattr(check, "ROOT", tmp_path)
    monkeypatch.setattr(check, "documents", lambda: [wrong])
    monkeypatch.setattr(check, "stale", list)
    (tmp_path / "docs" / "adr").mkdir(parents=True)
    (tmp_path / "docs" / "adr" / "README.md").write_text("[0001](0001-listed.md)\n", "utf-8")
    for name in ("0001-listed.md", "0002-forgotten.md"):
        (tmp_path / "docs" / "adr" / name).touch()

    assert list(check.complaints()) == [
        "wrong.md: the link gone.md leads nowhere",
        "wrong.md: there.md has no heading for #two",
        "wrong.md: there is no events/gone.py",
        "docs/adr/README.md: 0002-forgotten.md is not listed",
    ]


def test_a_generated_part_is_written_between_its_marks_and_nowhere_else(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(generate, "PARTS", {"one": lambda: "| new |\n"})
    text = "before\n<!-- generated:one -->\n| old |\n<!-- /generated -->\nafter\n"

    written = generate.regenerated(text)

    assert written == "before\n<!-- generated:one -->\n| new |\n<!-- /generated -->\nafter\n"
    assert generate.regenerated(written) == written


def test_a_generated_part_that_nobody_makes_is_refused() -> None:
    with pytest.raises(KeyError, match="nobody"):
        generate.regenerated("<!-- generated:nobody -->\n<!-- /generated -->\n")
