"""What leaves the house in a bundle: nothing private in any of the places and spellings in which it was seen."""

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpubench.files.redaction import Redactor, redact
from gpubench.spec.errors import UsageError
from gpubench.spec.record import as_dict
from gpubench.spec.secrets import is_secret_name, without_secrets
from tests.builders import make_case, make_launches, make_machine

# Made up, in the shapes that their issuers publish; put together here so that no scanner of this repository minds.
TOKENS = [
    "gh" + "p_" + "a1B2" * 9,
    "github" + "_pat_" + "11ABCDEFG0" * 4,
    "gl" + "pat-" + "abcdefghij1234567890",
    "AK" + "IAIOSFODNN7EXAMPLE",
    "xo" + "xb-123456789012-abcdefghijkl",
    "h" + "f_abcdefghijklmnopqrstuvwxyzABCDEFGH",
    "s" + "k-proj-abcdefghijklmnopqrstuvwx",
    "s" + "k-ant-api03-abcdefghijklmnopqrstuvwx",
    "nva" + "pi-abcdefghijklmnopqrstuvwxyz012345",
    "AI" + "za" + "B" * 35,
    "s" + "k_live_abcdefghijklmnop",
    "np" + "m_" + "a" * 36,
    "py" + "pi-AgEIcHlwaS5vcmc" + "C" * 40,
    "py" + "pi-AgEIcHlwaS5vcmcCJDAxMjM0NTY3",
    "S" + "K0123456789abcdef0123456789abcdef",
    "123456789" + ":AAHdqTcvCH1vGWJxfSeofSAs0K5PALDsaw",
    "AAAA" + "B3NzaC1yc2EAAAADAQABAAABgQC7",
    "wJal" + "rXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEZ",
    "Z2hw" + "X0ExYjJDM2Q0RTVBMWIyQzNkNEU1QTFiMkMzZDRFNWY2RzdoOA==",
    "ey" + "JhbGciOiJIUzI1NiJ9.ey" + "JzdWIiOiIxMjM0In0.dozjgNryP4J3jVmN",
]
PUT = ["{}", "export HF={}", "login failed for '{}'", "x{{{}}}y", "Authorization: Bearer {}", "url?t={}&b=1"]


@pytest.mark.parametrize("token", TOKENS)
@pytest.mark.parametrize("sentence", PUT)
def test_a_token_of_a_known_shape_goes_wherever_it_stands(token, sentence):
    assert token[4:] not in without_secrets(sentence.format(token))


@pytest.mark.parametrize(
    "text",
    [
        "password=hunter2-x",
        "Password: hunter2-x",
        "PASSWD = 'hunter2-x'",
        '{"password": "hunter2-x", "a": 1}',
        "--password hunter2-x --epochs 3",
        "--token hunter2-x",
        "--token=hunter2-x",
        "-api-key hunter2-x",
        "Authorization: Basic hunter2-xhunter2-x",
        "Bearer hunter2-x.abc",
        "db_password => hunter2-x",
        "WANDB_API_KEY=hunter2-x",
        "AWS_SECRET_ACCESS_KEY: hunter2-x",
        "mysql://ada:hunter2-x@db/x",
        "passphrase=correct hunter2-x horse",
        "Cookie: a=b; session=hunter2-x",
        "userPassword: hunter2-x",
        "passwd is hunter2-x",
        "mysql -u root -phunter2-x",
        "sshpass -p hunter2-x ssh host",
        "curl -u ada:hunter2-x",
        "docker login -u ada -p hunter2-x reg",
        "redis-cli -h box -a hunter2-x ping",
        "machine api.example login ada password hunter2-x",
        "aws configure set aws_secret_access_key hunter2-x",
        r"{\"password\": \"hunter2-x\"}",
        'password="a\\"hunter2-x"',
        '"auth": "hunter2-x"',
        "_authToken=hunter2-x",
        "?sig=hunter2-x%2Fdef&se=2027",
        "MY_SECRET_THING=hunter2-x",
        "-----BEGIN PGP PRIVATE KEY BLOCK-----\nhunter2-x\n-----END PGP PRIVATE KEY BLOCK-----",
        "hunter2-x\n-----END OPENSSH PRIVATE KEY-----",
        "-----BEGIN RSA PRIVATE KEY-----\nhunter2-x\n-----END RSA PRIVATE KEY-----",
        "-----BEGIN PRIVATE KEY-----\nhunter2-x",
    ],
)
def test_a_value_that_follows_the_name_of_a_secret_goes(text):
    assert "hunter2-x" not in without_secrets(text)


