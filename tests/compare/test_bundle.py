"""A bundle tells damage by name, gives nothing private away, and writes nowhere but where it was told."""

import contextlib
import hashlib
import io
import json
import os
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.analysis.scaling import summarize, summarize_runs
from gpubench.files import bundle, reducing, series, store, verified
from gpubench.files import sealed as container
from gpubench.files.redaction import redact
from gpubench.report import tables
from gpubench.spec.errors import UsageError
from gpubench.spec.record import as_dict, to_json
from gpubench.spec.verification import Verification
from gpubench.spec.verification import to_json as verification_to_json
from tests.builders import make_case, make_findings, make_launches, make_machine, make_run

UUID = "GPU-3f2c1a90-1111-2222-3333-444455556666"


def saved(folder: Path, records, name: str = "0001_first.jsonl") -> store.Run:
    path = folder / name
    path.write_text("".join(to_json(record) + "\n" for record in records))
    return store.load(path)


@pytest.fixture(scope="module")
def packed(tmp_path_factory) -> bytes:
    folder = tmp_path_factory.mktemp("pack")
    path = folder / "run.gpubench.zip"
    bundle.pack(saved(folder, make_launches(make_case(), [100.0, 101.0, 99.0])), path)
    return path.read_bytes()


def sealed(members: dict[str, bytes], manifest: dict | None = None, **told) -> bytes:
    """A bundle as somebody else may make it: well sealed, whatever is in it. `told` is said in the manifest instead."""
    journal = next((name for name in members if name.endswith(".jsonl")), "x.jsonl")
    manifest = manifest or {
        "format": 1,
        "made_by": "test",
        "run": journal.removesuffix(".jsonl"),
        "redacted": True,
        "records": members.get(journal, b"").count(b"\n"),
        "skipped_lines": 0,
        **told,
        "members": {name: container._fingerprint(content) for name, content in members.items()},
    }
    return container.zipped({"manifest.json": json.dumps(manifest).encode(), **members})


def reading(tmp_path: Path, content: bytes):
    path = tmp_path / "x.gpubench.zip"
    path.write_bytes(content)
    return bundle.read(path)


@pytest.mark.parametrize("hide", [True, False])
def test_a_run_comes_out_with_the_figures_that_went_in(tmp_path, hide):
    run = saved(tmp_path, make_run("gpu"))
    bundle.pack(run, tmp_path / "x.gpubench.zip", hide)
    loaded, _ = bundle.load(tmp_path / "x.gpubench.zip", store.load)
    before, after = (tables.rows(summarize(one.records)) for one in (run, loaded))
    for row in [*before, *after]:
        row["machine"] = None
    assert before == after


def test_packing_twice_gives_the_same_bytes(tmp_path):
    run = saved(tmp_path, make_launches(make_case(), [100.0]))
    for name in ("a.zip", "b.zip"):
        bundle.pack(run, tmp_path / name)
    assert (tmp_path / "a.zip").read_bytes() == (tmp_path / "b.zip").read_bytes()


def test_unpacking_gives_a_run_that_can_be_read(tmp_path, packed):
    (tmp_path / "x.gpubench.zip").write_bytes(packed)
    [path] = bundle.unpack(tmp_path / "x.gpubench.zip", tmp_path / "out")
    assert path == tmp_path / "out" / "0001_first.jsonl"
    assert len(store.load(path).records) == 3


def test_unpacking_replaces_no_file(tmp_path, packed):
    (tmp_path / "x.gpubench.zip").write_bytes(packed)
    (tmp_path / "0001_first.jsonl").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        bundle.unpack(tmp_path / "x.gpubench.zip", tmp_path)
    assert (tmp_path / "0001_first.jsonl").read_text() == "mine"


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_any_changed_byte_is_found(tmp_path_factory, packed, data):
    at = data.draw(st.integers(0, len(packed) - 1))
    flipped = bytearray(packed)
    flipped[at] ^= data.draw(st.integers(1, 255))
    with pytest.raises(UsageError):
        reading(tmp_path_factory.getbasetemp(), bytes(flipped))


