"""Random Variants with what is unusual in some row groups, and random conditions on their paths, as SQL text."""

from __future__ import annotations

import json
import random
import re
from dataclasses import dataclass

GROUPS, GROUP_ROWS = 6, 20

INTEGERS = [-3, 0, 1, 2, 7, 100, 127, 128, 40_000, 2**31, 2**40, -(2**63)]
DECIMALS = ["0.5", "1.0", "1.25", "-7.50", "100.001", "99999999.99", "12345678901234567890.5"]
DOUBLES = ["1.5e0", "-0.0e0", "0.0e0", "1.0e300", "7.0e0", "2.5e-3"]
TEXTS = ["", "a", "ab", "b", "7", "1.5", "true", "2020-01-01", "2020-01-01 10:00:00", "x" * 70, "ä", "é\u0301", "漢"]
DAYS = ["1969-12-31", "2020-01-01", "2020-02-29", "9999-12-31"]
TIMES = ["1969-12-31 23:59:59.999999", "2020-01-01 00:00:00", "2020-01-01 10:00:00"]

SPELLINGS: dict[str, list[str]] = {
    "tinyint": [str(number) for number in INTEGERS if abs(number) < 128],
    "smallint": [str(number) for number in INTEGERS if abs(number) < 2**15],
    "int": [str(number) for number in INTEGERS if abs(number) < 2**31],
    "bigint": [str(number) for number in INTEGERS if number > -(2**63)],
    "decimal(9,2)": ["1.25", "-7.50", "0.50", "7", "100.00"],
    "decimal(10,2)": ["1.25", "-7.50", "0.50", "7", "99999999.99"],
    "decimal(38,3)": ["100.001", "12345678901234567890.500", "7"],
    "double": ["1.5e0", "0.0e0", "7.0e0", "1.25", "7", "2.5e-3"],
    "float": ["1.5e0", "0.5", "7"],
    "string": ["'" + text + "'" for text in TEXTS],
    "boolean": ["TRUE", "FALSE"],
    "date": [f"DATE '{day}'" for day in DAYS],
    "timestamp": [f"TIMESTAMP '{time}'" for time in TIMES],
    "timestamp_ntz": [f"TIMESTAMP_NTZ '{time}'" for time in TIMES],
    "binary": ["X'61'", "X''", "X'00ff'"],
}

PATHS: dict[tuple[str | int, ...], str] = {
    ("id",): "$.id",
    ("ID",): "$['ID']",
    ("s",): "$.s",
    ("o", "n"): "$.o.n",
    ("o", "x.y"): "$.o['x.y']",
    ("o", "p", "z"): '$.o.p["z"]',
    ("x.y",): "$['x.y']",
    ("x", "y"): "$.x.y",
    ("it's",): '$["it\'s"]',
    ('q"q',): "$['q\"q']",
    ("Ünï 漢",): "$['Ünï 漢']",
    ("l", 0): "$.l[0]",
    ("l",): "$.l",
    ("t",): "$.t",
    (): "$",
}
"""Parts of paths, and the text that a query has for it."""

TYPED: dict[str, list[str]] = {
    "id": SPELLINGS["bigint"],
    "t": [f"TIMESTAMP '{time}'" for time in TIMES],
    "n": [f"TIMESTAMP_NTZ '{time}'" for time in TIMES],
    "d": SPELLINGS["date"],
    "b": SPELLINGS["binary"],
    "f": ["CAST(1.5 AS FLOAT)", "CAST('NaN' AS FLOAT)", "CAST(0.5 AS FLOAT)"],
    "s": SPELLINGS["string"],
}
"""Fields of documents that JSON has no types for, with literals of Spark's SQL."""


def draw_number(rng: random.Random) -> str:
    return rng.choice([str(rng.choice(INTEGERS)), str(rng.choice(INTEGERS)), rng.choice(DECIMALS), rng.choice(DOUBLES)])


def draw_value(rng: random.Random, kind: str) -> str:
    """Return a value as JSON text, of a kind that most of a row group's are, or of any."""
    if kind == "integer":
        return str(rng.choice(INTEGERS))
    if kind == "small":
        return str(rng.choice(INTEGERS[:6]))
    if kind == "decimal":
        return rng.choice(DECIMALS)
    if kind == "double":
        return rng.choice(DOUBLES)
    if kind == "text":
        return json.dumps(rng.choice(TEXTS))
    if kind == "boolean":
        return rng.choice(["true", "false"])
    if kind == "object":
        return rng.choice(['{"n": 1}', '{"z": 7, "w": "a"}', "{}"])
    if kind == "array":
        return rng.choice(["[1, 2]", '["a"]', "[]", "[null, 7]", '[{"n": 1}]'])
    return "null"


