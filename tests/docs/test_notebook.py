from __future__ import annotations

import os
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.thorough
@pytest.mark.parametrize("notebook", sorted(DOCS.glob("*.ipynb")), ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(notebook):
    """And its saved outputs are those of its cells: texts are equal, and there are as many pictures."""
    nbformat = pytest.importorskip("nbformat")
    nbclient = pytest.importorskip("nbclient")
    saved, made = (nbformat.read(notebook, as_version=4) for _ in range(2))
    # Importing Streamlit sets the backend in the environment, which the kernel would inherit.
    environment = {name: text for name, text in os.environ.items() if name != "MPLBACKEND"}
    nbclient.NotebookClient(made, timeout=600, kernel_name="python3").execute(env=environment)
    assert [shown(cell) for cell in made.cells] == [shown(cell) for cell in saved.cells]


def shown(cell) -> list[str]:
    """The kinds of a cell's outputs, and the texts that were printed."""
    outputs = cell.get("outputs", ())
    return [output.get("text") or " ".join(sorted(output.data)) for output in outputs]
