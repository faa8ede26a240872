"""Hide secrets recognized by their form: users and passwords in URLs, queries, values after names of secrets."""

from __future__ import annotations

import re

HIDDEN = "..."
"""The replacement of a secret."""

# Texts may be as long as a server's response, and malicious: each of these expressions takes linear time.
_WORD = re.compile(r"[^\s\"'<>]+")  # a URL, and the punctuation of the text around it
_WEB = re.compile(r"https?://", re.IGNORECASE)
_SCHEME = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+.-"
_PORT = re.compile(r"\d*(?:[:,;.)\]}]|$)")
CONTAINER = re.compile(r"(abfs|wasb)s?$", re.IGNORECASE)  # in these, a name without a password is a container
_TRAILING_PUNCTUATION = re.compile(r"[:,;)\]}]{1,3}$")

_SECRET_PARAMETERS = (
    r"x-(?:amz|goog)-[a-z-]{1,40}|awsaccesskeyid|googleaccessid|signature|policy|key-pair-id"
    r"|sig|se|sp|sv|st|sr|ss|srt|spr|sip|sks|skt|ske|skv|skoid|sktid|saoid|suoid"
    r"|auth|key|[a-z0-9_.-]{0,40}(?:token|secret|passwor[dt]|passwd|pwd|credential|api_?key|access_?key)[a-z0-9_.-]{0,40}"
)
_PARAMETER = re.compile(
    rf"((?:[?&;]|%3F|%26|%3B|\\u0026)(?:{_SECRET_PARAMETERS})(?:=|%3D))[^&;\s\"'<>]+", re.IGNORECASE
)
_SIGNATURE = re.compile(r"\b((?:sig|signature|credential)=)[a-z0-9%+/=_-]{20,}", re.IGNORECASE)

_OPTION = re.compile(
    r"""(?<![a-z0-9/]) (?<!column\ ["'])
    ( (?: (?:aws[_-])? secret[_-]?(?:access[_-])?key | (?:aws[_-])? session[_-]?token | x-amz-security-token
        | (?:azure[_-])? (?:storage[_-])? (?:account|master|sas)[_-]?key | sas[_-]token | sharedaccesssignature
        | client[_-]secret | private[_-]key(?:[_-]id)? | password | (?:proxy-)?authorization )
      ["']? \s? [=:] \s? b?["']?
      (?: (?:basic|bearer|digest|negotiate|token) \s{1,3} )? )
    (?! aws4-hmac ) [^\s"',;&<>]+""",
    re.IGNORECASE | re.VERBOSE,
)
_OPTION_WORDS = ("key", "token", "secret", "password", "authorization", "signature", "sig=", "credential")
_BEARER = re.compile(r"\b((?:Bearer|Basic)\s+)(?=[^\s]*\d)[A-Za-z0-9._~+/=-]{12,}")
_ELEMENT = re.compile(
    r"<((?:StringToSign|SignatureProvided|CanonicalRequest)(?:Bytes)?|AWSAccessKeyId|Token-\d|SecretAccessKey|SessionToken)>"
    r"[^<]+"
)
_PRIVATE_KEY = re.compile(r"(-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*-----|$)", re.DOTALL)


def redact_patterns(text: str) -> str:
    """Replace everything in a text that looks like a secret."""
    if "://" in text:
        text = _WORD.sub(_redact_url, text)
    if "&" in text or "?" in text or ";" in text or "%" in text or "\\u0026" in text:
        text = _PARAMETER.sub(rf"\1{HIDDEN}", text)
    lower = text.lower()
    if any(word in lower for word in _OPTION_WORDS):
        text = _OPTION.sub(rf"\1{HIDDEN}", text)
        text = _SIGNATURE.sub(rf"\1{HIDDEN}", text)
    if "earer" in text or "asic" in text:
        text = _BEARER.sub(rf"\1{HIDDEN}", text)
    if "-----BEGIN" in text:
        text = _PRIVATE_KEY.sub(rf"\1{HIDDEN}", text)
    if "</" in text:
        text = _ELEMENT.sub(rf"<\1>{HIDDEN}", text)
    return text


def _redact_url(match: re.Match[str]) -> str:
    """Redact the URLs in a word of a text."""
    word = match[0]
    if "://" not in word:
        return word
    web = _WEB.search(word)
    start = web.end() if web else len(word)
    query, fragment = word.find("?", start), word.find("#", start)
    if query < 0 <= fragment and "=" in word[fragment:]:  # a redirect after signing in
        query = fragment
    if query >= 0:
        punctuation = _TRAILING_PUNCTUATION.search(word[query:])
        word = f"{word[: query + 1]}{HIDDEN}{punctuation[0] if punctuation else ''}"
    before, *rest = word.split("://")
    parts = [before]
    for part in rest:
        scheme = parts[-1][len(parts[-1].rstrip(_SCHEME)) :]
        parts.append(_redact_user(scheme, part) if scheme else part)
    return "://".join(parts)


def _redact_user(scheme: str, rest: str) -> str:
    """Redact the user and the password in the part of a URL after `://`."""
    authority = re.split("[/?#]", rest, maxsplit=1)[0]
    user, at, _ = authority.rpartition("@")
    if at:
        is_container = ":" not in user and CONTAINER.match(scheme) is not None
        return rest if is_container else HIDDEN + rest[len(user) :]
    _, colon, port = authority.partition(":")
    if not colon or authority.startswith("[") or _PORT.match(port):
        return rest
    end = rest.rfind(
        "@"
    )  # a password may hold a character that ends an authority, or the text may be cut off before the @
    return HIDDEN + rest[end if end >= 0 else len(authority) :]
