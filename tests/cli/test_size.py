"""`parquet-bloom size`: sizes, and invalid numbers."""

from __future__ import annotations

import json

import pytest

from parquet_bloom import fpp_for, size_for


def find_requested_size(document):
    (row,) = [row for row in document["sizes"] if row["asked"]]
    return row


@pytest.mark.parametrize("ndv", ["1000000", "1e6", "1_000_000", "1.0E+6", "0.1e7"])
def test_the_numbers_are_the_models(ndv, run):
    done = run("size", "--ndv", ndv, "--fpp", "0.003", "--json")
    assert (done.code, done.err) == (0, "")
    document = json.loads(done.out)
    row = find_requested_size(document)
    assert (document["ndv"], document["fpp"]) == (row["ndv"], row["fpp"]) == (10**6, 0.003)
    assert row["num_bytes"] == size_for(10**6, 0.003)
    assert row["exact_bytes"] == size_for(10**6, 0.003, power_of_two=False)
    assert row["real_fpp"] == pytest.approx(fpp_for(10**6, row["num_bytes"]))
    assert {(row["ndv"], row["fpp"]) for row in document["sizes"]} > {(10**6, 0.01), (10**7, 0.003), (10**5, 0.003)}


def test_no_values_and_too_many(run):
    assert find_requested_size(json.loads(run("size", "--ndv", "0", "--json").out))["num_bytes"] == 32
    done = run("size", "--ndv", "1e9")
    assert done.code == 0
    assert done.err == "no filter is that large; with 134,217,728 bytes the fpp is 0.995\n"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--ndv", "1.5"], "'1.5' is not an integer"),
        (["--ndv", "-1"], "'-1' is not an integer"),
        (["--ndv", "many"], "'many' is not an integer"),
        (["--ndv", "1e-3"], "'1e-3' is not an integer"),
        (["--ndv", "9", "--fpp", "0"], "--fpp"),
        (["--ndv", "9", "--fpp", "1"], "--fpp"),
        (["--ndv", "9", "--fpp", "nan"], "fpp"),
        ([], "missing option '--ndv'"),
    ],
)
def test_wrong_numbers_are_one_line(options, problem, run):
    done = run("size", *options)
    assert (done.code, done.out) == (2, "")
    (line,) = done.errors
    assert problem in line
