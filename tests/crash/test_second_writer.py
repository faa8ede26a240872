"""Another process changes the file at each call of a command: its data are never lost, and never mixed with others."""

from __future__ import annotations

import os
from errno import EIO
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from faulty import AFTER, ASK, BEFORE, EVER, KILL, Rule
from scenarios import checksums, leftovers, reported, table
from support.scale import sampled

from parquet_bloom.cli import main
from parquet_bloom.storage.local import system_calls

pytestmark = pytest.mark.crash

NAME = "lake/1.parquet"


class Writer:
    """The other process: this one.

    Attributes
    ----------
    path : of the file.
    expected : what it has made of it.
    """

    def __init__(self, way: str, folder: Path) -> None:
        self._way = way
        self._times = 0
        self.path = folder / NAME
        self._handle = open(self.path, "r+b", 0) if way == "held" else None  # noqa: SIM115 - it is to stay open
        self.expected: bytes | None = self.path.read_bytes()  # a command that is refused may not come to the call

    def act(self) -> None:
        path, crc = self.path, self.path.with_name(f".{self.path.name}.crc")
        was = path.read_bytes() if self._handle is None else os.pread(self._handle.fileno(), 1 << 20, 0)
        if self._way in ("replaces", "hadoop replaces"):
            self._times += 1
            pq.write_table(table(9 + self._times), path.with_name(".new"))
            self.expected = path.with_name(".new").read_bytes()
            os.replace(path.with_name(".new"), path)
            if self._way == "hadoop replaces":
                crc.write_bytes(checksums(self.expected))
                return
        elif self._way == "appends":
            with open(path, "ab") as file:
                file.write(b"more")
            self.expected = was + b"more"
        elif self._way == "truncates":
            os.truncate(path, 1000)
            self.expected = was[:1000]
        elif self._way == "links":
            victim = path.with_name("victim")
            victim.write_bytes(b"precious")
            path.unlink()
            path.symlink_to(victim)
            self.expected = b"precious"
        elif self._way == "removes":
            path.unlink()
            self.expected = None
        else:
            status = path.stat()
            self.expected = was[:9] + bytes(byte ^ 1 for byte in was[9:])
            with open(
                path if self._handle is None else self._handle.fileno(), "r+b", 0, closefd=self._handle is None
            ) as file:
                file.seek(0)
                file.write(self.expected)
            os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))  # nobody should notice
        crc.unlink(missing_ok=True)

    def close(self) -> None:
        if self._handle is not None:
            self._handle.close()


def disturbed(staged, way, moments):
    """Run the command, with the other writer at work at each of some moments; return the number of reported errors."""
    num_reported = 0
    for number, when in moments:
        folder = staged.fresh()
        writer = Writer(way, folder)
        outcome = staged.run(folder, Rule(number, number, "", when, ASK), on_asked=writer.act)
        data = writer.path.read_bytes() if writer.path.exists() else None
        about = f"{way} at {staged.undisturbed.calls[number - 1].name}, {number}: {outcome.code} {outcome.err}"
        writer.close()
        assert data == writer.expected, f"{about}: {len(data or b'')} bytes"
        # What came after ours may have rows that were to be erased, or be no file that can be searched for them.
        assert outcome.code in (0, 2) or (outcome.code == 1 and "searched again" in outcome.err), about
        if outcome.code == 2:
            num_reported += 1
            assert len(reported(outcome.err)) == 1, about
        assert not leftovers(folder), about
        crc = writer.path.with_name(f".{writer.path.name}.crc")
        if writer.expected is not None and crc.exists() and (outcome.code == 0 or number <= len(outcome.calls)):
            assert crc.read_bytes() == checksums(data), about
        staged.discard(folder)
    return num_reported


def moments_of(staged, replaces):
    """All calls until the file is replaced by one of a name; the moments after it are harmless, and some are taken."""
    calls = staged.undisturbed.calls
    at = next(call.number for call in calls if call.name == replaces and call.path.endswith(".old"))
    return at, [(number, BEFORE) for number in range(1, len(calls) + 1)]


WAYS = ["replaces", "hadoop replaces", "appends", "overwrites", "truncates", "removes", "links", "held"]


@pytest.mark.long
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("name", ["embed", "drop", "erase"])
def test_at_each_call(name, way, stage):
    staged = stage(name)
    at, moments = moments_of(staged, "exchange")
    num_reported = disturbed(staged, way, moments)
    # Every change of the old file is noticed; one of the new file is none of the command's business. The two files that
    # rows are erased from are written at the same time, so that its calls come in any order.
    if name != "erase":
        assert num_reported == (len(moments) if way == "held" else at)


# These open the file right after the exchange, and so wait until the kernel breaks the command's lease, for 45 s.
WAITING = ["appends", "overwrites", "truncates"]


@pytest.mark.parametrize("way", [way for way in WAYS if way not in WAITING] + sampled(WAITING, 9))
def test_about_the_exchange(way, stage):
    staged = stage("embed")
    at, _ = moments_of(staged, "exchange")
    moments = [(1, AFTER), (at - 1, AFTER), (at, BEFORE)]
    if way == "held":
        moments.append((at, AFTER))
    assert disturbed(staged, way, moments) == len(moments)
    disturbed(staged, way, [(at + 1, BEFORE)])