KINDS = ["integer", "small", "decimal", "double", "text", "boolean", "object", "array", "null"]
USUAL = {"id": "integer", "ID": "small", "s": "text", "n": "small", "x.y": "text", "z": "double", "y": "integer"}
USUAL |= {"it's": "integer", 'q"q': "text", "Ünï 漢": "decimal", "l": "array", "t": "text"}


@dataclass
class GroupRules:
    """What is unusual in a row group: by field, a kind of some values; what share of fields is missing."""

    planted: dict[str, str]
    missing: float
    pools: dict[str, list[str]]
    fields: list[str]


def draw_rules(rng: random.Random) -> GroupRules:
    planted = {name: rng.choice(KINDS) for name in USUAL if rng.random() < 0.15}
    pools = {name: [draw_value(rng, kind) for _ in range(rng.choice([1, 3]))] for name, kind in USUAL.items()}
    fields = [name for name in USUAL if rng.random() < 0.85]
    return GroupRules(planted, rng.choice([0.0, 0.0, 0.3]), pools, fields)


def draw_field(rng: random.Random, rules: GroupRules, name: str) -> str:
    if name in rules.planted and rng.random() < 0.2:
        return draw_value(rng, rules.planted[name])
    return rng.choice(rules.pools[name])


def draw_document(rng: random.Random, rules: GroupRules) -> str | None:
    """Return a document as JSON text; None for SQL's NULL."""
    unusual = rng.random()
    if unusual < 0.02:
        return None
    if unusual < 0.03:
        return draw_value(rng, rng.choice(KINDS))

    def make(names: list[str]) -> list[str]:
        present = [name for name in names if name in rules.fields and rng.random() >= rules.missing]
        return [f"{json.dumps(name)}: {draw_field(rng, rules, name)}" for name in present]

    inner = [*make(["n", "x.y"]), *([f'"p": {{{", ".join(make(["z"]))}}}'] if rng.random() < 0.9 else [])]
    nested = [f'"o": {{{", ".join(inner)}}}', f'"x": {{{", ".join(make(["y"]))}}}']
    if rng.random() < rules.missing / 4:
        nested[0] = f'"o": {draw_value(rng, rng.choice(KINDS))}'
    return f"{{{', '.join([*make(['id', 'ID', 's', 'x.y', *list(USUAL)[7:]]), *nested])}}}"


def draw_typed(rng: random.Random) -> str:
    """Return a document as Spark's SQL, with values of types that JSON does not have."""
    fields = [f"'{name}', {rng.choice(literals[:3])}" for name, literals in TYPED.items() if rng.random() < 0.8]
    return f"to_variant_object(named_struct('ID', 7S, {', '.join(fields)}))" if fields else "NULL"


def draw_documents(rng: random.Random, has_types: bool) -> list[str]:
    """Return a Variant for each row as Spark's SQL."""
    documents = []
    for _ in range(GROUPS):
        rules, share = draw_rules(rng), rng.choice([0.0, 0.0, 0.1, 0.9, 1.0]) if has_types else 0.0
        for _ in range(GROUP_ROWS):
            if rng.random() < share:
                documents.append(draw_typed(rng))
            else:
                text = draw_document(rng, rules)
                documents.append("NULL" if text is None else f"parse_json({quote(text)})")
    return documents


def quote_plain(text: str) -> str:
    """Return a literal of standard SQL."""
    return "'" + text.replace("'", "''") + "'"


def quote(text: str) -> str:
    """Return a literal of Spark's SQL."""
    return "'" + text.replace("'", "''").replace("\\", "\\\\") + "'"


