"""Translate conditions of other dialects of SQL into the one that `sql_parser` parses, by means of sqlglot.

sqlglot's tokenizer skips whatever it takes for comments, and changes literals and names by the rules of the dialect;
its parser turns a construct that it does not know into something similar. So the tokens are compared with the text,
only expressions that are known to have the same meaning are written, and no literal may be missing in the end.
"""

from __future__ import annotations

import re
from string import Formatter
from typing import TYPE_CHECKING, Any

from ..errors import PredicateError
from .sql_tokens import SqlText, shorten, unquote

if TYPE_CHECKING:
    from sqlglot import Token
    from sqlglot.dialects.dialect import Dialect

# Allowed between two tokens: white space and comments, except hints and version-dependent or nested comments.
_BETWEEN = re.compile(r"(?:\s|--[^\r\n]*|/\*(?![!+])(?:(?!/\*).)*?\*/)*", re.DOTALL)
_HEXADECIMAL = re.compile(r"[xX]'[0-9a-fA-F]*'")
_UNQUOTED = re.compile(r"[^\W\d]\w*")
_MISSING_BEFORE = {"COMMA": ("COMMA", "R_PAREN", "R_BRACKET"), "L_PAREN": ("COMMA",), "L_BRACKET": ("COMMA",)}
_QUOTES = {'"': '"', "`": "`", "[": "]"}

# Expressions by sqlglot's names, with the options that are set -> how they are written. No other has the same meaning.
_FORMS = {
    "Paren": "({this})",
    "Not": "NOT ({this})",
    "EQ": "{this} = {expression}",
    "NEQ": "{this} <> {expression}",
    "NullSafeEQ": "{this} <=> {expression}",
    "NullSafeNEQ": "{this} IS DISTINCT FROM {expression}",
    "LT": "{this} < {expression}",
    "LTE": "{this} <= {expression}",
    "GT": "{this} > {expression}",
    "GTE": "{this} >= {expression}",
    "Is": "{this} IS {expression}",
    "Is negate": "{this} IS NOT {expression}",
    "In": "{this} IN ({expressions})",
    "Between": "{this} BETWEEN {low} AND {high}",
    "Dot": "{this}.{expression}",
    "Null": "NULL",
    "Boolean": "FALSE",
    "Boolean this": "TRUE",
    "HexString": "X'{this}'",
    "Neg": "- {this}",
    "Lower": "lower({this})",
    "Upper": "upper({this})",
    "Any": "ANY({this})",
    "Array": "ARRAY[{expressions}]",
    "Array struct_name_inheritance": "ARRAY[{expressions}]",
    "ArrayContains": "array_contains({this}, {expression})",
    "ArrayOverlaps": "arrays_overlap({this}, {expression})",
    "ArrayContainsAll": "list_has_all({this}, {expression})",
    # Functions that sqlglot has no expression for.
    **dict.fromkeys(("list_contains", "list_has", "array_has"), "array_contains({expressions})"),
    **dict.fromkeys(("list_has_any", "array_has_any", "arrays_overlap"), "arrays_overlap({expressions})"),
    **dict.fromkeys(("list_has_all", "array_has_all"), "list_has_all({expressions})"),
}

# Forms of the dialects in which texts are matched as they are, whatever their collation.
_TEXT_FORMS = {
    "Like": "{this} LIKE {expression}",
    "Like negate": "{this} NOT LIKE {expression}",
    "ILike": "{this} ILIKE {expression}",
    "ILike negate": "{this} NOT ILIKE {expression}",
    "Escape": "{this} ESCAPE {expression}",
    "StartsWith": "starts_with({this}, {expression})",
    "EndsWith": "ends_with({this}, {expression})",
    "Contains": "contains({this}, {expression})",
}
_MATCH_CASE = frozenset(
    {"DuckDB", "Spark", "Databricks", "Postgres", "Redshift", "Trino", "Presto", "Athena", "Snowflake", "BigQuery"}
    | {"ClickHouse"}
)
_EXPRESSION_FORMS = {"RegexpLike": "regexp_matches({this}, {expression})"}  # of DuckDB, which has RE2 as well
_LOOKUPS = frozenset({"DuckDB", "Trino", "Presto", "Athena"})
"""Classes of dialects in which `m['k']` is never a default value in place of null."""

