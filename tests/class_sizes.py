"""Reads the sizes of classes from clang's -ast-dump: how many methods and data members each class declares."""
import re

# clang prints only the project's namespaces with their content.
FLAGS = ["-fno-color-diagnostics", "-Xclang", "-ast-dump", "-Xclang", "-ast-dump-filter=anello::"]
LIMIT = 60
API = "anello::Group"  # has a method for each form of each collective
# Classes above the limits: the full name, and the size, which may only shrink. At present there is no such class.
LARGER = {}

_DECLARATION = re.compile(r"([ |`-]*)(\w+Decl) 0x[0-9a-f]+ (.*)")
_CLASS = re.compile(r".* (?:class|struct) (\w+) definition$")
_SCOPE = re.compile(r".* (\w+)(?: inline)?$")
_MEMBERS = ("FieldDecl", "CXXMethodDecl", "CXXConstructorDecl", "CXXDestructorDecl", "CXXConversionDecl",
            "FunctionTemplateDecl")


def sizes_in(dump):
    """The number of members of each class in a dump, by full name. Members that the compiler adds do not count."""
    sizes, scopes = {}, []  # the namespaces and classes around the line: depth, full name, whether it is a class
    around = ""
    for line in dump:
        if line.startswith("Dumping "):
            around, scopes = line[len("Dumping "):].strip().rstrip(":").rpartition("::")[0], []
            continue
        found = _DECLARATION.match(line)
        if not found:
            continue
        depth, kind, rest = len(found[1]), found[2], found[3].rstrip()
        while scopes and scopes[-1][0] >= depth:
            scopes.pop()
        name = scopes[-1][1] if scopes else around
        named = {"NamespaceDecl": _SCOPE, "CXXRecordDecl": _CLASS}.get(kind, re.compile("$.")).match(rest)
        if named:
            scopes.append((depth, f"{name}::{named[1]}", kind == "CXXRecordDecl"))
            if kind == "CXXRecordDecl":
                sizes[scopes[-1][1]] = 0
        elif kind in _MEMBERS and scopes and scopes[-1][2] and depth == scopes[-1][0] + 2:
            sizes[name] += " implicit " not in rest and not rest.endswith(" delete")
    return sizes


def complaints(sizes):
    """Complaints about classes that are too large, and about rows of LARGER whose numbers could be lower."""
    out = []
    for name, size in sorted(sizes.items()):
        limit = size if name == API else LARGER.get(name, LIMIT)
        if size > limit:
            out.append(f"{name} has {size} methods and data members, and may have {limit}: split it")
        elif name in LARGER and size < limit:
            out.append(f"{name} has {size} methods and data members: set its limit in tests/class_sizes.py to that")
    out += [f"{name} is not there: take it out of tests/class_sizes.py" for name in LARGER if name not in sizes]
    return out
