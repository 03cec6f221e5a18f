# SPDX-License-Identifier: Apache-2.0
"""Reads the tables of the tree, from which the answers of sconce-guide take their facts.

Each table is read from the sources of the programs, so that an answer cannot state what the tree does
not do. `fill()` puts values into an answer; `holds()` checks a claim.

    in an answer                    becomes
    <<key SECTION.KEY>>             the default of a configuration key, "16MiB"
    <<number SECTION.KEY>>          the default without its unit, "300"
    <<verbs>> <<routes>> <<formats>> <<sections>>   all names of this kind, as a list in a sentence

    claim                           is true if
    verb NAME                       `sconce NAME` exists
    option VERB --OPTION            `sconce VERB --help` names it
    noun NAME                       `sconce setup NAME` exists
    route PATH                      the gateway answers it
    key SECTION.KEY                 it is a key of the configuration
    default SECTION.KEY VALUE       it is a key and has this default
    format NAME                     this number format of weights is supported
    class NAME                      this class of transformers is supported in config.json
    field NAME                      text requests may have this field
    taken NAME                      text requests may have this field, and it is not refused
    service NAME                    units of this service exist
"""
import functools
import pathlib
import re

TREE = pathlib.Path(__file__).resolve().parents[2]


def source(path):
    return (TREE / path).read_text()


def table(path, head):
    """Returns the lines of the array in a C file that begins in the line with @head."""
    return re.search(re.escape(head) + r".*?\n(.*?)^\s*\}?;", source(path), re.M | re.S)[1]


def strings(text):
    return re.findall(r'"([^"\\]*)"', text)


@functools.cache
def verbs():
    """Returns the verbs of the command line, in the order of its help."""
    return re.findall(r'^\s*\{"(\w+)", verb_', table("services/cli/sconce.c", "cli_verb verbs[]"), re.M)


@functools.cache
def options(verb):
    """Returns the long options in the help of a verb."""
    texts = [source(f"services/cli/verbs/{verb}.c"), source("services/cli/cli.h")]
    return set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", "\n".join(
        line for text in texts for line in text.split("\n") if '"' in line)))


@functools.cache
def nouns():
    """Returns the nouns (subcommands) of `sconce setup`."""
    return re.findall(r'\{"(\w+)", setup_\w+\}', source("services/cli/verbs/setup.c"))


@functools.cache
def routes():
    """Returns the (path, method) pairs of the gateway; path prefixes are left out."""
    rows = []
    for section in source("services/services.ini").split("\n[")[1:]:
        if re.search(r"^routes = yes$", section, re.M):
            text = source("services/%s/routes.h" % section.partition("]")[0])
            rows += [(path, method) for method, path in
                     re.findall(r'\bROUTE\((\w+),\s+"([^"]+)"', text)]
    own = table("services/gateway/handler.c", "route own_routes[]")
    rows += re.findall(r'\{"([^"]+)", METHOD_(\w+)', own)
    return [(path, method) for path, method in rows if not path.endswith("/")]


@functools.cache
def keys():
    """Returns the defaults of the configuration's keys, by "section.key", from packaging/sconce.yaml. Tests in
    tests/docs compare this file with the table of the programs."""
    out, section = {}, None
    for line in source("packaging/sconce.yaml").split("\n"):
        if m := re.fullmatch(r"#(\w+):", line):
            section = m[1]
        elif m := re.match(r"#  (\w+):(?: +([^#\n]*?))?(?: +#.*)?$", line):
            out[f"{section}.{m[1]}"] = (m[2] or "").strip()
    return out


@functools.cache
def formats():
    return re.findall(r'^    X\(\w+, \w+, "(\w+)"', source("libinfer/quant/dtype.c"), re.M)


@functools.cache
def classes():
    """Returns the classes of transformers that sconce accepts in config.json."""
    return {name for path in (TREE / "libinfer/model").glob("arch-*.c")
            for text in re.findall(r"arch_class classes\w*\[\] = \{(.*?)^\};", path.read_text(), re.M | re.S)
            for name in strings(text) if re.fullmatch(r"[A-Z]\w*[a-z]\w*", name)}


@functools.cache
def fields():
    """Returns the fields of text requests."""
    return {name for path in ("openai-params.c", "openai-chat.c", "openai-completions.c",
                         "openai-constraint.c")
            for name in strings(re.search(r"_names\[\] = \{(.*?)\};|_fields\[\] = \{(.*?)\};",
                                          source(f"services/chat/api/{path}"), re.S)[0])}


def is_refused(field):
    """Returns whether docs/http-api.md says that some or all values of a field are refused."""
    row = re.search(rf"^\| `{field}` \|.*$", source("docs/http-api.md"), re.M)
    return row is not None and "refused" in row[0]


@functools.cache
def services():
    return {p.name.removesuffix(".service.in").rstrip("@") for p in (TREE / "units/system").glob("*.service.in")}


def sections():
    return list(dict.fromkeys(key.split(".")[0] for key in keys()))


CLAIMS = {
    "verb": lambda name: name in verbs(),
    "option": lambda verb, option: verb in verbs() and option in options(verb),
    "noun": lambda name: name in nouns(),
    "route": lambda path: any(path == p for p, _ in routes()),
    "key": lambda name: name in keys(),
    "default": lambda name, value: keys().get(name) == value,
    "format": lambda name: name in formats(),
    "class": lambda name: name in classes(),
    "field": lambda name: name in fields(),
    "taken": lambda name: name in fields() and not is_refused(name),
    "service": lambda name: name in services(),
}


def holds(claim):
    kind, *words = claim.split()
    return CLAIMS[kind](*words)


def words(items, last):
    return ", ".join(items[:-1]) + f" {last} {items[-1]}"


# The guide does not know these routes, which few programs use.
UNTOLD_ROUTES = ["/v1/fim/completions"]

# The guide does not know these verbs, which few people need.
UNTOLD_VERBS = ["ppl", "imatrix"]
# Number formats whose names begin with one of these are mentioned together, as "any IQ format".
TOLD_TOGETHER = ("IQ",)


def route_words():
    """Returns the public routes as text: "POST /v1/embeddings, … and GET /health". Routes below another, such as
    /v1/messages/count_tokens, are left out."""
    paths = {p for p, _ in routes()}
    known = [(p, m) for p, m in routes() if (p.startswith("/v1/") or p in ("/health", "/metrics")) and
             p not in UNTOLD_ROUTES and not any(p.startswith(q + "/") for q in paths)]
    out = []
    for method in ("POST", "GET"):
        paths = [p for p, m in known if m == method]
        out.append(f"{method} {words(paths, 'and')}")
    return " and ".join(out)


def value(name):
    """Returns the value of <<name>>."""
    kind, *rest = name.split()
    if kind == "key":
        return keys()[rest[0]]
    if kind == "number":
        return re.match(r"\d+", keys()[rest[0]])[0]
    return {
        "verbs": lambda: words([f"`{v}`" for v in verbs() if v not in UNTOLD_VERBS], "and"),
        "routes": route_words,
        "formats": lambda: words([*(f for f in formats() if not f.startswith(TOLD_TOGETHER)),
                                  *(f"any {start} format" for start in TOLD_TOGETHER)], "or"),
        "sections": lambda: words(sections(), "and"),
    }[kind]()


def fill(text):
    return re.sub(r"<<([^>]+)>>", lambda m: value(m[1]), text)
