"""Reading of videos with PyAV: the times of all frames, and single frames.

The keyframe of a frame is the frame itself if it is a keyframe, otherwise the last keyframe that is shown
before the frame. Decoding of a frame always begins at its keyframe. The pixels therefore don't depend on what
was read before, and a damaged frame affects only the frames up to the next keyframe. Readers keep their
position, so frames that are read in order are decoded only once.

Only formats that are a single file are opened, so that a playlist can't lead to other files or addresses.
"""

from __future__ import annotations

import errno
import threading
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import closing, contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.sources.base import UnreadableImageError
from closecall.core.sources.images import MAX_PIXELS

MOST_READERS = 8
"""Maximum number of videos that all threads together keep open for further frames."""

_FORMATS = "mov,matroska,avi,mpegts,mpeg,flv,asf,ogg,mxf"
_MOST_RECENT, _MOST_RECENT_BYTES = 16, 32 << 20
"""Maximum number, and maximum total bytes, of the decoded frames that a reader keeps for other threads."""

_MOST_LATE = 32
"""Number of later frames after which a frame counts as missing. Codecs reorder at most 16 frames."""
_CUT_SECONDS = 1
_FFMPEG_ERRORS = 1 << 16
_STEPS_BACK = (0, 2, 20)
"""Number of seconds before a keyframe at which reading begins. If seeking leads beyond the keyframe, the next
number is tried.
"""

_NEAR_SECONDS = 2
"""If a keyframe is at most this many seconds ahead, the reader reads on to it instead of seeking."""


EMPTY, NOT_A_VIDEO, NO_PICTURES, NO_CODEC, NO_TIMES = -10, -11, -12, -13, -14
REASONS = {
    EMPTY: "the file is empty",
    NOT_A_VIDEO: "it is damaged, or no video of a supported format",
    NO_PICTURES: "it has no pictures, only sound or text",
    NO_CODEC: "its codec is not supported",
    NO_TIMES: "it has no frames with times, as a raw stream or a broken file",
}
"""Reasons why a video can't be used at all."""


class UnusableVideoError(UnreadableImageError):
    """Error for a video that can't be used at all. `code` is a key of `REASONS`."""

    def __init__(self, code: int) -> None:
        super().__init__(REASONS[code])
        self.code = code


class Timeline(NamedTuple):
    """The frames of a video, in the order in which they are shown. Times are in units of `time_base`.

    Attributes
    ----------
    shown : array of shape (n_frames,), int64
        Presentation time of each frame, strictly ascending.
    keyframes : array of shape (n_frames,), int64
        Presentation time of the keyframe from which to decode each frame.
    end : int
        Time at which the last frame ends.
    time_base : Fraction
        Unit of times, in seconds.
    is_cut : bool
        Whether the file ends, or becomes unreadable, before the end of the video that its header states.
    """

    shown: NDArray[np.int64]
    keyframes: NDArray[np.int64]
    end: int
    time_base: Fraction
    is_cut: bool


def read_timeline(file: Path) -> Timeline:
    """Read the times at which the frames of a video are shown, without decoding the frames.

    Raises
    ------
    UnusableVideoError
        If the file is no video of a supported format, or its frames have no times.
    InputError
        If the file can't be read, or PyAV is not installed.
    """
    av = _av()
    with closing(_open(file)) as container:
        stream = _stream_of(container)
        packets, reached, is_cut = [], 0.0, False
        try:
            for packet in container.demux():
                if packet.pts is None or not packet.size:
                    continue
                reached = max(reached, float((packet.pts + (packet.duration or 0)) * packet.time_base))
                if packet.stream_index == stream.index and not (packet.is_discard and not packet.is_keyframe):
                    packets.append((packet.pts, packet.duration or 0, packet.is_keyframe, packet.is_discard))
        except av.error.FFmpegError:
            is_cut = True
        if container.duration is not None:
            # Durations are counted from the start in some formats, and from 0 in others.
            reached -= min(0, container.start_time or 0) / av.time_base
            is_cut |= container.duration / av.time_base - reached > _CUT_SECONDS
        time_base = stream.time_base
    if not packets:
        raise UnusableVideoError(NO_TIMES)
    shown, durations, is_key, is_hidden = np.array(packets, dtype=np.int64).T
    keyframes = np.unique(shown[is_key > 0] if is_key.any() else shown[:1])
    visible = (is_hidden == 0) & (shown >= keyframes[0])
    if not visible.any():
        raise UnusableVideoError(NO_TIMES)
    end = int((shown + durations)[visible].max())
    shown = np.unique(shown[visible])
    of_each = keyframes[np.searchsorted(keyframes, shown, side="right") - 1]
    return Timeline(shown, of_each, max(end, int(shown[-1]) + 1), time_base, is_cut)