@settings(max_examples=100, deadline=None)
@given(st.floats(0, 1, exclude_max=True))
def test_any_truncation_is_found(tmp_path_factory, packed, part):
    with pytest.raises(UsageError, match="not a bundle"):
        reading(tmp_path_factory.getbasetemp(), packed[: int(part * len(packed))])


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_a_file_that_is_sealed_well_and_broken_inside_is_an_error_or_a_bundle_and_never_a_traceback(
    tmp_path_factory, packed, data
):
    broken = bytearray(packed[:-64])
    for _ in range(data.draw(st.integers(1, 4))):
        broken[data.draw(st.integers(0, len(broken) - 1))] = data.draw(st.integers(0, 255))
    with contextlib.suppress(UsageError):
        reading(tmp_path_factory.getbasetemp(), bytes(broken) + hashlib.sha256(broken).hexdigest().encode())


def test_a_changed_member_is_named(tmp_path, packed):
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        journal = archive.read("0001_first.jsonl")
    forged = sealed({"0001_first.jsonl": journal.replace(b'"launch":1', b'"launch":9')}, manifest)
    with pytest.raises(UsageError, match=r"0001_first\.jsonl is not what was packed: its checksum differs"):
        reading(tmp_path, forged)


@pytest.mark.parametrize(
    "name", ["../evil.jsonl", "/tmp/evil.jsonl", "a/b.jsonl", "..", ".hidden.jsonl", "a\\b.jsonl", ""]
)
def test_no_name_leads_out_of_the_folder(tmp_path, name):
    with pytest.raises(UsageError, match=r"cannot be the name of a member|is no file of a run"):
        reading(tmp_path, sealed({name: b"{}\n"}))


def test_a_bomb_is_not_unpacked(tmp_path, monkeypatch):
    monkeypatch.setattr(container, "LARGEST_CONTENT", 1 << 20)
    with pytest.raises(UsageError, match="larger than it may be"):
        reading(tmp_path, sealed({"x.jsonl": b"\0" * (8 << 20)}))


def test_too_many_members_are_refused_before_they_are_listed(tmp_path):
    with pytest.raises(UsageError, match="over 20000 members"):
        reading(tmp_path, sealed({f"{i}.jsonl": b"" for i in range(20_001)}))


def test_a_member_that_the_manifest_does_not_know_is_named(tmp_path, packed):
    with zipfile.ZipFile(io.BytesIO(packed)) as archive:
        members = {name: archive.read(name) for name in archive.namelist()}
    manifest = json.loads(members.pop("manifest.json"))
    with pytest.raises(UsageError, match="disagree about 'extra'"):
        reading(tmp_path, sealed({**members, "extra": b""}, manifest))


def test_a_program_is_no_member(tmp_path):
    with pytest.raises(UsageError, match=r"'setup\.py' is no file of a run"):
        reading(tmp_path, sealed({"setup.py": b"", "x.jsonl": b""}))


@pytest.mark.parametrize("content", [b"", b"PK", b"{}", b"\0" * 4096])
def test_what_is_no_bundle_is_called_so(tmp_path, content):
    with pytest.raises(UsageError, match="not a bundle"):
        reading(tmp_path, content)


def test_a_folder_or_nothing_at_all_is_an_error_and_no_traceback(tmp_path):
    with pytest.raises(UsageError, match="Is a directory"):
        bundle.read(tmp_path)
    with pytest.raises(UsageError, match="No such file"):
        bundle.read(tmp_path / "none.zip")


def test_a_bundle_whose_run_cannot_be_read_is_named_and_not_the_file_that_it_was_unpacked_to(tmp_path):
    (tmp_path / "x.gpubench.zip").write_bytes(sealed({"x.jsonl": b"mine"}))
    with pytest.raises(UsageError, match=rf"^{tmp_path}/x\.gpubench\.zip holds no readable record"):
        bundle.load(tmp_path / "x.gpubench.zip", store.load)


