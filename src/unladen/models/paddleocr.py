"""PaddleOCR-VL (Baidu 2025), text part."""

from unladen.models._parts.decoder import Decoder


class PaddleOcr(Decoder):
    """Rotation of half-way pairs: for text the sections of a position are equal."""

    arch = "paddleocr"
    rope_style = "neox"