def draw_shredding(rng: random.Random) -> str:
    """Return the fields that a file is shredded to, as Spark takes them."""
    types = {
        "id": ["bigint", "bigint", "int", "decimal(20,0)", "string"],
        "ID": ["tinyint", "smallint", "bigint"],
        "s": ["string"],
        "`x.y`": ["string"],
        "`it's`": ["bigint", "double"],
        '`q"q`': ["string"],
        "`Ünï 漢`": ["decimal(10,2)", "decimal(9,2)", "decimal(38,3)"],
        "l": ["array<bigint>", "string"],
        "t": ["timestamp", "string", "timestamp_ntz"],
        "n": ["timestamp_ntz"],
        "d": ["date"],
        "b": ["binary"],
        "f": ["float", "double"],
        "x": ["struct<y: bigint>", "struct<y: int>"],
        "o": [
            "struct<n: bigint, `x.y`: string, p: struct<z: double>>",
            "struct<p: struct<z: float>, n: tinyint>",
            "struct<`x.y`: string>",
        ],
    }
    share = rng.choice([0.85, 1.0, 1.0])  # where fields are left out, nothing is certain of any
    return ", ".join(f"{name} {rng.choice(kinds)}" for name, kinds in types.items() if rng.random() < share)


LIKELY = {
    ("id",): ["bigint", "int", "decimal(38,3)"],
    ("ID",): ["tinyint", "smallint", "int", "bigint"],
    ("s",): ["string"],
    ("o", "n"): ["bigint", "tinyint", "timestamp_ntz"],
    ("o", "x.y"): ["string"],
    ("o", "p", "z"): ["double", "float"],
    ("x.y",): ["string"],
    ("x", "y"): ["bigint", "int"],
    ("it's",): ["bigint", "double"],
    ('q"q',): ["string"],
    ("Ünï 漢",): ["decimal(10,2)", "decimal(9,2)", "decimal(38,3)"],
    ("l", 0): ["bigint"],
    ("l",): ["string"],
    ("t",): ["timestamp", "string", "timestamp_ntz"],
    (): ["bigint", "string"],
}
PATHS |= {("n",): "$.n", ("d",): "$.d", ("b",): "$.b", ("f",): "$.f"}
LIKELY |= {("n",): ["timestamp_ntz"], ("d",): ["date"], ("b",): ["binary"], ("f",): ["float", "double"]}
FLOATS = ("float", "double")


def draw_comparison(rng: random.Random, is_plain: bool = False) -> str:
    """Return a condition on a path; nothing that a value is cast to is an error.

    Parameters
    ----------
    is_plain : whether values of more types can but add rows to the result.
    """
    parts = rng.choice([*PATHS])
    target = rng.choice(LIKELY[parts]) if rng.random() < 0.9 else rng.choice([*SPELLINGS])
    subject = f"try_variant_get(v, {quote(PATHS[parts])}, '{target}')"
    pool = SPELLINGS[target]
    kind = rng.choice(["equal", "equal", "equal", "in", "between", *([] if is_plain else ["order", "null", "pattern"])])
    if kind == "null":
        return f"{subject} IS {rng.choice(['', 'NOT '])}NULL"
    if kind == "in":
        literals = ", ".join(rng.choices(pool, k=rng.randint(1, 4)))
        return f"{subject} {rng.choice(['', '', '' if is_plain else 'NOT '])}IN ({literals})"
    if kind == "between":
        return f"{subject} BETWEEN {rng.choice(pool)} AND {rng.choice(pool)}"
    if kind == "pattern" and target == "string":
        return f"{subject} {rng.choice(['', 'NOT '])}LIKE '{rng.choice(['a%', '%b', 'x%', '%', '_'])}'"
    operators = ["=", "=", "IS NOT DISTINCT FROM"]
    if kind == "order":
        operators = ["<>", "<", "<=", ">", ">=", "IS DISTINCT FROM"]
    return f"{subject} {rng.choice(operators)} {rng.choice(pool)}"


def draw_condition(rng: random.Random, is_plain: bool = False, depth: int = 0) -> str:
    """Return a condition on some paths; for `is_plain` see `draw_comparison`."""
    negation = "" if is_plain or rng.random() < 0.75 else "NOT "
    if depth == 2 or rng.random() < 0.65:
        return negation + draw_comparison(rng, is_plain)
    word = rng.choice([" AND ", " OR "])
    joined = word.join(f"({draw_condition(rng, is_plain, depth + 1)})" for _ in range(rng.randint(2, 3)))
    return f"{negation}({joined})"