@pytest.mark.parametrize("method", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_what_zipfile_would_unpack_at_once_is_not_unpacked(tmp_path, monkeypatch, method):
    monkeypatch.setattr(zipfile, "ZIP_DEFLATED", method)
    content = sealed({"x.jsonl": b"{}\n"})
    monkeypatch.undo()
    with pytest.raises(UsageError, match="packed in a way that bundles are not"):
        reading(tmp_path, content)


@pytest.mark.parametrize(
    "more", ['"9": ' + "9" * 5000, '"a": 1e999', '"a": ' + "[" * 500 + "]" * 500, '"\\u0000": "\\u001b"']
)
def test_what_nobody_knows_in_a_record_is_no_part_of_the_bundle_and_no_traceback(tmp_path, more):
    run = saved(tmp_path, make_launches(make_case(), [100.0]))
    line = run.path.read_text().strip()
    run.path.write_text(line[:-1] + f", {more}}}\n")
    made = bundle.pack(store.load(run.path), tmp_path / "x.gpubench.zip", redact=False)
    assert json.loads(made.members["0001_first.jsonl"]) == json.loads(line)


def test_lines_that_are_no_records_are_left_out_and_counted(tmp_path):
    run = saved(tmp_path, make_launches(make_case(), [100.0]))
    run.path.write_text(run.path.read_text() + '{"schema": 1, "torn')
    made = bundle.pack(store.load(run.path), tmp_path / "x.gpubench.zip")
    assert made.skipped_lines == 1
    assert len(bundle.load(tmp_path / "x.gpubench.zip", store.load)[0].records) == 1


def private() -> dict:
    """A record with something of everybody's in it, in every place where text can stand."""
    machine = replace(make_machine("gpu", 1, name="nodename17.corp.example"))
    [record] = make_launches(make_case(device_kind="gpu"), [100.0], machine=machine)
    body = json.loads(json.dumps(as_dict(record)).replace("GPU-00000000-0000-0000-0000-000000000000", UUID))
    body["software"]["nccl"] = "2.18.3.1"
    body["environment"] = {
        "CUDA_VISIBLE_DEVICES": UUID,
        "USER": "ada.l",
        "NCCL_TOKEN": "hunter2",
        "LD_PRELOAD": "/opt/secret lib/x.so",
        "MASTER_ADDR": "headnode",
    }
    body["outcome"]["log"] = "/home/ada.l/results/launch1.log"
    body["outcome"]["log_tail"] = [
        'File "/home/ada.l/my project/train.py", line 3',
        "connect to 10.1.2.3:2345 and fe80::1ff:fe23:4567:890a from nodename17 failed",
        "mail ada.l@corp.example, MAC 00:1b:44:11:3a:b7, see https://wiki.corp.example/x?y=1",
        f"board serial number: 1320921034567 of {UUID}, at C:\\Users\\ada.l\\x.txt, ~/notes.txt",
        "nodename17.corp.example headnode: 45.2 samples/s at 12:34:56, ratio 1/2",
    ]
    body["checks"] = [{"name": "x", "severity": "note", "message": "ada.l ran on nodename17", "remedy": ""}]
    return body


SECRETS = ("ada.l", "nodename17", "corp.example", "headnode", "10.1.2.3", "fe80", "00:1b:44", "1320921034567", UUID[4:])
SECRETS += ("hunter2", "secret lib", "my project", "notes.txt", "wiki")


@pytest.mark.parametrize("secret", SECRETS)
def test_nothing_private_is_left(secret):
    [body] = redact([private()])
    assert secret in json.dumps(private())
    assert secret not in json.dumps(body)


def test_what_is_measured_and_what_it_was_measured_with_stays():
    [body] = redact([private()])
    for name in ("case", "software", "rounds", "warmup", "started_at", "record_id"):
        assert body[name] == private()[name]
    assert body["outcome"]["log"] == "launch1.log"
    assert "45.2 samples/s at 12:34:56, ratio 1/2" in body["outcome"]["log_tail"][4]


def test_devices_have_the_same_other_name_everywhere():
    [body] = redact([private()])
    names = {body["devices"][0]["id"], body["machine"]["devices"][0]["id"], body["telemetry"]["devices"][0]["id"]}
    names |= {body["environment"]["CUDA_VISIBLE_DEVICES"], *body["observed"]["device_ids"]}
    [name] = names
    assert store.decode(json.dumps(body)).devices[0].id == name
    assert name in body["outcome"]["log_tail"][3]


def test_a_host_that_is_called_like_a_framework_takes_nothing_of_the_case_with_it():
    [record] = make_launches(make_case(), [100.0], machine=make_machine(name="torch"))
    [body] = redact([as_dict(record)])
    assert body["case"]["framework"] == "torch"
    assert body["machine"]["name"].startswith("machine-")


def test_a_machine_with_gpus_keeps_one_name_over_runs_and_others_get_another():
    first, second = private(), private()
    second["run_id"] = "another"
    third = json.loads(json.dumps(private()).replace(UUID, UUID.replace("3f2c", "4f2c")))
    names = [redact([body])[0]["machine"]["name"] for body in (first, second, third)]
    assert names[0] == names[1] != names[2]


def test_a_machine_without_gpus_keeps_its_name_over_runs_too():
    [record] = make_launches(make_case(), [100.0], machine=make_machine(name="vm"))
    bodies = [as_dict(replace(record, run_id=run_id)) for run_id in ("one", "two")]
    assert len({redact([body])[0]["machine"]["name"] for body in bodies}) == 1


def test_redacting_leaves_what_it_was_given_alone():
    body = private()
    redact([body])
    assert body == private()


def with_series(folder: Path, records) -> store.Run:
    journal = store.Journal.create(folder, "box", "first")
    for record in records:
        journal.append(record)
    return store.load(journal.path)


def test_series_beside_the_journal_go_along_with_the_same_other_devices(tmp_path):
    records = make_launches(make_case(device_kind="gpu"), [100.0, 110.0])
    bundle.pack(with_series(tmp_path, records), tmp_path / "x.gpubench.zip")
    paths = bundle.unpack(tmp_path / "x.gpubench.zip", tmp_path / "out")
    [journal] = [path for path in paths if path.suffix == ".jsonl"]
    for record, read in zip(records, store.load(journal).records, strict=True):
        [before], [after] = record.telemetry.devices, series.restore(read.telemetry, tmp_path / "out").devices
        assert after.series == before.series
        assert after.id == read.devices[0].id != before.id


def test_series_that_are_gone_or_broken_are_left_out_with_a_warning(tmp_path):
    run = with_series(tmp_path, make_launches(make_case(), [100.0, 110.0, 120.0]))
    first, second = (tmp_path / "box" / record.telemetry.series_file for record in run.records[:2])
    first.unlink()
    second.write_bytes(b"PAR1 no more")
    (warning,) = bundle.pack(run, tmp_path / "x.gpubench.zip").warnings
    assert warning.startswith("packed without the series of 2 of 3 launches: Cannot read the series in ")
    paths = bundle.unpack(tmp_path / "x.gpubench.zip", tmp_path / "out")
    [journal] = [path for path in paths if path.suffix == ".jsonl"]
    files = [record.telemetry.series_file for record in store.load(journal).records]
    assert files == [None, None, "0001_first.series/00002.parquet"]
    assert (tmp_path / "out" / files[2]).is_file()


def test_what_is_too_large_to_be_read_again_is_not_written(tmp_path, monkeypatch):
    run = saved(tmp_path, make_launches(make_case(), [100.0]))
    monkeypatch.setattr(container, "LARGEST_FILE", 100)
    with pytest.raises(UsageError, match="too large to be packed"):
        bundle.pack(run, tmp_path / "x.gpubench.zip")
    assert not (tmp_path / "x.gpubench.zip").exists()


@pytest.mark.parametrize("in_the_way", [os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)])
def test_what_is_no_file_is_neither_read_nor_replaced(tmp_path, packed, in_the_way):
    (tmp_path / "x.gpubench.zip").write_bytes(packed)
    in_the_way(tmp_path / "0001_first.jsonl")
    with pytest.raises(UsageError, match="is there already and is another file"):
        bundle.unpack(tmp_path / "x.gpubench.zip", tmp_path)


