"""Frames of videos: the right ones, exactly, however they are read."""

from __future__ import annotations

import io
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.sources import Folder, Source, Videos, open_source, source_from
from closecall.core.sources.packed import video_reader
from tests.onnx_kit import write_model
from tests.video_kit import FRAMES_A_SECOND, SIZE, decoded, number_in, write_video


@pytest.fixture(autouse=True)
def _cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def all_names(source: Source) -> list[str]:
    return source.names(np.arange(len(source)))


def item_called(source: Source, name: str) -> int:
    return all_names(source).index(name)


def number_of(name: str) -> int:
    """The number of a frame in a video of `tests.video_kit`, by its name."""
    hours, minutes, seconds = name.rpartition(" at ")[2].removesuffix("s").replace("m", "h").split("h")
    return round((3600 * int(hours) + 60 * int(minutes) + float(seconds)) * FRAMES_A_SECOND)


FORMATS = {
    "h264.mp4": "libx264",
    "h264.mkv": "libx264",
    "h264.ts": "libx264",
    "mpeg4.avi": "mpeg4",
    "mpeg2.ts": "mpeg2video",
    "vp9.webm": "libvpx-vp9",
    "jpeg.mov": "mjpeg",
}


@pytest.mark.parametrize("name", FORMATS)
def test_a_frame_is_that_of_a_sequential_decode(tmp_path: Path, name: str) -> None:
    """Every frame, to the last bit, forwards, at random and from several threads, and it is the right one."""
    file = write_video(tmp_path / name, codec=FORMATS[name], n_frames=50)
    source = Videos(file, 1000)
    wanted = [frame.tobytes() for frame in decoded(file)]
    assert len(source) == len(wanted) == 50
    numbers = [number_of(name) for name in all_names(source)]
    assert sorted(numbers) == list(range(50))
    items = [*range(50), *np.random.default_rng(0).permutation(50).tolist()]
    with ThreadPoolExecutor(4) as threads:
        images = list(threads.map(source.whole_image, items))
    images += [Videos(file, 1000).whole_image(item) for item in items[:3]]
    for item, image in zip([*items, *items[:3]], images, strict=True):
        assert image.tobytes() == wanted[numbers[item]]
        assert number_in(image) == numbers[item]


def test_frames_before_their_keyframe_come_from_the_one_before(tmp_path: Path) -> None:
    """Where groups of pictures are open, a keyframe alone doesn't decode the frames shown before it."""
    options = {"x264-params": "open-gop=1:keyint=8:bframes=3:b-adapt=0:scenecut=0"}
    file = write_video(tmp_path / "v.mkv", options=options, n_frames=40)
    source, wanted = Videos(file, 1000), decoded(file)
    for item in np.random.default_rng(0).permutation(40).tolist():
        assert source.whole_image(item).tobytes() == wanted[number_of(source.name(item))].tobytes()


@pytest.mark.parametrize(
    ("rate", "numbers"),
    [(1, [0, 10, 20]), (2.5, [0, 4, 8, 12, 16, 20, 24]), (0.4, [0, 25]), (0.001, [0]), (25, range(26))],
)
def test_the_rate_says_how_many(tmp_path: Path, rate: float, numbers: list[int]) -> None:
    """The frame that is shown at each moment; none twice, where the video has fewer."""
    source = source_from(f"video:{rate}:{write_video(tmp_path / 'v.mp4', 26)}")
    assert sorted(map(number_of, all_names(source))) == list(numbers)
    assert all(
        number_in(source.whole_image(item)) == number_of(source.name(item)) for item in range(len(source))
    )
    assert source_from(f"video:{tmp_path / 'v.mp4'}").spec() == Videos(tmp_path / "v.mp4", 1).spec()


def test_a_variable_frame_rate_is_seen_as_it_is_shown(tmp_path: Path) -> None:
    """A frame that is shown for seconds is one item, and of many frames in a second one is taken."""
    millis = [0, 40, 80, 120, 900, 1001, 4500, 4510, 5999, 6000]
    source = Videos(write_video(tmp_path / "v.mkv", 10, millis=millis))
    shown = {all_names(source)[item]: number_in(source.whole_image(item)) for item in range(len(source))}
    assert shown == {
        "v.mkv at 0h00m00.000s": 0,
        "v.mkv at 0h00m00.900s": 4,  # at 1 s, one millisecond before the next
        "v.mkv at 0h00m01.001s": 5,  # at 2, 3 and 4 s
        "v.mkv at 0h00m04.510s": 7,  # at 5 s
        "v.mkv at 0h00m06.000s": 9,
    }


