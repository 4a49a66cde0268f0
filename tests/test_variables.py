"""A record tells of every variable that a framework may read, and of no secret."""

import json
import os

import pytest

from gpubench.worker.variables import HIDDEN, recorded


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ATEN_CPU_CAPABILITY", "default"),
        ("ONEDNN_MAX_CPU_ISA", "SSE41"),
        ("DNNL_MAX_CPU_ISA", "AVX512_CORE_AMX"),
        ("TORCHDYNAMO_DISABLE", "1"),
        ("PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True,max_split_size_mb:512,garbage_collection_threshold:0.8"),
        ("TF_AUTO_MIXED_PRECISION_GRAPH_REWRITE_LEVEL", "UNSAFE_FORCE_ALL"),
        ("TF_SET_ONEDNN_FPMATH_MODE", "BF16"),
        ("XLA_FLAGS", "--xla_gpu_enable_latency_hiding_scheduler=true --xla_gpu_autotune_level=2"),
        ("KERAS_HOME", "/dev/null"),
        ("CUDA_VISIBLE_DEVICES", "GPU-0a1b2c3d-0000-1111-2222-0123456789ab,MIG-0a1b2c3d-0000-1111-2222-0123456789ab"),
        ("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "50"),
        ("GLIBC_TUNABLES", "glibc.malloc.tcache_count=0:glibc.cpu.hwcaps=-AVX2_Usable"),
        ("MALLOC_ARENA_MAX", "1"),
        ("LD_PRELOAD", "/home/me/anaconda3/envs/Torch2WithJemalloc/lib/libjemalloc.so.2"),
        ("HSA_OVERRIDE_GFX_VERSION", "10.3.0"),
        ("UCX_TLS", "tcp"),
        ("FI_PROVIDER", "efa"),
        ("PYTHONHASHSEED", "0"),
        ("MXNET_CPU_WORKER_NTHREADS", "1"),
        ("OPENBLAS_CORETYPE", "Haswell"),
        ("KMP_BLOCKTIME", "0"),
    ],
)
def test_a_variable_that_may_matter_is_recorded(name, value):
    assert recorded({name: value, "HOME": "/home/me"}) == {name: value}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TF_VAR_password", "hunter2"),
        ("TF_TOKEN_app_terraform_io", "abc"),
        ("TF_CLI_CONFIG_FILE", "/home/me/.terraformrc"),
        ("TF_HTTP_PASSWORD", "hunter2"),
        ("TF_LOG", "TRACE"),
        ("TF_DATA_DIR", "/home/me/.terraform"),
        ("AWS_SECRET_ACCESS_KEY", "abc"),
        ("HF_TOKEN", "abc"),
        ("WANDB_API_KEY", "abc"),
        ("HOME", "/home/me"),
    ],
)
def test_a_variable_of_somebody_else_is_not(name, value):
    assert recorded({name: value}) == {}


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("TORCH_HUB_TOKEN", "abc"),
        ("NVIDIA_API_KEY", "abc"),
        ("XLA_ACCESS_KEY", "abc"),
        ("MXNET_DB_PASSWORD", "abc"),
        ("PYTHON_AUTH", "abc"),
        ("CUDA_PRIVATE_KEY_FILE", "abc"),
        ("PYTHON_INDEX", "https://me:hunter2@example.org/simple"),
        ("TORCH_X", "ghp_0123456789abcdefghijABCDEFGHIJ"),
        ("TORCH_X", "sk-0123456789abcdefghij"),
        ("NCCL_X", "AKIA0123456789ABCDEF"),
        ("KERAS_X", "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl"),
        ("LD_X", "5f4dcc3b5aa765d61d8327deb882cf99"),
    ],
)
def test_of_what_may_be_a_secret_only_that_it_is_set(name, value):
    found = recorded({name: value})
    assert found == {name: HIDDEN}
    assert value not in json.dumps(found)


def test_bytes_that_are_no_text_and_values_without_end_can_still_be_written():
    found = recorded({"LD_X": os.fsdecode(b"a\xff"), "LD_Y": "x-" * 100_000})
    assert found["LD_X"] == "a\N{REPLACEMENT CHARACTER}"
    assert len(found["LD_Y"]) == 2000
    json.dumps(found).encode("utf-8")
