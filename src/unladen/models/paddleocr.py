"""PaddleOCR-VL (Baidu 2025), text part."""

from unladen.models._parts.decoder import Decoder


class PaddleOcr(Decoder):
    """NeoX rotary embedding: for text all sections of a position are equal."""

    arch = "paddleocr"
    rope_style = "neox"