@pytest.mark.parametrize("rotation", [0, 90, 180, -90])
def test_a_turned_video_is_shown_upright(tmp_path: Path, rotation: int) -> None:
    """As phones film: the picture lies on its side, and the file tells how to turn it."""
    file = write_video(tmp_path / "v.mp4", 3, rotation=rotation)
    (lying, *_) = decoded(file)
    image = Videos(file).whole_image(0)
    assert image.tobytes() == lying.rotate(rotation, expand=True).tobytes()
    assert image.size == (SIZE if rotation % 180 == 0 else SIZE[::-1])


def test_a_frame_is_described_as_its_copy(tmp_path: Path) -> None:
    """Copied to a folder, frames give the same images at any size, and the same features."""
    source = Videos(write_video(tmp_path / "v.mp4", 60))
    items = np.arange(len(source))
    (tmp_path / "copies").mkdir()
    for item in items.tolist():
        (tmp_path / "copies" / f"{source.name(item)}.png").write_bytes(source.encoded(item))
    copies = Folder(tmp_path / "copies")
    same = np.array([item_called(copies, f"{name}.png") for name in all_names(source)])
    assert (compute(source, items)[0] == compute(copies, same)[0]).all()
    for size in (8, 40, 500):
        assert source.image(3, size).tobytes() == copies.image(int(same[3]), size).tobytes()


def test_a_video_is_held_out_as_a_whole(tmp_path: Path) -> None:
    """Folders are classes; a tenth of the videos is held out, with all their frames."""
    for number in range(20):
        write_video(tmp_path / "clips" / "ab"[number % 2] / f"{number}.mp4", 5 + number, seed=number)
    source = Videos(tmp_path / "clips", 5)
    assert source.classes == ("a", "b")
    truth = source.truth(np.arange(len(source)))
    assert all(name[0] == source.classes[place] for name, place in zip(all_names(source), truth, strict=True))
    held = {name.partition(" at ")[0] for name in source.names(source.held_out())}
    pool = np.setdiff1d(np.arange(len(source)), source.held_out())
    assert len(held) == 2
    assert held.isdisjoint(name.partition(" at ")[0] for name in source.names(pool))
    declined = source_from(f"video:5:{tmp_path / 'clips'}", use_classes=False)
    assert (declined.classes, len(declined.held_out())) == ((), 0)


def test_videos_in_test_folders_are_held_out(tmp_path: Path) -> None:
    """As images are; the word in a video's own name means nothing."""
    for name in ("train/a/1", "train/b/test drive", "test/a/3", "test/b/4"):
        write_video(tmp_path / "clips" / f"{name}.mp4", 12)
    source = Videos(tmp_path / "clips")
    held = set(source.names(source.held_out()))
    assert held == {f"test/{name}.mp4 at 0h00m0{second}.000s" for name in ("a/3", "b/4") for second in (0, 1)}


def test_prefixes_are_fair_and_stretches_are_in_order(tmp_path: Path) -> None:
    """The first frames come from different places, and those between keyframes follow each other."""
    for number in range(6):
        write_video(tmp_path / f"{number}.mp4", 80, seed=number)
    source = Videos(tmp_path, 10)
    names = all_names(source)
    stretches = [names[first : first + 20] for first in range(0, len(names), 20)]
    for stretch in stretches:
        numbers = [number_of(name) for name in stretch]
        assert numbers == list(range(numbers[0], numbers[0] + 20))
        assert len({name[0] for name in stretch}) == 1
    assert len({stretch[0][0] for stretch in stretches[:8]}) > 2


