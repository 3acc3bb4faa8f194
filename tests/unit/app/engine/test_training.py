from __future__ import annotations

import threading
import time
from contextlib import contextmanager

from closecall.app.engine import training
from closecall.app.runtime import cores as cores_module
from closecall.app.runtime.cores import Cores
from tests.projects import give_answers, new_project, open_workspace
from tests.storage_kit import Annotator


def test_no_more_trainings_run_at_once_than_there_are_cores(tmp_path, monkeypatch):
    """Fifty people who answer at the same moment do not need fifty copies of the labels' rows."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        give_answers(project.session(), 4)  # nothing is looked ahead, which would train meanwhile
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
        monkeypatch.setattr(cores_module, "_CORES", Cores(cores))

        def train():
            training.train_concept(project.pool, labels, [], concept.record, examples_through=0)

        threads = [threading.Thread(target=train) for _ in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert (running, most) == (0, cores)


def test_who_waits_for_a_core_trains_on_what_was_said_meanwhile(tmp_path, monkeypatch):
    """Labels are read once a core is free: each waiting person would hold labels of their own."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        give_answers(session, 4)
        concept = session.concept
        ada = Annotator(project.log, project.log.session(session.id))
        waiting, cores = threading.Event(), Cores(1)

        class Watched:
            @contextmanager
            def held(self, **how):
                waiting.set()
                with cores.held(**how):
                    yield

        monkeypatch.setattr(cores_module, "_CORES", Watched())
        found = []
        thread = threading.Thread(target=lambda: found.append(concept.trained(project.pool)))
        with cores.held():
            before = concept.standing()
            thread.start()
            assert waiting.wait(300)
            item = next(item for item in project.pool.ids.tolist() if item not in before.answered)
            ada.says("no", item)
        thread.join(300)
        [(standing, trained)] = found
        assert set(standing.answered.tolist()) - set(before.answered.tolist()) == {item}
        assert trained.n_labels == len(standing.labels) == len(before.labels) + 1
