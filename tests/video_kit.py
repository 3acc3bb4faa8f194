"""Small videos whose frames tell their number, so that a test knows which frame it sees."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path

import av
import numpy as np
from numpy.typing import NDArray
from PIL import Image

SIZE = (64, 48)
FRAMES_A_SECOND = 10
_BARS = 8


def drawn(number: int, *, seed: int = 0) -> NDArray[np.uint8]:
    """A frame: a bar for each binary digit of its number above, and below a texture of its own."""
    width, height = SIZE
    bits = [number >> bit & 1 for bit in range(_BARS)]
    bars = np.repeat(np.where(bits, 235, 20).astype(np.uint8), width // _BARS)
    texture = np.random.default_rng([seed, number]).integers(60, 200, (height // 8, width // 8, 3), np.uint8)
    frame = np.kron(texture, np.ones((8, 8, 1), np.uint8))
    frame[: height // 2] = bars[:, None]
    return frame


def number_in(image: Image.Image) -> int:
    """The number that the bars of an upright frame tell."""
    width, height = image.size
    row = np.asarray(image.convert("L"))[height // 4]
    return sum(int(row[width * (2 * bit + 1) // (2 * _BARS)] > 128) << bit for bit in range(_BARS))


def write_video(
    file: Path,
    n_frames: int = 60,
    *,
    codec: str = "libx264",
    options: dict[str, str] | None = None,
    millis: Sequence[int] | None = None,
    rotation: int | None = None,
    sound_only: bool = False,
    seed: int = 0,
) -> Path:
    """Write a video, by default with 10 frames a second, a keyframe every 2 s, and frames out of order.

    `millis` gives the time of each frame in milliseconds; `rotation` turns it counterclockwise when shown.
    """
    file.parent.mkdir(parents=True, exist_ok=True)
    with av.open(str(file), "w") as container:
        if sound_only:
            sound = container.add_stream("pcm_s16le", rate=8000)
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.int16), format="s16", layout="mono")
            frame.sample_rate = 8000
            container.mux([*sound.encode(frame), *sound.encode()])
            return file
        stream = container.add_stream(codec, rate=FRAMES_A_SECOND, options=options or OPTIONS.get(codec, {}))
        stream.width, stream.height = SIZE
        stream.pix_fmt = "yuvj420p" if codec == "mjpeg" else "yuv420p"
        stream.codec_context.time_base = Fraction(1, 1000) if millis else Fraction(1, FRAMES_A_SECOND)
        if rotation is not None:
            stream.set_display_rotation(rotation)
        for number in range(n_frames):
            picture = av.VideoFrame.from_ndarray(drawn(number, seed=seed), format="rgb24")
            picture.pts = millis[number] if millis else number
            picture.time_base = stream.codec_context.time_base
            container.mux(stream.encode(picture))
        container.mux(stream.encode())
    return file


OPTIONS = {
    "libx264": {"g": "20", "bf": "3", "sc_threshold": "0", "threads": "1"},
    "mpeg4": {"g": "20", "bf": "2"},
    "mpeg2video": {"g": "12", "bf": "2"},
    "libvpx-vp9": {"g": "20", "cpu-used": "8"},
}


def decoded(file: Path) -> list[Image.Image]:
    """All frames of a video, by a plain script that decodes it from its beginning."""
    with av.open(str(file)) as container:
        return [frame.to_image() for frame in container.decode(video=0)]