@pytest.mark.parametrize(
    "text",
    [
        "token embeddings of 50257 x 768",
        "passed 3 of 4; 12 tokens/s",
        "the key is missing: KeyError: 'model'",
        "resnet50-torch-ddp-2x128-fp32 at 45.2 samples/s",
        "RuntimeError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "basic block, bearer channel",
        "forward pass: 12.3 ms",
        "the password is incorrect",
        "_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15CUDAFunctor_addIfEESt5arrayIPcLm3EEEEviT0_T1_",
        "GPTNeoX20BForSequenceClassificationWithPooledHiddenStates",
        "docker run --user 1000:1000 -p 80:80",
        "set password to what the page says",
    ],
)
def test_what_only_speaks_of_such_things_stays(text):
    assert without_secrets(text) == text


@pytest.mark.parametrize(
    "name", ["HF_TOKEN", "WANDB_API_KEY", "db_password", "MYSQL_PWD", "AWS_ACCESS_KEY_ID", "HTTP_AUTH"]
)
def test_names_of_secrets_are_known(name):
    assert is_secret_name(name)


@pytest.mark.parametrize("name", ["OMP_NUM_THREADS", "PWD_DEPTH", "TORCH_COMPILE", "NCCL_P2P_DISABLE", "PASSES"])
def test_other_names_are_none(name):
    assert not is_secret_name(name)


def redacted(text: str, name: str = "nodename17.corp.example", **environment: str) -> str:
    """What is left of a line of a log, on a machine of that name."""
    [record] = make_launches(make_case(), [100.0], machine=make_machine(name=name))
    body = as_dict(record)
    body["environment"] = environment
    body["outcome"]["log_tail"] = [text]
    [made] = redact([body])
    return json.dumps(made)


@pytest.mark.parametrize(
    ("text", "private"),
    [
        ("NODENAME17 is down", "NODENAME17"),
        ("Nodename17.Corp.Example is down", "Nodename17"),
        ("id 3f2c1a9e-0b7d-4c55-9a7e-0123456789ab", "3f2c1a9e"),
        ("key 0123456789abcdef0123456789abcdef01234567", "89abcdef"),
        ("Serial Number: PF2ABCDE", "PF2ABCDE"),
        ("S/N: ABCDEF", "ABCDEF"),
        ("serial_number=1320921034567", "1320921034567"),
        ("service tag: 7XKJ2", "7XKJ2"),
        (r"open \\filer\ada\x.bin failed", "filer"),
        (r"open \\filer\ada\x.bin failed", "ada"),
        ("open ../ada/x.bin failed", "ada"),
        ("open ./ada/x.bin failed", "ada"),
        ("open home/ada/x.bin failed", "ada"),
        ("open ~ada/x.bin failed", "ada"),
        ("get %2Fhome%2Fada%2Fx.bin", "ada"),
        ("get file%3A%2F%2F%2Fhome%2fada", "ada"),
        ("arp 001b.4411.3ab7 is up", "4411"),
        ("guid 0002:c903:000e:0b72", "0b72"),
        ("node3.lab.internal refused", "lab.internal"),
        ("node3.cluster.corp.example refused", "example"),
        ("get postgres://svc:pw@db9.internal:5432/z", "db9"),
        ("get https://h/x?token=abc&account=ada", "ada"),
        ("get abc%2Fdef%3D", "abc"),
        ("SLURM_JOB_USER=ada", "ada"),
        ("LOGNAME=ada", "ada"),
        ("SLURM_JOB_NODELIST=zulu[01-04]", "zulu"),
        ("uid=ada,ou=people,dc=corp", "ada"),
        ("uid=ada,ou=people,dc=corp", "people"),
        ("uid=1000(ada) gid=1000(adas)", "ada"),
        ("user='ada'", "ada"),
        ("GET /v2/x?user=ada&n=1", "ada"),
        ("Username: ada", "ada"),
        ("node login: ada", "ada"),
        ("docker login -u ada reg", "ada"),
        ("pass\x1b[0mword=ada", "ada"),
        ("pass\ufffd[1;31mword=ada", "ada"),
        ("gh\u200bp_" + "a1B2" * 9, "a1B2"),
        ("pass\ufffdword=ada", "ada"),
        ("ada\uff20corp", "ada"),
        ("other9:1234:1250 [0] NCCL INFO Bootstrap", "other9"),
    ],
)
def test_what_names_someone_goes_in_every_spelling(text, private):
    assert private in text
    assert private not in redacted(text)


@pytest.mark.parametrize(
    ("variables", "private"),
    [
        ({"MASTER_ADDR": "head01"}, "head01"),
        ({"SLURM_JOB_NODELIST": "gpu[07-09,12],login1"}, "gpu08"),
        ({"SLURM_JOB_NODELIST": "gpu[07-09,12],login1"}, "gpu12"),
        ({"SLURM_JOB_NODELIST": "gpu[07-09,12],login1"}, "login1"),
        ({"DMLC_PS_ROOT_URI": "http://ps-7:9000"}, "ps-7"),
    ],
)
def test_the_other_hosts_of_a_gang_go_from_logs_too(variables, private):
    assert private not in redacted(f"rank 1 on {private} died", **variables)


