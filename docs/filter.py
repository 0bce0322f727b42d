#!/usr/bin/env python3
"""filter.py FILE: prints a file as Doxygen reads it. In headers each comment becomes a documentation comment; in pages
each heading gets a name, and links between pages lead to these names."""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent


def documented(lines: list[str]) -> list[str]:
    """Makes each comment a documentation comment: the comment at the beginning of the file, and comments above and
    behind code."""
    made, inside = [], False
    for line in lines:
        code = line.strip()
        if inside or code.startswith("/*"):
            inside = "*/" not in code
            line = line.replace("/*", "/**", 1)
        elif code.startswith("//"):
            line = line.replace("//", "///", 1)
        else:
            line = re.sub(r"(\S\s+)// ", r"\1///< ", line, count=1)
            line = re.sub(r"(\S\s+)/\* ", r"\1/**< ", line, count=1)
            inside = "/**<" in line and "*/" not in line
        made.append(line)
    first = made[0]
    made[0] = "/// @file" if first.startswith("///") else "/** @file"
    return made[:1] + ([first] if first.startswith("///") else [first.replace("/**", " *", 1)]) + made[1:]


def grouped(lines: list[str]) -> list[str]:
    """Makes a comment above several functions belong to all of them, if no blank line or comment is between them."""
    made: list[str] = []
    while lines:
        indent = len(lines[0]) - len(lines[0].lstrip())
        comment = 0
        while comment < len(lines) and indent and lines[comment].strip().startswith("///"):
            comment += 1
        end = comment
        while comment and end < len(lines) and re.match(rf" {{{indent}}}\s*(?!///)\S", lines[end]):
            end += 1
        together = end > comment and "(" in lines[comment]
        end = end if together else max(comment, 1)
        made += ["///@{", *lines[:end], "///@}"] if together else lines[:end]
        lines = lines[end:]
    return made


def header(text: str) -> str:
    return "\n".join(grouped(documented(text.splitlines()))) + "\n"


def name(page: pathlib.Path, heading: str = "") -> str:
    """The target of a link: the path of the page, and the name that GitHub makes from the heading."""
    if page == ROOT / "README.md" and not heading:
        return "mainpage"
    slug = re.sub(r"[^a-z0-9 _-]", "", heading.lower()).replace(" ", "-")
    path = page.relative_to(ROOT).with_suffix("").as_posix()
    return re.sub(r"[^A-Za-z0-9]", "_", path + ("-" + slug if slug else ""))


def pages() -> set[pathlib.Path]:
    return {page for page in ROOT.rglob("*.md") if not page.relative_to(ROOT).parts[0].startswith((".", "build"))}


def page(text: str, file: pathlib.Path) -> str:
    known, lines, fenced, title = pages(), [], False, True

    def link(match: re.Match[str]) -> str:
        label, target, _, anchor = match[1], *match[2].partition("#")
        to = (file.parent / target).resolve() if target else file
        if "://" in match[2]:
            return match[0]
        return f"[{label}](@ref {name(to, anchor)})" if to in known else label

    pending = ""
    for line in text.splitlines():
        line, pending = pending + (line.strip() if pending else line), ""
        if line.strip().startswith("```"):
            fenced = not fenced
        elif not fenced and (line.count("`") % 2 or re.search(r"\[[^]]*$", line)):  # a code span or link goes on
            pending = line + " "
            continue
        elif not fenced and (found := re.match(r"(#+) (.*)", line)):
            heading = "" if title else found[2]
            line, title = f"{found[1]} {found[2].replace('`', '')} {{#{name(file, heading)}}}", False
        elif not fenced:
            line = re.sub(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)", link, line)
        lines.append(line)
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    path = pathlib.Path(sys.argv[1]).resolve()
    print(page(path.read_text(), path) if path.suffix == ".md" else header(path.read_text()), end="")