# Types of literals, by sqlglot's names.
_TYPES = {
    "DATE": "DATE",
    "TIME": "TIME",
    "TIMESTAMP": "TIMESTAMP",
    "TIMESTAMPTZ": "TIMESTAMP",
    "TIMESTAMPLTZ": "TIMESTAMP",
    "TIMESTAMPNTZ": "TIMESTAMP_NTZ",
    "TIMESTAMP_NS": "TIMESTAMP_NTZ",
    "DATETIME": "TIMESTAMP_NTZ",
    "UUID": "UUID",
    "DOUBLE": "DOUBLE",
}
_TEXTS = {"TEXT": "STRING", "VARCHAR": "STRING"}
_EXACT_CASTS = frozenset({"DuckDB", "Spark", "Databricks", "Postgres", "Trino", "Athena"})
"""Classes of dialects in which a CAST AS VARCHAR neither cuts texts nor has texts of values of its own."""


def translate(text: str, dialect: str) -> str:
    """Translate a condition into the default dialect of `sql_parser`, which may still refuse it.

    Parameters
    ----------
    text : the condition.
    dialect : by its name in sqlglot.

    Raises
    ------
    PredicateError
        sqlglot is not installed, does not know the dialect, or the text has no counterpart of the same meaning.
    """
    found = _find_dialect(dialect)
    from sqlglot import ErrorLevel, exp

    try:
        tokens = found.tokenize(text)
    except Exception:
        problem = f"a quote or comment is not closed, or a character is not allowed in {dialect}"
        raise PredicateError(f"{shorten(text)}: {problem}") from None
    kinds = [token.token_type.name for token in tokens]
    _check_tokens(text, tokens, kinds, escapes="\\" in found.tokenizer_class.STRING_ESCAPES)
    name = type(found).__name__
    types = _TYPES | _TEXTS if name in _EXACT_CASTS else _TYPES
    forms = _FORMS | _TEXT_FORMS if name in _MATCH_CASE else _FORMS
    if name == "DuckDB":
        forms = forms | _EXPRESSION_FORMS
    if name in _LOOKUPS:
        forms = forms | {"Bracket": "{this}[{expressions}]", "Bracket safe": "{this}[{expressions}]"}
    try:
        (node,) = found.parser(error_level=ErrorLevel.IMMEDIATE).parse_into(exp.Condition, tokens, text)
        written = _write(node, types, forms)
    except PredicateError as error:
        raise PredicateError(f"{shorten(text)}: {error.problem}") from None
    except RecursionError:
        raise PredicateError(f"{shorten(text)}: nested too deeply") from None
    except Exception as error:
        places = [place for place in getattr(error, "errors", None) or () if place.get("highlight")]
        where = f" at {shorten(places[0]['highlight'])!r}" if places else ""
        raise PredicateError(f"{shorten(text)}: not understood{where}") from None
    counts = [kinds.count("STRING") + kinds.count("HEX_STRING"), kinds.count("NUMBER")]
    ours = SqlText(written).tokens
    numbers = sum(token[:1].isdecimal() or (token[:1] == "." and token != ".") for token in ours)
    if counts != [sum(token.startswith(("'", "X'")) for token in ours), numbers]:
        raise PredicateError(f"{shorten(text)}: a literal is missing, or is of a form that is not supported")
    return written


def _find_dialect(name: str) -> Dialect:
    try:
        from sqlglot.dialects.dialect import Dialect
    except ImportError:
        problem = f"the dialect {name!r} is translated by sqlglot, which is not installed"
        raise PredicateError(f"{problem}: pip install 'parquet-bloom[dialects]'") from None
    try:
        return Dialect.get_or_raise(name)
    except Exception:
        raise PredicateError(f"sqlglot knows no SQL dialect {name!r}") from None


