"""Plants bugs, and checks that the quick tests find each: ``python -m tests.planted [word of a name ...]``.

A copy of the checkout gets one bug at a time, and runs the tests that should find it. First these tests must
pass without any bug, or their failing would say nothing.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue

from tests.folders import ROOT

PACKAGES = ("app", "client", "core", "storage")
KEPT = (*PACKAGES, "tests", "docs", "assets", "pyproject.toml", "README.md", "CHANGELOG.md", "package.json")
"""What the tests need of the checkout."""

FAILED = 1
"""What pytest returns if tests failed, and not if it could not collect them."""


@dataclass(frozen=True)
class Bug:
    """A bug by name: which text of which file becomes which, and the tests that should find it."""

    name: str
    file: str
    text: str
    becomes: str
    tests: str

    def plant(self, root: Path) -> None:
        """Change the file below `root`; its text must be there once."""
        path = root / self.file
        source = path.read_text("utf-8")
        if source.count(self.text) != 1:
            raise ValueError(f"{self.file} must have this text once, for the bug {self.name!r}: {self.text}")
        path.write_text(source.replace(self.text, self.becomes), "utf-8")


BUGS = (
    Bug(
        "a hyperplane is hashed like a point",
        "core/hashing/h_hash.py",
        "np.where(second, -projections, projections) >= 0",
        "np.where(second, projections, projections) >= 0",
        "tests/unit/core/hashing/test_collisions.py",
    ),
    Bug(
        "training from an earlier solution keeps sides that another way would not give",
        "core/linear/svm.py",
        "if greatest < -_CLEAR * tolerance / TOLERANCE:",
        "if greatest <= tolerance:",
        "tests/unit/core/linear/test_warm_start.py",
    ),
    Bug(
        "people wait for work that is done in advance",
        "app/runtime/cores.py",
        "if self._of_people < self._n:",
        "if self._of_people + self._in_advance < self._n:",
        "tests/unit/app/runtime/test_cores.py",
    ),
    Bug(
        "turns are shared out, and not time",
        "app/runtime/turns.py",
        "owner.finished += seconds",
        "owner.finished += 1.0",
        "tests/unit/app/runtime/test_turns.py",
    ),
    Bug(
        "a hurried selection does not say so",
        "app/engine/selection.py",
        "parameters[HURRIED] = True",
        "pass",
        "tests/unit/app/engine/test_load.py",
    ),
    Bug(
        "EH-Hash of low rank has the formula of one sample less",
        "core/hashing/collision.py",
        "n = samples + 1\n",
        "n = samples\n",
        "tests/unit/core/hashing/test_collisions.py",
    ),
    Bug(
        "KLSH does not centre its kernel",
        "core/hashing/klsh.py",
        "(K - self.means_) @ self._weights + self._shift",
        "K @ self._weights + self._shift",
        "tests/unit/core/hashing/test_klsh.py",
    ),
    Bug(
        "spectral hashing has waves of twice the length",
        "core/hashing/spectral.py",
        "turns *= (np.pi * self.modes_)",
        "turns *= (np.pi / 2 * self.modes_)",
        "tests/unit/core/hashing/test_spectral.py",
    ),
    Bug(
        "the learned metric's slack has the wrong sign",
        "core/metric/passes.py",
        "gamma * bounds[number] / (gamma + sign * a * bounds[number])",
        "gamma * bounds[number] / (gamma - sign * a * bounds[number])",
        "tests/unit/core/metric/test_itml.py",
    ),
    Bug(
        "the margin index forgets rows that came later, far from its clusters",
        "core/selection/margin/index.py",
        "strayed = self.layout_.strayed if everything else self.layout_.strayed[:0]",
        "strayed = self.layout_.strayed[:0]",
        "tests/unit/core/selection/margin",
    ),
    Bug(
        "an audited item counts as drawn from its own frame alone",
        "core/audit/weights.py",
        "passed_over *= 1 - rate[of_item]",
        "passed_over = np.where(own, 1 - rate[of_item], passed_over)",
        "tests/unit/core/audit/test_weights.py",
    ),
    Bug(
        "DeLong's covariance divides by the other class",
        "core/evaluation/auroc.py",
        "np.atleast_2d(np.cov(yes)) / n_yes",
        "np.atleast_2d(np.cov(yes)) / n_no",
        "tests/unit/core/evaluation/test_auroc.py",
    ),
    Bug(
        "accuracy leaves the bias out",
        "core/learning/round.py",
        "products + np.float32(hyperplane.bias) > 0",
        "products > 0",
        "tests/unit/core/learning/test_round.py",
    ),
    Bug(
        "a photograph taken upright is turned the wrong way",
        "core/sources/images.py",
        "6: Image.Transpose.ROTATE_270",
        "6: Image.Transpose.ROTATE_90",
        "tests/unit/core/sources",
    ),
    Bug(
        "what an interrupted builder left is in the way for ever",
        "core/files/durable.py",
        "    if path.exists():\n        shutil.rmtree(path)\n    temporary.replace(path)",
        "    temporary.replace(path)",
        "tests/unit/core/pool",
    ),
    Bug(
        "another answer with a known id is acknowledged, and lost",
        "storage/append.py",
        "elif not stored.says_the_same_as(given):",
        "elif stored.item != given.item:",
        "tests/unit/storage/test_log.py",
    ),
    Bug(
        "an answer of the audit trains",
        "storage/fold.py",
        'answer.purpose != "audit", answer.purpose == "decision"',
        'answer.purpose != "decision", answer.purpose == "decision"',
        "tests/unit/storage/test_fold.py tests/unit/storage/test_fold_standing.py",
    ),
    Bug(
        "the client forgets answers that are not acknowledged",
        "client/outbox.py",
        'for answer_id in outcome["acked"]:',
        "for answer_id in list(self._pending):",
        "tests/unit/client/test_session.py",
    ),
    Bug(
        "the client reads an answer twice after it was stopped",
        "client/log.py",
        "self.cursor = answer.seq",
        "pass",
        "tests/unit/client/test_project.py",
    ),
    Bug(
        "a lease never ends",
        "app/engine/leases.py",
        "if name not in but_for and one.heard >= since",
        "if name not in but_for and since is not None",
        "tests/unit/app/engine/test_leases.py",
    ),
    Bug(
        "a server writes for a session that another one has",
        "storage/session_claims.py",
        "        if found is not None:\n",
        "        if found is not None and not sessions:\n",
        "tests/unit/app/sessions/test_servers.py tests/unit/storage/test_servers.py",
    ),
    Bug(
        "finding 2: an answer may be about an item that is held out, or not there",
        "app/projects/intake.py",
        "elif pool.has_row(answer.item):",
        "elif answer.item >= 0:",
        "tests/unit/app/projects/test_intake.py",
    ),
    Bug(
        "finding 3: the last selection of an audited item counts as its draw",
        "app/engine/audit.py",
        "            if has_frame(record) and description_of(record) in readable:\n"
        "                drawn.setdefault(record.item, record)",
        "            drawn[record.item] = record",
        "tests/unit/app/engine",
    ),
    Bug(
        "finding 5: after a lost reply the same item stays in view",
        "app/sessions/item_view.py",
        "if press.is_in(new) or (press.is_in(known) and self._is_left(press)):",
        "if press.is_in(new):",
        "tests/faults",
    ),
    Bug(
        "finding 6: names are compared by casefold",
        "app/projects/roles.py",
        "        return tidied.translate(_SMALL)",
        "        return tidied.casefold()",
        "tests/unit/app/projects/test_roles.py",
    ),
    Bug(
        "finding 10: other sites may show the pages in a frame",
        "app/server/origin_guard.py",
        'message.get("headers", ()), *FRAMES]',
        'message.get("headers", ())]',
        "tests/unit/app/server",
    ),
    Bug(
        "verify does not compare hyperplanes",
        "app/verification/replay.py",
        "if digest != record.hyperplane_digest:",
        "if record.hyperplane_digest is None and digest:",
        "tests/unit/app/verification/test_verify.py",
    ),
    Bug(
        "balanced classes have each other's cost",
        "core/linear/svm.py",
        "np.where(y, C * len(y) / (2 * yes), C * len(y) / (2 * no))",
        "np.where(y, C * len(y) / (2 * no), C * len(y) / (2 * yes))",
        "tests/unit/core/linear/test_svm.py",
    ),
)


def main() -> None:
    """Try the bugs whose names have one of the words given, or all; exit with 1 if one is not found."""
    words = sys.argv[1:]
    bugs = [bug for bug in BUGS if not words or any(word in bug.name for word in words)]
    with tempfile.TemporaryDirectory(prefix="closecall-planted-") as folder:
        copies: SimpleQueue[Path] = SimpleQueue()
        for number in range(os.cpu_count() or 1):
            copies.put(_copy(Path(folder) / str(number)))

        def try_one(bug: Bug) -> bool:
            copy = copies.get()
            try:
                return _is_found(bug, copy)
            finally:
                copies.put(copy)

        first = copies.get()
        every = sorted({place for bug in bugs for place in bug.tests.split()})
        code, output = _run(first, ["-n", "auto", "--dist", "loadgroup", *every])
        copies.put(first)
        print(output.splitlines()[-1], "without any bug", flush=True)
        if code:
            sys.exit(f"{output}\nThe tests fail without any bug: they would find nothing")
        with ThreadPoolExecutor(os.cpu_count() or 1) as threads:
            found = list(threads.map(try_one, bugs))
    missed = [bug.name for bug, is_found in zip(bugs, found, strict=True) if not is_found]
    print(f"{len(bugs) - len(missed)} of {len(bugs)} bugs are found")
    if missed:
        sys.exit(f"Not found: {'; '.join(missed)}")


def _is_found(bug: Bug, copy: Path) -> bool:
    """Plant the bug in the copy, run its tests, say what they found, and take the bug out again."""
    path = copy / bug.file
    before, when = path.read_bytes(), path.stat()
    bug.plant(copy)
    try:
        code, output = _run(copy, ["-x", *bug.tests.split()])
    finally:
        path.write_bytes(before)
        os.utime(path, ns=(when.st_atime_ns, when.st_mtime_ns))
    failed = next((line for line in output.splitlines() if line.startswith("FAILED ")), "")
    is_found = code == FAILED and bool(failed)
    what = failed.removeprefix("FAILED ").split(" - ")[0] if is_found else f"NOT FOUND (pytest: {code})"
    print(f"{bug.name}: {what}", flush=True)
    return is_found


def _copy(place: Path) -> Path:
    """Copy the checkout with its dates, so that what is compiled stays so; return where it is."""
    place.mkdir()
    for name in KEPT:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, place / name)
        else:
            shutil.copy2(source, place / name)
    packages = place / "imported" / "closecall"
    packages.mkdir(parents=True)
    for name in PACKAGES:
        (packages / name).symlink_to(place / name)
    return place


def _run(copy: Path, words: list[str]) -> tuple[int, str]:
    """Run pytest in the copy; return its exit code and what it printed."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(copy / "imported"), str(copy)))}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--scale=quick", *words],
        cwd=copy,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return ran.returncode, ran.stdout + ran.stderr


if __name__ == "__main__":
    main()