@pytest.mark.parametrize("name", ["../x.parquet", "a/b/x.parquet", ".a/x.parquet", "a/.x.parquet", "a\\..\\x.parquet"])
def test_a_member_may_lie_in_one_folder_and_nowhere_else(tmp_path, name):
    run = saved(tmp_path, make_launches(make_case(), [100.0]))
    bundle.pack(run, tmp_path / "x.gpubench.zip")
    manifest, members, _ = container.read(tmp_path / "x.gpubench.zip")
    (tmp_path / "y.gpubench.zip").write_bytes(container.sealed(manifest, {**members, name: b""}))
    with pytest.raises(UsageError, match="cannot be the name of a member"):
        bundle.unpack(tmp_path / "y.gpubench.zip", tmp_path / "out")


def test_verifications_of_the_same_cases_in_the_same_software_go_along(tmp_path):
    [record] = make_launches(make_case(), [100.0])
    own = verification(record.software)
    for each in (own, verification({"torch": "0"}), replace(own, n_devices=8), replace(own, workload="mlp")):
        verified.save(each, tmp_path)
    bundle.pack(saved(tmp_path, [record]), tmp_path / "x.gpubench.zip")
    _, found = bundle.load(tmp_path / "x.gpubench.zip", store.load)
    assert found == [own]