def _check_tokens(text: str, tokens: list[Token], kinds: list[str], escapes: bool) -> None:
    """Raise PredicateError for what sqlglot skips in the text or takes as given, and literals and names it changed."""
    position = 0
    for token, kind, following in zip(tokens, kinds, [*kinds[1:], ""], strict=False):
        source = text[token.start : token.end + 1]
        if not _BETWEEN.fullmatch(text, position, token.start):
            raise PredicateError(f"{shorten(text[position : token.start])}: comments of this form are not supported")
        if kind == "NUMBER" or token.start < position:  # of a number with a suffix
            is_same = source == token.text and token.start >= position
        elif kind == "STRING":
            is_same = unquote(source, escapes and "\\" in source) == token.text
        elif kind == "IDENTIFIER":
            close = _QUOTES.get(source[0], "")
            is_same = bool(close) and source[-1] == close and source[1:-1].replace(close * 2, close) == token.text
        else:
            is_same = kind != "HEX_STRING" or _HEXADECIMAL.fullmatch(source) is not None
        if not is_same:
            raise PredicateError(f"{shorten(source)}: this form of a literal or name is not supported")
        if kind == "SEMICOLON":
            raise PredicateError(f"{shorten(text)}: one condition is expected, without ';'")
        if following in _MISSING_BEFORE.get(kind, ()) or (kind == "IN" and following != "L_PAREN"):
            raise PredicateError(f"{shorten(text)}: a literal is missing after {source!r}")  # sqlglot accepts it
        if kind == "NOT" and token.text.upper() != "NOT":  # `!` binds in more than one way
            raise PredicateError(f"{shorten(text)}: NOT is written {token.text!r}")
        position = token.end + 1
    if not _BETWEEN.fullmatch(text, position):
        raise PredicateError(f"{shorten(text[position:])}: comments of this form are not supported")
    if not tokens:
        raise PredicateError("the condition is empty")


def _write(node: Any, types: dict[str, str], forms: dict[str, str]) -> str:
    """Write an expression of sqlglot in the default dialect.

    Raises
    ------
    PredicateError
        It has no counterpart of the same meaning.
    """
    name, arguments = type(node).__name__, {key: value for key, value in node.args.items() if value}
    if name in ("And", "Or"):  # perhaps a chain of thousands
        kind, terms = type(node), []
        while type(node) is kind:
            terms.append(f"({_write(node.expression, types, forms)})")
            node = node.this
        return f" {name.upper()} ".join([f"({_write(node, types, forms)})", *reversed(terms)])
    if name == "Literal":
        text = str(node.this)
        return "'" + text.replace("'", "''") + "'" if arguments.get("is_string") else text
    if name == "Identifier":
        if not arguments.get("quoted") and not _UNQUOTED.fullmatch(str(node.this)):
            raise PredicateError(f"the name {node.this!r} must be quoted")
        return '"' + str(node.this).replace('"', '""') + '"'
    if name == "Column" and arguments.keys() <= {"catalog", "db", "table", "this"}:
        parts = [arguments[part] for part in ("catalog", "db", "table", "this") if part in arguments]
        return ".".join(_write(part, types, forms) for part in parts)
    if name in ("Cast", "TryCast") and arguments.keys() <= {"this", "to", "safe"}:
        to = {key: value for key, value in node.args["to"].args.items() if value and key != "nested"}
        written = types.get(getattr(to.pop("this"), "name", ""))
        if written is not None and not to:
            return f"CAST({_write(node.this, types, forms)} AS {written})"
    if name == "Bracket":
        keys = node.expressions
        if len(keys) != 1 or not keys[0].args.get("is_string"):  # sqlglot changes numbers: they may be positions
            raise PredicateError("an element by anything but a text is not supported")
        arguments.pop("offset", None)
    name = str(arguments.pop("this")).lower() if name == "Anonymous" else name
    form = forms.get(" ".join([name, *(key for key, value in arguments.items() if value is True)]), "")
    fields = {field: "" for _, field, _, _ in Formatter().parse(form) if field}
    for key, value in arguments.items():
        if key in fields:
            items = value if isinstance(value, list) else [value]
            fields[key] = ", ".join(item if isinstance(item, str) else _write(item, types, forms) for item in items)
        elif value is not True or not form:
            form = ""
    if not form:
        is_function = type(node).__name__ == "Anonymous" or "Func" in [base.__name__ for base in type(node).__mro__]
        raise PredicateError(f"{'the function' if is_function else 'the expression'} {name} is not supported")
    return form.format(**fields)
