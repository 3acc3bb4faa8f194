"""The command ``closecall bench words``."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from closecall.app.experiments.bench.commands.options import count_option, json_option, pool_option


@click.command("words")
@pool_option
@count_option("--queries", 100, "Held-out items whose features serve as directions.")
@count_option("--threads", 1, "Threads of BLAS.")
@json_option
def bench_words(folder: Path, json_file: Path | None, **words: Any) -> None:
    """Time the search by words after encoding, and a bare matrix–vector product in turn with it.

    The pool needs no text model: the features of held-out items take the place of encoded words.
    """
    from closecall.app.experiments.bench.experiment import run
    from closecall.app.experiments.bench.words import WordSearch

    run(WordSearch(**words), [folder], json_file)
