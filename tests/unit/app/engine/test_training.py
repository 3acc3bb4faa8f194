from __future__ import annotations

import threading
import time

from closecall.app.engine import training
from tests.projects import label, new_project, open_workspace


def test_no_more_trainings_run_at_once_than_there_are_cores(tmp_path, monkeypatch):
    """Fifty people who answer at the same moment do not need fifty copies of the labels' rows."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        label(project.session(), 4)
        concept = project.live_concept(project.concepts()[0].id)
        labels = concept.catch_up().labels()
        running, most, lock = 0, 0, threading.Lock()
        learn = training.learner.learn_rows

        def watched(*arguments, **options):
            nonlocal running, most
            with lock:
                running += 1
                most = max(most, running)
            time.sleep(0.02)
            trained = learn(*arguments, **options)
            with lock:
                running -= 1
            return trained

        monkeypatch.setattr(training.learner, "learn_rows", watched)
        cores = 2
        monkeypatch.setattr(training, "_CORES", threading.BoundedSemaphore(cores))

        def train():
            training.train_concept(project.pool, labels, [], concept.record, examples_through=0)

        threads = [threading.Thread(target=train) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (running, most) == (0, cores)
