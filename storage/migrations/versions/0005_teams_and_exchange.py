"""Several annotators per item, imported labels, and other models' predictions.

`why` may be "overlap" or "similar". `purpose` may be "decision" or "import". An answer with the purpose
"decision" is an adjudication, which takes precedence over votes. An answer with the purpose "import" is used
for training. Predictions get two tables.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

from closecall.storage.migrations.checks import replace_check

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None

WHYS = "'strategy', 'random-start', 'example', 'undo', 'audit', 'skipped-again', 'search'"
PURPOSES = "'train', 'audit'"

CHANGES = {
    "selections": ("why", f"why IN ({WHYS})", f"why IN ({WHYS}, 'overlap', 'similar')"),
    "answers": ("purpose", f"purpose IN ({PURPOSES})", f"purpose IN ({PURPOSES}, 'decision', 'import')"),
}

VIEWS = (
    # For each annotator and item, the last answer that was not undone; and, for each item, the last
    # adjudication that was not undone.
    """
CREATE VIEW current_answers AS
SELECT concept_id, item, annotator, answer, purpose, seq, id, session_id, selection_id, corrects,
       browser_time, server_time, time_taken_ms
FROM (
    SELECT a.*,
           ROW_NUMBER() OVER (
               PARTITION BY a.concept_id, a.item, CASE WHEN a.purpose = 'decision' THEN 1 ELSE 0 END,
                            CASE WHEN a.purpose = 'decision' THEN '' ELSE a.annotator END
               ORDER BY a.seq DESC
           ) AS place
    FROM answers AS a LEFT JOIN answers AS u ON u.undoes = a.id
    WHERE a.answer <> 'undo' AND u.seq IS NULL
) AS in_force
WHERE place = 1
""",
    # One row per item. `status` is the adjudication or, without one, combines the answers of all annotators.
    # `label` is the training label or NULL. `yes`, `no`, `unsure` and `skip` are numbers of votes.
    """
CREATE VIEW current_labels AS
SELECT concept_id, item,
       CASE WHEN decided IS NOT NULL THEN decided
            WHEN yes > no THEN 'yes' WHEN no > yes THEN 'no' WHEN yes > 0 THEN 'tied'
            WHEN unsure > 0 THEN 'unsure' ELSE 'skip' END AS status,
       CASE WHEN decided IS NOT NULL THEN CASE WHEN audited = 0 AND decided IN ('yes', 'no') THEN decided END
            WHEN train_yes > train_no THEN 'yes' WHEN train_no > train_yes THEN 'no' END AS label,
       yes, no, unsure, skip, last_seq, last_time
FROM (
    SELECT concept_id, item,
           MAX(CASE WHEN purpose = 'decision' THEN answer END) AS decided,
           SUM(CASE WHEN purpose = 'audit' THEN 1 ELSE 0 END) AS audited,
           SUM(CASE WHEN answer = 'yes' AND purpose <> 'decision' THEN 1 ELSE 0 END) AS yes,
           SUM(CASE WHEN answer = 'no' AND purpose <> 'decision' THEN 1 ELSE 0 END) AS no,
           SUM(CASE WHEN answer = 'unsure' AND purpose <> 'decision' THEN 1 ELSE 0 END) AS unsure,
           SUM(CASE WHEN answer = 'skip' AND purpose <> 'decision' THEN 1 ELSE 0 END) AS skip,
           SUM(CASE WHEN answer = 'yes' AND purpose IN ('train', 'import') THEN 1 ELSE 0 END) AS train_yes,
           SUM(CASE WHEN answer = 'no' AND purpose IN ('train', 'import') THEN 1 ELSE 0 END) AS train_no,
           MAX(seq) AS last_seq, MAX(server_time) AS last_time
    FROM current_answers GROUP BY concept_id, item
) AS votes
""",
)


def upgrade() -> None:
    """Let two constraints accept more values, count adjudications in the views, and create two tables."""
    connection = op.get_bind()
    op.execute("DROP VIEW current_labels")
    op.execute("DROP VIEW current_answers")
    for table, (column, before, after) in CHANGES.items():
        replace_check(table, column, before, after)
    for view in VIEWS:
        connection.exec_driver_sql(view)
    op.create_table(
        "prediction_sets",
        sa.Column("id", sa.Integer(), nullable=False),
        sa.Column("concept_id", sa.BigInteger().with_variant(sa.Integer(), "sqlite"), nullable=False),
        sa.Column("model", sa.String(200), nullable=False),
        sa.Column("file", sa.Text(), nullable=False),
        sa.Column("digest", sa.String(64), nullable=False),
        sa.Column("created", sa.BigInteger(), nullable=False),
        sa.CheckConstraint("length(model) > 0", name=op.f("ck_prediction_sets_model")),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_prediction_sets_concept_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_prediction_sets")),
        sa.UniqueConstraint("concept_id", "model", name=op.f("uq_prediction_sets_concept_id_model")),
    )
    op.create_table(
        "predictions",
        sa.Column("set_id", sa.Integer(), nullable=False),
        sa.Column("item", sa.BigInteger(), nullable=False),
        sa.Column("score", sa.Float(), nullable=True),
        sa.Column("label", sa.String(10), nullable=True),
        sa.CheckConstraint("item >= 0", name=op.f("ck_predictions_item")),
        sa.CheckConstraint("label IN ('yes', 'no')", name=op.f("ck_predictions_label")),
        sa.CheckConstraint("score IS NOT NULL OR label IS NOT NULL", name=op.f("ck_predictions_says")),
        sa.ForeignKeyConstraint(["set_id"], ["prediction_sets.id"], name=op.f("fk_predictions_set_id")),
        sa.PrimaryKeyConstraint("set_id", "item", name=op.f("pk_predictions")),
        sqlite_with_rowid=False,
    )