def test_building_opens_and_seeks_no_frame_by_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each frame is decoded about once, and containers are found again."""
    source = Videos(write_video(tmp_path / "v.mov", 60, codec="mjpeg"), 10)
    opened, seeks = [], []
    open_, ways = video_reader._open, video_reader._Reader._demux
    monkeypatch.setattr(video_reader, "_open", lambda file: opened.append(file) or open_(file))
    monkeypatch.setattr(video_reader._Reader, "_demux", lambda *a: seeks.append(a) or ways(*a))
    source.grey(np.arange(len(source)))
    assert len(opened) == 1
    assert len(seeks) <= 60 / 10


def test_few_files_stay_open(tmp_path: Path) -> None:
    """However many videos are shown to however many people."""
    for number in range(12):
        write_video(tmp_path / f"{number}.mp4", 5, seed=number)
    source = Videos(tmp_path, 10)
    with ThreadPoolExecutor(6) as threads:
        images = list(threads.map(source.whole_image, range(len(source))))
    assert [number_in(image) for image in images] == [number_of(name) for name in all_names(source)]
    assert len(source._readers._readers) <= video_reader.MOST_READERS


def test_a_pool_is_the_same_for_any_threads_and_wrappers_work(tmp_path: Path) -> None:
    """Byte for byte; by a model, by edges, enlarged, and grown by a video."""
    write_video(tmp_path / "v" / "a.mp4", 60)
    write_video(tmp_path / "v" / "b.mkv", 60, seed=1)
    one, two = (build(source_from(f"video:5:{tmp_path / 'v'}"), tmp_path / f"{n}", threads=n) for n in (1, 3))
    assert (one.rows(np.arange(len(one))) == two.rows(np.arange(len(two)))).all()
    model = write_model(tmp_path / "m.onnx")
    for word, n in {"enlarged:2:": 120, "edges:": 60, f"onnx:{model}:": 60}.items():
        source = source_from(f"{word}video:5:{tmp_path / 'v'}")
        assert source.is_slow
        assert len(build(source, tmp_path / word[:5])) == n
    write_video(tmp_path / "v" / "c.mp4", 10, seed=2)
    grown = build(source_from(f"edges:video:5:{tmp_path / 'v'}"), tmp_path / "edges")
    assert len(grown) == 65
    assert all(name.startswith("c.mp4 at ") for name in grown.source.names(grown.ids[60:]))
    with pytest.raises(InputError, match="does not continue it"):
        build(source_from(f"video:2:{tmp_path / 'v'}"), tmp_path / "1")


def test_a_cut_video_gives_the_frames_that_it_has(tmp_path: Path) -> None:
    """The rest is one item that can't be read, in a sentence."""
    raw = write_video(tmp_path / "v.mkv", 60).read_bytes()
    (tmp_path / "v.mkv").write_bytes(raw[: len(raw) // 2])
    source = Videos(tmp_path / "v.mkv", 10)
    _, ids, problems = compute(source, np.arange(len(source)))
    numbers = sorted(map(number_of, source.names(ids)))
    assert numbers[:20] == list(range(20))
    assert max(numbers) < len(ids) + 3  # frames that come later in the file may be shown before the last
    assert 20 < len(ids) < 40
    assert all(number_in(source.whole_image(item)) == number_of(source.name(item)) for item in ids.tolist())
    assert any(problem.name.startswith("v.mkv after 0h00m0") for problem in problems)
    assert all("damaged" in problem.reason for problem in problems)
    with pytest.raises(InputError, match=r"after .* can't be shown: .* incomplete from here on"):
        source.image(item_called(source, problems[-1].name), 40)


def test_damage_spoils_only_frames_up_to_the_next_keyframe(tmp_path: Path) -> None:
    """Whether they are read forwards or at random."""
    file = write_video(tmp_path / "v.mkv", 60)
    wanted = decoded(file)
    raw = bytearray(file.read_bytes())
    with video_reader._open(file) as container:
        packet = [packet for packet in container.demux() if packet.size][25]
        place = raw.index(bytes(packet))
        raw[place + 4 : place + packet.size] = b"\xff" * (packet.size - 4)
    file.write_bytes(raw)
    spoiled = {number_of(problem.name) for problem in Videos(file, 10).grey(np.arange(60))[1]}
    assert {28} <= spoiled <= set(range(20, 40))
    for items in (np.arange(60), np.random.default_rng(0).permutation(60)):
        source = Videos(file, 10)
        for item in items.tolist():
            number = number_of(source.name(item))
            if number in spoiled:
                with pytest.raises(InputError, match=r"^v\.mkv is damaged at this frame$"):
                    source.whole_image(item)
            else:
                assert source.whole_image(item).tobytes() == wanted[number].tobytes()


def test_files_without_frames_are_one_sentence(tmp_path: Path) -> None:
    """In a folder they are items that can't be read; alone they are refused."""
    bad = tmp_path / "bad"
    write_video(bad / "sound.mkv", sound_only=True)
    (bad / "empty.mp4").touch()
    (bad / "text.mp4").write_text("no video" * 100)
    (bad / "list.mp4").write_text("#EXTM3U\n#EXT-X-TARGETDURATION:9\n#EXTINF:9,\nfile:///etc/hostname\n")
    raw = write_video(tmp_path / "v.mp4", 20).read_bytes()
    (bad / "cut.mp4").write_bytes(raw[:-200])
    damaged = "it is damaged, or no video of a supported format"
    reasons = {
        "sound.mkv": "it has no pictures, only sound or text",
        "empty.mp4": "the file is empty",
        "text.mp4": damaged,
        "list.mp4": damaged,
        "cut.mp4": damaged,
    }
    for name, reason in reasons.items():
        with pytest.raises(InputError, match=reason) as refused:
            Videos(bad / name)
        assert str(refused.value) == f"{bad / name} can't be used: {reason}"
    write_video(bad / "good.mp4", 5)
    source = Videos(bad)
    problems = source.grey(np.arange(len(source)))[1]
    assert {problem.name: problem.reason for problem in problems} == reasons
    assert set(all_names(source)) - set(reasons) == {"good.mp4 at 0h00m00.000s"}


def test_a_changed_or_missing_video_is_noticed(tmp_path: Path) -> None:
    """Where the frames are is saved with the pool; another file has others."""
    file = write_video(tmp_path / "v.mp4", 20)
    source = Videos(file)
    source.save(tmp_path)
    assert open_source(source.spec(), tmp_path).image(1, 40).tobytes() == source.image(1, 40).tobytes()
    write_video(file, 20, seed=1)
    for folder in (tmp_path, None):
        with pytest.raises(InputError, match=r"v\.mp4 has changed since the pool was made: put the"):
            open_source(source.spec(), folder)
    file.unlink()
    with pytest.raises(InputError, match=r"v\.mp4 is missing: put it back, or build another pool"):
        open_source(source.spec(), tmp_path)
    fresh = Videos(file, packing=source.packing)
    assert [problem.reason for problem in fresh.grey(np.arange(1))[1]] == ["v.mp4 no longer exists"]


@pytest.mark.parametrize("rate", [0, -1, 1e-5, 1001, float("nan")])
def test_a_rate_is_possible_or_refused(tmp_path: Path, rate: float) -> None:
    """Before a file is opened."""
    with pytest.raises(InputError, match=r"rate must be from 0\.001 to 1,000 frames a second, got"):
        Videos(tmp_path, rate)


def test_a_folder_of_videos_says_which_source_takes_them(tmp_path: Path) -> None:
    """Where it was taken for a folder of images."""
    (tmp_path / "clip.MOV").touch()
    with pytest.raises(
        InputError, match=rf"has no images .*; video:{tmp_path} takes the frames of its videos"
    ):
        Folder(tmp_path)


def test_without_pyav_a_sentence_says_how_to_get_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is an extra."""
    file = write_video(tmp_path / "v.mp4", 3)
    monkeypatch.setitem(sys.modules, "av", None)
    with pytest.raises(InputError, match=r'videos need av, .*: pip install "closecall\[video\]"'):
        Videos(file)


def test_a_copied_frame_is_a_png(tmp_path: Path) -> None:
    """Without loss."""
    source = Videos(write_video(tmp_path / "v.mp4", 3))
    copy = Image.open(io.BytesIO(source.encoded(0)))
    assert copy.format == "PNG"
    assert copy.tobytes() == source.whole_image(0).tobytes()