KEY = [
    "-----BEGIN RSA PRIVATE" + " KEY-----",
    "MIIEowIBAAKCAQEAu1SU1Lf",
    "short==",
    "-----END RSA PRIVATE" + " KEY-----",
]


@pytest.mark.parametrize(("first", "last"), [(0, 4), (1, 4), (0, 3)])
def test_a_private_key_on_several_lines_of_a_log_goes_whole_and_the_lines_stay_as_many(first, last):
    [record] = make_launches(make_case(), [100.0])
    body = as_dict(record)
    before, after = (["it began"] if first == 0 else []), (["it ended"] if last == 4 else [])
    body["outcome"]["log_tail"] = before + [f"[rank 0] {line}" for line in KEY[first:last]] + after
    tail = redact([body])[0]["outcome"]["log_tail"]
    assert len(tail) == len(body["outcome"]["log_tail"])
    assert tail[: len(before)] + tail[len(tail) - len(after) :] == before + after
    assert not [line for line in tail if "MII" in line or "short" in line or "PRIVATE" in line]


def test_a_user_whom_a_text_or_a_variable_names_goes_wherever_he_stands():
    assert "adalove" not in redacted("started by adalove; SLURM_JOB_USER=adalove")
    assert "adalove" not in redacted("started by adalove", SLURM_JOB_USER="adalove")
    assert "rank 1 of torch" in redacted("rank 1 of torch", PIP_USER="1")


def test_times_and_numbers_of_users_stay():
    text = "scputimes(user=12.3, uid=1000), conv(groups=32, user=None, login=True, dc=3), user: expected int"
    assert text in redacted(text)


def test_a_host_called_like_a_thing_of_ours_takes_only_its_own_spelling_with_it():
    left = redacted("gpu is down; CUDA error on GPU 0", name="gpu")
    assert "CUDA error on GPU 0" in left
    assert "gpu is down" not in left


def test_paths_and_hosts_go_from_keys_and_from_versions():
    [record] = make_launches(make_case(), [100.0], machine=make_machine(name="nodename17"))
    body = as_dict(record)
    body["software"] = {"torch": "2.13.0 (/home/ada/torch, nodename17)", "nccl": "2.18.3.1"}
    body["telemetry"]["devices"][0]["unavailable"] = {"/home/ada/a": "x", "/home/ada/b": "y"}
    [made] = redact([body])
    assert made["software"] == {"torch": f"2.13.0 (<path>, {made['machine']['name']})", "nccl": "2.18.3.1"}
    assert made["telemetry"]["devices"][0]["unavailable"] == {"<path>": "x", "<path> (2)": "y"}


@settings(max_examples=200, deadline=None, derandomize=True)
@given(st.text(max_size=200))
def test_any_text_is_redacted_and_redacting_twice_changes_nothing(text):
    once = without_secrets(text)
    assert without_secrets(once) == once


@pytest.mark.parametrize(
    "piece",
    ["a1", "a_", "a.b-", "a-", "a@", "a:", "a.", "'/", "\\\\a\\", "%2F%3A", "password=", "/home/a/"]
    + [
        "A_",
        "Aa0/",
        "mysql ",
        "uid=a",
        "a%",
        "\x1b[",
        "\x1b]",
        "-----BEGIN PRIVATE KEY-----",
        "-----BEGIN A",
        'pass="\\"',
    ]
    + [
        "a.com.",
        "http://<redacted>",
        "-a-",
        "password is ",
        "auth=",
        "login a ",
        "set a",
        "login ",
        "redis-cli ",
        "END PRIVATE KEY-----",
        "A_USER=a",
    ],
)
def test_a_text_four_times_as_long_takes_no_sixteen_times_as_long(piece):
    redactor = Redactor([])

    def seconds(length: int) -> float:
        text = piece * (length // len(piece))
        return min(_timed(lambda: redactor.text(text)) for _ in range(3))

    assert seconds(40_000) < 10 * seconds(10_000) + 0.05


def _timed(work) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def test_a_record_of_very_many_texts_is_refused_instead_of_searched():
    [record] = make_launches(make_case(), [100.0])
    body = as_dict(record)
    body["outcome"]["log_tail"] = ["x"] * 1_000_000 + [f"line {i}" for i in range(20_000)]
    with pytest.raises(UsageError, match="over 20,000 different texts"):
        redact([body])