@pytest.mark.long
@pytest.mark.parametrize("way", ["replaces", "appends", "overwrites", "truncates"])
def test_where_names_cannot_be_exchanged(way, stage):
    """All is noticed but what comes between the last look at the file and its replacement."""
    staged = stage("embed without exchange")
    at, moments = moments_of(staged, "rename")
    num_reported = disturbed(staged, way, [moment for moment in moments if moment != (at, BEFORE)])
    assert num_reported == at - 1


def test_what_a_killed_process_displaced_is_kept(stage, capsys):
    """The other writer's file came out of the exchange, and nobody was left to put it back."""
    staged = stage("embed")
    at, _ = moments_of(staged, "exchange")
    folder = staged.fresh()
    writer = Writer("replaces", folder)
    outcome = staged.run(folder, Rule(at, at, "", BEFORE, ASK), Rule(at, at, "", AFTER, KILL), on_asked=writer.act)
    assert outcome.killed
    assert writer.path.read_bytes() == staged.after[NAME]
    (stray,) = [path for path in leftovers(folder) if ".crc." not in path.name]
    assert stray.read_bytes() == writer.expected
    capsys.readouterr()
    assert main(["sweep", str(folder)]) == 1
    assert "it holds other rows than 1.parquet" in capsys.readouterr().out
    assert leftovers(folder) == [stray]
    stray.replace(writer.path)
    assert main(["verify", str(writer.path)]) == 0


def test_the_newest_of_several_replacements_wins(stage):
    """Another file comes before the exchange, and a third one just as the second is put back."""
    staged = stage("embed")
    at = staged.number_of("exchange")
    folder = staged.fresh()
    writer = Writer("replaces", folder)
    asked = [Rule(at, at, "", BEFORE, ASK), Rule(at + 1, at + 1, "", BEFORE, ASK)]
    outcome = staged.run(folder, *asked, on_asked=writer.act)
    assert [call.name for call in outcome.calls[at - 1 : at + 2]] == ["exchange"] * 3
    assert "another writer replaced it meanwhile" in outcome.err
    assert writer.path.read_bytes() == writer.expected
    assert not leftovers(folder)


def test_a_target_that_becomes_a_link_lends_no_rights(stage):
    """Mode and owner of what it leads to, set-user-id perhaps, are not those of the new file."""
    staged = stage("embed over another")
    folder, at = staged.fresh(), staged.number_of("open")
    target, victim = folder / "there.parquet", folder / "victim"

    def lead_elsewhere():
        victim.write_bytes(b"#!/bin/sh")
        victim.chmod(0o6755)
        target.unlink()
        target.symlink_to(victim)

    outcome = staged.run(folder, Rule(at, at, "", AFTER, ASK), on_asked=lead_elsewhere)
    assert "not a regular file any more" in outcome.err
    assert victim.read_bytes() == b"#!/bin/sh"
    assert not leftovers(folder)


def test_a_file_that_cannot_be_put_back_is_named(stage):
    staged = stage("embed")
    at = staged.number_of("exchange")
    folder = staged.fresh()
    writer = Writer("replaces", folder)
    failing = Rule(at + 1, EVER, ",exchange,", BEFORE, EIO)
    outcome = staged.run(folder, Rule(at, at, "", BEFORE, ASK), failing, on_asked=writer.act)
    (stray,) = leftovers(folder)
    assert f"cannot be restored, see {stray}: Input/output error" in outcome.err
    assert (writer.path.read_bytes(), stray.read_bytes()) == (staged.after[NAME], writer.expected)


@pytest.mark.parametrize("way", ["index append", "index append without rename_new", "first late grams append"])
def test_a_manifest_that_another_writer_made_is_kept(way, stage):
    staged = stage(way)
    at = staged.number_of("link" if "without" in way else "rename_new")
    folder = staged.fresh()
    manifest = Path(staged.undisturbed.calls[at - 1].other)
    outcome = staged.run(folder, Rule(at, at, "", BEFORE, ASK), on_asked=lambda: manifest.write_bytes(b"theirs"))
    assert outcome.code == 2
    assert len(reported(outcome.err)) == 1
    assert manifest.read_bytes() == b"theirs"


def test_a_process_with_the_file_open_for_writing(tmp_path):
    path = tmp_path / "a"
    path.write_bytes(b"data")
    with open(path, "rb") as reader:
        with system_calls.hold_lease(reader.fileno()) as lease:
            assert (lease.refused, lease.has_waiting_writer) == (False, False)
            with open(path, "rb"):
                assert not lease.has_waiting_writer
            with pytest.raises(BlockingIOError):
                os.open(path, os.O_WRONLY | os.O_NONBLOCK)
            assert lease.has_waiting_writer
        with open(path, "r+b"), system_calls.hold_lease(reader.fileno()) as lease:
            assert (lease.refused, lease.has_waiting_writer) == (True, False)
        with open(path, "r+b"):
            pass
