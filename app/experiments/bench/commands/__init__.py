"""The commands of ``closecall bench``, one per module.

A command imports its implementation only when it runs, so that the command line starts quickly.
"""

from __future__ import annotations

from closecall.app.experiments.bench.commands.audit import bench_audit
from closecall.app.experiments.bench.commands.build import bench_build
from closecall.app.experiments.bench.commands.duplicates import bench_duplicates
from closecall.app.experiments.bench.commands.guarantee import bench_guarantee
from closecall.app.experiments.bench.commands.mapping import bench_map
from closecall.app.experiments.bench.commands.planes import bench_planes
from closecall.app.experiments.bench.commands.positives import bench_positives
from closecall.app.experiments.bench.commands.select import bench_select
from closecall.app.experiments.bench.commands.sessions import bench_sessions
from closecall.app.experiments.bench.commands.similar import bench_similar
from closecall.app.experiments.bench.commands.stopping import bench_stopping
from closecall.app.experiments.bench.commands.team import bench_team
from closecall.app.experiments.bench.commands.ui import bench_ui
from closecall.app.experiments.bench.commands.words import bench_words

COMMANDS = (
    bench_build,
    bench_planes,
    bench_select,
    bench_sessions,
    bench_positives,
    bench_similar,
    bench_words,
    bench_duplicates,
    bench_map,
    bench_guarantee,
    bench_ui,
    bench_team,
    bench_audit,
    bench_stopping,
)
