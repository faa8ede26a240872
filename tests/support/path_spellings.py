"""Spellings of paths that lead out of a folder, for some reader or other."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import quote

DOTS = [
    "..", "%2e%2e", "%2E%2E", ".%2e", "%2e.", "%252e%252e", "%25252e%25252e", "%c0%ae%c0%ae", "%e0%80%ae%e0%80%ae",
    "\uff0e\uff0e", "%EF%BC%8E%EF%BC%8E", "\u2024\u2024", "\u2025", "\u3002\u3002", "...", "....", ".. ", " ..", "..;",
    "..;x=1", "..?", "..#", "%u002e%u002e", "&#46;&#46;", "\\.\\.", "..%00", "..%0a", ".\t.", "%2e%09%2e", "%2e%2e%2e",
    "..%20", "[.][.]", "?\uff0e", ".[.]", "{..}", "%2e%2e%3b", "..\x7f", "\u202e..", ".\u200b.", "~",
]  # fmt: skip
SLASHES = [
    "/", "//", "/./", "/%2e/", "%2f", "%2F", "%252f", "%25252F", "%c0%af", "%e0%80%af", "\\", "%5c", "%255C", "\u2215",
    "\uff0f",    "\u2044", "%EF%BC%8F", "/%2f", ";/", "%00/",
]  # fmt: skip
STARTS = [
    "{}", "/{}", "{}/sub/..", "{}/.", "{}/%2e", "{}/", "file://{}", "file:{}", "FILE://{}", "file://localhost{}",
    "file://127.0.0.1{}", "file:////{}", "%66ile://{}", " {}", "{}\0", "~{}", "s3://b{}", "http://127.0.0.1:1{}",
    "hdfs:{}",
]  # fmt: skip


def ways_out(lake: str, outside: str, links: dict[str, str]) -> Iterator[str]:
    """Yield paths with `*NAME*` for the name of what is outside.

    Parameters
    ----------
    lake, outside : names of folders beside each other, in `{root}`.
    links : names in the lake by what they lead to: `folder` to the folder outside, `up` to the one above.
    """
    root = "{root}/" + lake
    for dots in DOTS:
        for slash in SLASHES:
            yield (
                f"{root}/{dots}{slash}{outside}/*NAME*"
                if slash == "/"
                else f"{root}{slash}{dots}{slash}{outside}{slash}*NAME*"
            )
        yield f"{root}/sub/{dots}/{dots}/{outside}/*NAME*"
        yield f"{root}/absent/{dots}/{dots}/{outside}/*NAME*"
        yield f"{root}/0.parquet/{dots}/{dots}/{outside}/*NAME*"
        yield f"{root}/{dots}/{outside}/*"
    for start in STARTS:
        for dots in ("..", "%2e%2e", "%252e%252e"):
            yield start.format(root) + f"/{dots}/{outside}/*NAME*"
        yield start.format("{root}") + f"/{outside}/*NAME*"
        yield start.format(root) + f"/{links['folder']}/*NAME*"
    for what, name in links.items():
        rest = f"/{outside}" if what == "up" else ""
        for spelled in spellings(name):
            yield f"{root}/{spelled}{rest}/*NAME*"
            yield f"{root}/sub/../{spelled}{rest}/*NAME*"
        yield f"{root}/{name}{rest}/*"
        yield f"{root}/{name}{rest}/**"
        yield f"{root}/{name}{rest}/**/*NAME*"
        yield f"{root}/?{name[1:]}{rest}/*NAME*"
        yield f"{root}/[{name[0]}]{name[1:]}{rest}/*NAME*"
        yield f"{root}/{name}{rest}/./*NAME*"
        yield f"{root}/{name}{rest}//*NAME*"
    for name in spellings(lake):
        yield f"{{root}}/{name}/../{outside}/*NAME*"
        yield f"{{root}}/{name}/%2e%2e/{outside}/*NAME*"
    for name in spellings(outside):
        yield f"{{root}}/{name}/*NAME*"
        yield f"{root}/../{name}/*NAME*"


def spellings(name: str) -> Iterator[str]:
    """Yield names that some readers take for a name."""
    quoted = "".join(f"%{byte:02x}" for byte in name.encode())
    yield name
    yield quoted
    yield quoted.upper().replace("%5F", "%5f")
    yield quote(quoted)
    yield quote(quote(quoted))
    for i, letter in enumerate(name):
        yield f"{name[:i]}%{ord(letter):02x}{name[i + 1 :]}"
        yield f"{name[:i]}%25{ord(letter):02x}{name[i + 1 :]}"
    yield name.upper()
    yield name.title()
    for end in (".", " ", "%20", "%00", "\0", "::$DATA", ";", "\u200b", "/.", "%2f", "?", "#", "\n", "/"):
        yield name + end
    yield "".join(chr(ord(letter) + 0xFEE0) for letter in name)  # of full width
    yield f"./{name}"
    yield f"%2e/{name}"