_LOOKUP = re.compile(r"try_variant_get\(v, ('(?:[^']|'')*'), '([^']*)'\)")
_STORED = {
    "string": "VARCHAR",
    "binary": "BLOB",
    "date": "DATE",
    "timestamp": "TIMESTAMP_MICROS_TZ",
    "timestamp_ntz": "TIMESTAMP_MICROS",
    "float": "FLOAT",
    "double": "DOUBLE",
    "boolean": "BOOL_%",
}
_DUCKDB = {"string": "VARCHAR", "binary": "BLOB", "timestamp": "TIMESTAMPTZ", "timestamp_ntz": "TIMESTAMP"}


def to_duckdb(condition: str) -> str:
    """Return a condition in DuckDB's SQL, in which a value of another type than the one that is asked for is null."""

    def find(match: re.Match[str]) -> str:
        parts, target = _BY_TEXT[match[1]], match[2]
        found = "v"
        for part in parts:
            step = f"{part + 1}::UINTEGER" if isinstance(part, int) else quote_plain(part)
            found = f"variant_extract({found}, {step})"
        stored = _STORED.get(target) or ("DECIMAL%" if target.startswith("decimal") else "INT%")
        cast = f"TRY_CAST({found} AS {_DUCKDB.get(target, target)})"
        return f"(CASE WHEN variant_typeof({found}) LIKE '{stored}' THEN {cast} END)"

    text = (
        _LOOKUP.sub(find, condition).replace("TIMESTAMP '", "TIMESTAMPTZ '").replace("TIMESTAMP_NTZ '", "TIMESTAMP '")
    )
    return re.sub("X'([0-9a-f]*)'", lambda match: f"unhex('{match[1]}')", text)


_BY_TEXT = {quote(text): parts for parts, text in PATHS.items()}
_KINDS_OF_DUCKDB = {
    "id": ("BIGINT", [str(number) for number in INTEGERS if number > -(2**63)]),
    "s": ("VARCHAR", SPELLINGS["string"]),
    "x.y": ("VARCHAR", SPELLINGS["string"]),
    "it's": ("INTEGER", ["0", "1", "2", "40000"]),
    'q"q': ("VARCHAR", SPELLINGS["string"]),
    "Ünï 漢": ("DECIMAL(10,2)", SPELLINGS["decimal(9,2)"]),
    "t": ("TIMESTAMPTZ", [f"'{time}+00'" for time in TIMES]),
    "n": ("TIMESTAMP", [f"'{time}'" for time in TIMES]),
    "d": ("DATE", [f"'{day}'" for day in DAYS]),
    "b": ("BLOB", ["''", "'a'"]),
    "f": ("FLOAT", ["'1.5'", "'0.5'", "'nan'"]),
}


def draw_for_duckdb(rng: random.Random, group: int, rows: int) -> str:
    """Return a query of DuckDB for a row group: mostly of one struct, with other documents planted."""

    def pick(kind: str, literals: list[str]) -> str:
        pool = rng.sample(literals, min(len(literals), rng.choice([1, 2, 3])))
        return f"([{', '.join(pool)}])[1 + (i * {rng.choice([1, 7, 13])}) % {len(pool)}]::{kind}"

    fields = {name: pick(*rule) for name, rule in _KINDS_OF_DUCKDB.items()}
    fields["x"] = f"{{'y': {pick('INTEGER', ['-3', '0', '7', '2147483647'])}}}"
    inner = f"'n': {pick('BIGINT', ['1', '2', '3000'])}, 'x.y': {pick('VARCHAR', SPELLINGS['string'])}"
    fields["o"] = f"{{{inner}, 'p': {{'z': {pick('DOUBLE', ['1.5', '0.0', '7.0'])}}}}}"
    fields["l"] = "[i % 3, 7]"
    members = ", ".join(f"{quote_plain(name)}: {value}" for name, value in fields.items())
    rules, planted = draw_rules(rng), []
    if rng.random() < 0.4:
        for _ in range(rng.choice([1, 5])):
            text = draw_document(rng, rules)
            document = "NULL" if text is None else f"{quote_plain(text)}::JSON::VARIANT"
            planted.append(f"WHEN {rng.randrange(rows)} THEN {document}")
    made = f"{{{members}}}::VARIANT"
    chosen = f"CASE i {' '.join(planted)} ELSE {made} END" if planted else made
    return f"SELECT (i + {group * rows})::BIGINT AS k, {chosen} AS v FROM range({rows}) r(i)"
