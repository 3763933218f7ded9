import json
from pathlib import Path

import pytest

from engine_sim.command_line import CannotStart, read
from engine_sim.faults import Faults
from engine_sim.settings import Settings

TINY = {
    "hidden_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "intermediate_size": 192,
    "vocab_size": 1024,
    "tie_word_embeddings": True,
    "max_position_embeddings": 8192,
}


def told(*words: str, **environment: str) -> Settings:
    return read(["owner/model", *words], environment)


@pytest.fixture
def model(tmp_path: Path) -> Path:
    (tmp_path / "config.json").write_text(json.dumps(TINY))
    return tmp_path


def test_flags_may_be_written_with_underscores_equals_signs_and_units() -> None:
    settings = told("--max_model_len=4k", "--kv-cache-memory-bytes", "1G", "--max-num-seqs=7")
    assert (settings.context, settings.kv_cache_bytes, settings.limits.sequences) == (4000, 2**30, 7)


def test_a_flag_that_vllm_does_not_know_ends_the_process_with_status_2(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        told("--max-model-lenght", "4096")
    assert ended.value.code == 2
    assert "unrecognized arguments: --max-model-lenght" in capsys.readouterr().err


def test_the_model_is_called_by_its_path_unless_it_has_a_name() -> None:
    assert told().served_names == ("owner/model",)
    assert told("--served-model-name", "a", "b").served_names == ("a", "b")


def test_a_model_in_a_folder_has_the_size_that_its_configuration_gives(model: Path) -> None:
    settings = read([str(model), "--kv-cache-memory-bytes", "64M"], {})
    assert settings.model.kv_bytes_per_token == 512
    assert settings.model.parameters == pytest.approx(172_000, rel=0.01)
    assert settings.context == 8192
    assert settings.kv_blocks * settings.limits.block_size == 2**26 // 512


@pytest.mark.parametrize(
    ("words", "saying"),
    [
        (("--max-model-len", "200000"), "greater than the derived max_model_len"),
        (("--max-model-len", "2048", "--long-prefill-token-threshold", "4096"), "long_prefill_token_threshold"),
        (("--max-model-len", "8192", "--kv-cache-memory-bytes", "512M"), "estimated maximum model length is 4096"),
        (("--sim-slice", "1g.10gb"), "No available memory for the cache blocks"),
    ],
)
def test_settings_that_cannot_work_are_refused_with_the_reason(words: tuple[str, ...], saying: str) -> None:
    with pytest.raises(CannotStart, match=saying):
        told(*words)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CannotStart, match=r"config\.json is missing"):
        read([str(tmp_path)], {})


def test_a_configuration_that_describes_no_model_is_refused(tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text('{"hidden_size": "large"}')
    with pytest.raises(CannotStart, match="does not describe a model"):
        read([str(tmp_path)], {})


def test_faults_come_as_json_and_a_misspelt_one_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert told("--sim-faults", '{"hangs_after": 9}').faults == Faults(hangs_after=9)
    with pytest.raises(SystemExit):
        told("--sim-faults", '{"hang_after": 9}')
    assert "hang_after" in capsys.readouterr().err


def test_the_api_key_may_come_from_the_environment() -> None:
    assert told(VLLM_API_KEY="secret").api_keys == ("secret",)
