"""The service with a token: who is answered, what others learn, and that the token shows nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from parquet_bloom.errors import ParquetBloomError
from parquet_bloom.serve.request_guards import read_tokens

from .test_bounds import fails

TOKEN = "0123456789abcdef.-_~+/secret=="
OTHER = "another-token-of-the-service"
PATHS = ("/stats", "/lookup?column=id&value=7", "/metrics", "/openapi.json", "/docs", "/nothing")


def bearer(token: str) -> dict[str, str]:
    return {"authorization": f"Bearer {token}"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "tokens"
    path.write_text(f"\n{TOKEN}\r\n  {OTHER} \n")
    return path


@pytest.mark.default
def test_only_requests_with_a_token_are_answered(lake, serve, file: Path):
    service = serve(lake.index, "--rows", "--token-file", str(file))
    for path in PATHS:
        response = service.get(path)
        assert (response.status_code, response.headers["www-authenticate"]) == (401, 'Bearer realm="parquet-bloom"')
        assert "token is required" in response.json()["error"]
        for token in (TOKEN, OTHER):
            assert service.get(path, headers=bearer(token)).status_code == (404 if path == "/nothing" else 200)
    for path in ("/lookup", "/get", "/append", "/remove", "/refresh"):
        assert service.post(path, {}).status_code == 401
    body = {"column": "id", "values": [7]}
    assert service.post("/lookup", body, headers=bearer(TOKEN)).json()["results"][0]["candidates"]
    assert service.client.options("/lookup").status_code == 401


def test_what_is_almost_a_token_is_not_one(lake, serve, file: Path):
    service = serve(lake.index, "--token-file", str(file))
    almost = [
        *(TOKEN[:-1], TOKEN + "x", TOKEN.upper(), TOKEN[1:], f"{TOKEN} {OTHER}", f"{TOKEN}, {OTHER}"),
        *("\xe9" * 20, "x" * 5_000),
    ]
    for token in almost:
        response = service.get("/stats", headers={"authorization": f"Bearer {token}".encode("latin-1")})
        assert response.status_code == 401, token
        assert response.headers["www-authenticate"] == 'Bearer realm="parquet-bloom", error="invalid_token"'
    for header in (TOKEN, "Bearer", f"Basic {TOKEN}", f"Bearer{TOKEN}", f"Token {TOKEN}"):
        assert service.get("/stats", headers={"authorization": header}).status_code == 401
    twice = [("authorization", f"Bearer {TOKEN}"), ("authorization", f"Bearer {OTHER}")]
    assert service.get("/stats", headers=twice).status_code == 401
    assert service.get(f"/stats?access_token={TOKEN}").status_code == 401
    assert service.get("/stats", headers={"authorization": f"bEARER  {TOKEN}"}).status_code == 200


def test_health_needs_no_token_but_says_little_without_one(lake, serve, file: Path):
    service = serve(lake.index, "--token-file", str(file))
    assert service.get("/health").json() == {"status": "ok"}
    assert service.get("/health", headers=bearer("wrong-but-long-enough")).json() == {"status": "ok"}
    assert service.get("/health", headers=bearer(TOKEN)).json()["files"] == 10
    for path in ("/health/", "//health", "/health/../stats", "/HEALTH", "/health%2f..%2fstats"):
        assert service.get(path).status_code == 401


def test_metrics_need_a_token_unless_they_are_open(lake, serve, file: Path):
    service = serve(lake.index, "--token-file", str(file), "--open-metrics")
    assert service.get("/metrics").text.startswith("# HELP parquet_bloom_")
    assert service.get("/stats").status_code == 401
    assert 'path="/stats",code="401"} 1\n' in service.get("/metrics").text
    document = service.get("/openapi.json", headers=bearer(TOKEN)).json()
    assert document["components"]["securitySchemes"] == {"token": {"type": "http", "scheme": "bearer"}}
    assert document["paths"]["/lookup"]["post"]["security"] == [{"token": []}]
    assert "401" in document["paths"]["/lookup"]["post"]["responses"]
    assert "security" not in document["paths"]["/metrics"]["get"]


def test_the_environment_may_hold_the_token(lake, serve, monkeypatch: pytest.MonkeyPatch, file: Path):
    monkeypatch.setenv("PARQUET_BLOOM_TOKEN", TOKEN)
    service = serve(lake.index, "--host", "0.0.0.0")
    at = f"http://127.0.0.1:{service.port}/stats"
    assert service.client.get(at).status_code == 401
    assert service.client.get(at, headers=bearer(TOKEN)).status_code == 200
    _, errors = service.stop()
    assert errors == ("warning: no TLS: whoever can read the traffic to 0.0.0.0 sees the token; put a proxy in front\n")
    assert "give one of them" in fails(str(lake.index), "--token-file", str(file))
    for empty in ("", "  ", "short", "with a space in it"):
        monkeypatch.setenv("PARQUET_BLOOM_TOKEN", empty)
        text = fails(str(lake.index))
        assert "PARQUET_BLOOM_TOKEN is not a token: at least 16 " in text
        assert not empty.strip() or empty not in text


def test_a_bad_token_file_is_refused_without_showing_it(lake, tmp_path: Path):
    file = tmp_path / "tokens"
    for content, problem in (
        (b"", "the file is empty"),
        (b"\n \n", "the file is empty"),
        (b"hush-hush", "line 1 is not a token"),
        (f"{TOKEN}\nhush hush hush hush".encode(), "line 2 is not a token"),
        (b"\xff\xfe" + TOKEN.encode("utf-16-le"), "line 1 is not a token"),
        (TOKEN.encode() * 3_000, "the file is longer than 65,536 bytes"),
    ):
        file.write_bytes(content)
        text = fails(str(lake.index), "--token-file", str(file))
        assert problem in text
        assert "hush" not in text
        assert TOKEN not in text
    assert "No such file" in fails(str(lake.index), "--token-file", str(tmp_path / "nothing"))


def test_the_token_shows_nowhere(lake, serve, file: Path):
    service = serve(lake.index, "--token-file", str(file), "-vv")
    service.get("/stats", headers=bearer(TOKEN))
    service.get(f"/{TOKEN}", headers=bearer(TOKEN))
    answers = [
        service.post("/lookup", {"column": TOKEN, "values": [1]}, headers=bearer(TOKEN)).text,
        service.get("/metrics", headers=bearer(TOKEN)).text,
        service.get("/stats", headers=bearer(OTHER + "x")).text,
    ]
    command = Path(f"/proc/{service.process.pid}/cmdline")
    if command.exists():
        answers.append(command.read_text())
    _, errors = service.stop()
    for text in (*answers, errors):
        assert TOKEN not in text
        assert OTHER not in text
    tokens = read_tokens(file, {})
    assert tokens is not None
    assert tokens.accept([f"Bearer {TOKEN}".encode()])
    assert TOKEN not in repr(vars(tokens))
    assert TOKEN not in str(ParquetBloomError(f"something with {TOKEN} in it"))