@pytest.mark.parametrize("private", ["torch", "resnet20", "single", "loss", "reference"])
def test_a_host_that_is_called_like_a_part_of_a_verification_takes_nothing_of_it_along(tmp_path, private):
    [record] = make_launches(make_case(), [100.0], machine=make_machine(name=private))
    own = verification(record.software)
    verified.save(own, tmp_path)
    bundle.pack(saved(tmp_path, [record]), tmp_path / "x.gpubench.zip")
    _, [found] = bundle.load(tmp_path / "x.gpubench.zip", store.load)
    assert replace(found, findings=[]) == replace(own, findings=[])
    assert [each.name for each in found.findings] == ["first loss", "weights"]


ABOUT = "verified-0123456789abcdef.json"


def members_of(records, about: list[Verification], name: str = "0001_first") -> dict[str, bytes]:
    """Of a bundle that says so of its run."""
    lines = "".join(to_json(record) + "\n" for record in records)
    written = {f"verified-{each.fingerprint}.json": verification_to_json(each).encode() for each in about}
    return {f"{name}.jsonl": lines.encode(), **written}


def refused(tmp_path: Path, content: bytes, match: str) -> None:
    """By `unpack` and by all that reads bundles; nothing is written."""
    path, out = tmp_path / "x.gpubench.zip", tmp_path / "out"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=match):
        bundle.unpack(path, out)
    assert not out.exists()
    with pytest.raises(UsageError, match=match):
        bundle.load(path, store.load)


@pytest.mark.parametrize(
    "other", [{"workload": "mlp"}, {"framework": "mxnet"}, {"n_devices": 8}, {"device_kind": "gpu"}, {"software": {}}]
)
def test_a_bundle_with_a_verification_of_another_run_is_refused(tmp_path, other):
    [record] = make_launches(make_case(), [100.0])
    own = verification(record.software)
    another = replace(own, **({"software": {**own.software, "torch": "0"}} if "software" in other else other))
    refused(tmp_path, sealed(members_of([record], [own, another])), "holds verifications of another run")


@pytest.mark.parametrize("name", ["verified-.json", "verified-x.json", "verified-../x.json", "x.json", f"{ABOUT}.json"])
def test_a_verification_has_a_name_as_pack_gives_it(tmp_path, name):
    members = members_of(make_launches(make_case(), [100.0]), [])
    refused(tmp_path, sealed({**members, name: b"{}"}), "is no file of a run|cannot be the name of a member")


@pytest.mark.parametrize("content", [b"", b"{}", b"[" * 100_000, b'{"schema": 1, "schema": 1}'])
def test_what_is_called_a_verification_and_is_none_is_refused(tmp_path, content):
    members = members_of(make_launches(make_case(), [100.0]), [])
    refused(tmp_path, sealed({**members, ABOUT: content}), "is no verification")