class VideoReaders:
    """Readers of frames, shared by all threads. The most recently used readers stay open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._readers: list[_Reader] = []

    def image(self, file: Path, keyframe: int, shown: int, wanted: Collection[int]) -> Image.Image:
        """Return a frame, upright, in mode RGB.

        Parameters
        ----------
        file : Path
            The video.
        keyframe, shown : int
            Presentation times of the keyframe and of the frame (`Timeline`).
        wanted : collection of int
            Times of frames that are likely to be needed next. If such a frame is decoded on the way, it is
            kept.

        Raises
        ------
        UnreadableImageError
            If the file no longer exists, or the frame is damaged.
        InputError
            If PyAV is not installed.
        """
        with self._reader(file, keyframe) as reader:
            frame = reader.frame(keyframe, shown, wanted)
            colors = reader.converter.reformat(frame, format="rgb24", threads=1)
        image: Image.Image = colors.to_image()
        turn = _TURNS.get(round(frame.rotation / 90) * 90 % 360)
        return image if turn is None else image.transpose(turn)

    @contextmanager
    def _reader(self, file: Path, keyframe: int) -> Iterator[_Reader]:
        """Reserve the reader that was last used for this keyframe.

        If there is none, reserve an idle reader that this thread used last, or else a new reader.
        """
        thread = threading.get_ident()
        with self._lock:
            of_file = [reader for reader in self._readers if reader.file == file]
            reader = next(
                (one for one in of_file if one.keyframe == keyframe),
                next((one for one in of_file if one.thread == thread and not one.n_users), None),
            )
            if reader is None:
                reader = _Reader(file)
            else:
                self._readers.remove(reader)
            self._readers.append(reader)
            reader.keyframe, reader.thread = keyframe, thread
            reader.n_users += 1
        try:
            with reader.lock:
                yield reader
        finally:
            with self._lock:
                reader.n_users -= 1
                idle = [one for one in self._readers if not one.n_users]
                surplus = idle[: max(0, len(self._readers) - MOST_READERS)]
                self._readers = [one for one in self._readers if one not in surplus]
            for one in surplus:
                one.close()


class _Reader:
    """An open video with a current position. Only the thread that holds `lock` may read frames."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.lock = threading.Lock()
        self.n_users = 0
        self.keyframe: int | None = None
        self.thread: int | None = None
        self.converter = _av().video.reformatter.VideoReformatter()  # a new one for each frame would be slow
        self._container: Any = None
        self._frames: Iterator[Any] = iter(())
        self._demuxed: Iterator[Any] = iter(())
        self._demuxed_to: int | None = None
        self._begun_at: int | None = None
        self._recent: OrderedDict[int, Any] = OrderedDict()

    def frame(self, keyframe: int, shown: int, wanted: Collection[int]) -> Any:
        """Return the frame as an object of PyAV; see `VideoReaders.image`."""
        found = self._recent.get(shown)
        if found is None and self._begun_at == keyframe:
            found = self._next(shown, wanted)
        if found is None:
            self._frames, self._begun_at = self._decoded(keyframe), keyframe
            found = self._next(shown, wanted)
        if found is None:
            raise UnreadableImageError(f"{self.file.name} is damaged at this frame")
        return found

    def close(self) -> None:
        """Close the file and free all kept frames."""
        self._frames = self._demuxed = iter(())
        self._begun_at = self._demuxed_to = None
        self._recent.clear()
        if self._container is not None:
            self._container.close()
            self._container = None

    def _next(self, shown: int, wanted: Collection[int]) -> Any:
        """Decode up to the frame with this time. Return the frame, or None if the frame is missing."""
        n_late = 0
        for frame in self._frames:
            if frame.pts in wanted:
                self._keep(frame)
            if frame.pts == shown:
                return frame
            n_late += frame.pts > shown
            if n_late > _MOST_LATE:
                return None
        return None

    def _keep(self, frame: Any) -> None:
        self._recent[frame.pts] = frame
        n_bytes = sum(plane.buffer_size for plane in frame.planes)
        most = max(1, min(_MOST_RECENT, _MOST_RECENT_BYTES // n_bytes))
        while len(self._recent) > most:
            self._recent.popitem(last=False)

    def _decoded(self, keyframe: int) -> Iterator[Any]:
        """Yield the frames from a keyframe on, until one is damaged."""
        av = _av()
        try:
            for packet in self._packets(keyframe):
                for frame in packet.decode():
                    if frame.pts is None or frame.pts < keyframe:
                        continue  # shown before the keyframe, and decoded from an earlier one
                    if frame.is_corrupt:
                        return
                    yield frame
        except av.error.FFmpegError:
            return

    def _packets(self, keyframe: int) -> Iterator[Any]:
        """Yield the packets from a keyframe on."""
        for packets in self._ways_to(keyframe):
            is_there = False
            for packet in packets:
                is_there |= packet.pts == keyframe
                if is_there:
                    yield packet
                elif packet.is_keyframe and packet.pts is not None and packet.pts > keyframe:
                    break
            if is_there:
                return

    def _ways_to(self, keyframe: int) -> Iterator[Iterator[Any]]:
        """Yield iterators over packets, to be tried in order until one has the keyframe.

        If the keyframe is near, the first iterator continues at the current position. The next iterators seek
        farther and farther back, because seeking may lead beyond the keyframe. The last iterator begins at
        the start of the video.
        """
        if self._container is None:
            self._container = _open(self.file)
            self._demuxed_to = None
        stream = _stream_of(self._container)
        near = round(_NEAR_SECONDS / stream.time_base)
        if self._demuxed_to is not None and self._demuxed_to < keyframe <= self._demuxed_to + near:
            stream.codec_context.flush_buffers()
            yield self._demuxed
        for seconds in _STEPS_BACK:
            try:
                self._container.seek(keyframe - round(seconds / stream.time_base), stream=stream)
            except _av().error.FFmpegError:
                continue
            yield self._demux(stream)
        self._container.close()
        self._container = _open(self.file)
        yield self._demux(_stream_of(self._container))

    def _demux(self, stream: Any) -> Iterator[Any]:
        self._demuxed_to = None
        self._demuxed = self._noted(self._container.demux(stream))
        return self._demuxed

    def _noted(self, packets: Iterator[Any]) -> Iterator[Any]:
        for packet in packets:
            if packet.pts is not None:
                self._demuxed_to = max(packet.pts, self._demuxed_to or packet.pts)
            yield packet


_TURNS = {
    90: Image.Transpose.ROTATE_90,
    180: Image.Transpose.ROTATE_180,
    270: Image.Transpose.ROTATE_270,
}


def _open(file: Path) -> Any:
    """Open a video.

    Raises
    ------
    UnreadableImageError
        If the file no longer exists.
    UnusableVideoError
        If the file is no video of a supported format.
    InputError
        If the file can't be read, or PyAV is not installed.
    """
    av = _av()
    options = {"format_whitelist": _FORMATS, "protocol_whitelist": "file", "max_pixels": str(MAX_PIXELS)}
    try:
        container = av.open(str(file), options=options, metadata_errors="replace")
    except FileNotFoundError as error:
        raise UnreadableImageError(f"{file.name} no longer exists") from error
    except av.error.FFmpegError as error:
        # FFmpeg's own errors have large numbers; a format that is not allowed is an invalid argument.
        if error.errno < _FFMPEG_ERRORS and error.errno != errno.EINVAL:
            raise InputError(f"{file} can't be read: {error.strerror}") from error
        raise UnusableVideoError(NOT_A_VIDEO if file.stat().st_size else EMPTY) from error
    try:
        stream = _stream_of(container)
        stream.codec_context.thread_count = 1
        stream.codec_context.options = {"max_pixels": str(MAX_PIXELS)}
    except BaseException:
        container.close()
        raise
    return container


def _stream_of(container: Any) -> Any:
    """Return the first stream of moving pictures. Cover pictures of songs are ignored."""
    cover = _av().stream.Disposition.attached_pic
    stream = next((one for one in container.streams.video if not one.disposition & cover), None)
    if stream is None:
        raise UnusableVideoError(NO_PICTURES)
    if stream.codec_context is None:
        raise UnusableVideoError(NO_CODEC)
    return stream


def _av() -> Any:
    try:
        import av
    except ImportError as error:
        raise InputError(
            f'videos need av, which cannot be imported ({error}): pip install "closecall[video]"'
        ) from error
    return av