def test_more_verifications_than_a_run_has_are_refused_before_they_are_read(tmp_path):
    members = members_of(make_launches(make_case(), [100.0]), [])
    many = {f"verified-{number:016x}.json": b"{}" for number in range(bundle.MOST_VERIFICATIONS + 1)}
    refused(tmp_path, sealed({**members, **many}), "more verifications than a run may have")


def test_no_bundle_vouches_for_a_run_beside_it(tmp_path):
    records = make_launches(make_case(), [100.0, 101.0])
    about = [
        replace(verification(records[0].software, strategy), findings=make_findings(strategy))
        for strategy in (None, "single")
    ]
    (tmp_path / "a.gpubench.zip").write_bytes(sealed(members_of(records, about, "0001_a")))
    (tmp_path / "b.gpubench.zip").write_bytes(sealed(members_of(records, [], "0001_b")))
    for name in "ab":
        bundle.unpack(tmp_path / f"{name}.gpubench.zip", tmp_path / "out")
    for load in (store.load, reducing.load):
        shown = [summarize_runs([load(tmp_path / "out" / f"0001_{name}.jsonl")])[0].verification for name in "ab"]
        assert shown == ["verified", "not verified"]
    assert bundle.load(tmp_path / "b.gpubench.zip", store.load)[0].verifications == []
    again = bundle.pack(store.load(tmp_path / "out" / "0001_a.jsonl"), tmp_path / "again.gpubench.zip")
    assert sum(name.startswith("verified-") for name in again.members) == 2


@pytest.mark.parametrize("within", ["0001_first.series", "0001_first.verified"])
def test_unpacking_writes_through_no_link(tmp_path, within):
    [record] = make_launches(make_case(), [100.0])
    members = members_of([record], [verification(record.software)])
    (tmp_path / "x.gpubench.zip").write_bytes(sealed({**members, "0001_first.series/00000.parquet": b""}))
    for name in ("outside", "out"):
        (tmp_path / name).mkdir()
    (tmp_path / "out" / within).symlink_to("../outside")
    with pytest.raises(UsageError, match=f"Cannot write to .*{within}: it is a link"):
        bundle.unpack(tmp_path / "x.gpubench.zip", tmp_path / "out")
    assert list((tmp_path / "outside").iterdir()) == []
    assert not (tmp_path / "out" / "0001_first.jsonl").exists()


@pytest.mark.parametrize("content", [b"", b"\n", b"{}\n", b"mine\nand yours\n", b"mine"])
def test_a_run_without_a_record_is_refused(tmp_path, content):
    refused(tmp_path, sealed({"x.jsonl": content}), r"x\.gpubench\.zip holds no readable record")


@pytest.mark.parametrize("records", [0, 1, 4, -1, float("nan"), 3.0, True, None, "3", 10**9])
def test_a_manifest_that_contradicts_its_journal_is_refused(tmp_path, records):
    members = members_of(make_launches(make_case(), [100.0, 101.0, 99.0]), [])
    (tmp_path / "honest.zip").write_bytes(sealed(members))
    bundle.unpack(tmp_path / "honest.zip", tmp_path / "fine")
    refused(tmp_path, sealed(members, records=records), "contradicts itself|does not tell records|no journal has")


def test_the_run_and_its_series_have_the_name_that_the_manifest_says(tmp_path):
    members = members_of(make_launches(make_case(), [100.0]), [])
    refused(tmp_path, sealed(members, run="another"), "its run is another")
    refused(tmp_path, sealed({**members, "another.series/00000.parquet": b""}), "is no file of a run")


def verification(software: dict[str, str], strategy: str | None = "single") -> Verification:
    return Verification(
        workload="resnet20",
        framework="torch",
        strategy=strategy,
        device_kind="cpu",
        n_devices=1,
        software=software,
        compared_with=["reference"] if strategy else [],
        verified_at="2026-01-01T00:00:00+00:00",
        findings=[each for each in make_findings("single") if each.name in ("first loss", "weights")],
    )
