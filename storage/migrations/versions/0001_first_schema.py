"""First schema: concepts, examples, sessions, and the append-only logs of selections and answers."""

from __future__ import annotations

from typing import Any

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

# The models change, but a migration never does, so it imports nothing from the models.

LOGS = {
    "examples": "id = NEW.id OR withdraws = NEW.withdraws",
    "selections": "seq = NEW.seq OR id = NEW.id",
    "answers": "seq = NEW.seq OR id = NEW.id OR undoes = NEW.undoes",
}

# INSERT OR REPLACE deletes a row without firing the DELETE trigger, so a trigger stops the INSERT.
SQLITE_TRIGGERS = """
CREATE TRIGGER {log}_never_change BEFORE UPDATE ON {log}
BEGIN SELECT RAISE(ABORT, '{log} is append-only: a row is never changed'); END;
CREATE TRIGGER {log}_never_go BEFORE DELETE ON {log}
BEGIN SELECT RAISE(ABORT, '{log} is append-only: a row is never deleted'); END;
CREATE TRIGGER {log}_never_replaced BEFORE INSERT ON {log} WHEN EXISTS (SELECT 1 FROM {log} WHERE {same})
BEGIN SELECT RAISE(ABORT, '{log} is append-only: a row is never replaced'); END;
"""

POSTGRESQL_FUNCTION = """
CREATE FUNCTION never_change() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only: a row is never %', TG_TABLE_NAME,
        CASE TG_OP WHEN 'UPDATE' THEN 'changed' ELSE 'deleted' END USING ERRCODE = 'restrict_violation';
END $$
"""
POSTGRESQL_TRIGGERS = (
    "CREATE TRIGGER {log}_never_change BEFORE UPDATE OR DELETE ON {log} "
    "FOR EACH ROW EXECUTE FUNCTION never_change()",
    "CREATE TRIGGER {log}_never_emptied BEFORE TRUNCATE ON {log} "
    "FOR EACH STATEMENT EXECUTE FUNCTION never_change()",
)

VIEWS = (
    # For each annotator and item, the last answer that was not undone.
    """
CREATE VIEW current_answers AS
SELECT concept_id, item, annotator, answer, purpose, seq, id, session_id, selection_id, corrects,
       browser_time, server_time, time_taken_ms
FROM (
    SELECT a.*,
           ROW_NUMBER() OVER (PARTITION BY a.concept_id, a.item, a.annotator ORDER BY a.seq DESC) AS place
    FROM answers AS a LEFT JOIN answers AS u ON u.undoes = a.id
    WHERE a.answer <> 'undo' AND u.seq IS NULL
) AS in_force
WHERE place = 1
""",
    # One row per item. `status` combines the answers of all annotators.
    # `label` is the training label or NULL.
    """
CREATE VIEW current_labels AS
SELECT concept_id, item,
       CASE WHEN yes > no THEN 'yes' WHEN no > yes THEN 'no' WHEN yes > 0 THEN 'tied'
            WHEN unsure > 0 THEN 'unsure' ELSE 'skip' END AS status,
       CASE WHEN train_yes > train_no THEN 'yes' WHEN train_no > train_yes THEN 'no' END AS label,
       yes, no, unsure, skip, last_seq, last_time
FROM (
    SELECT concept_id, item,
           SUM(CASE WHEN answer = 'yes' THEN 1 ELSE 0 END) AS yes,
           SUM(CASE WHEN answer = 'no' THEN 1 ELSE 0 END) AS no,
           SUM(CASE WHEN answer = 'unsure' THEN 1 ELSE 0 END) AS unsure,
           SUM(CASE WHEN answer = 'skip' THEN 1 ELSE 0 END) AS skip,
           SUM(CASE WHEN answer = 'yes' AND purpose = 'train' THEN 1 ELSE 0 END) AS train_yes,
           SUM(CASE WHEN answer = 'no' AND purpose = 'train' THEN 1 ELSE 0 END) AS train_no,
           MAX(seq) AS last_seq, MAX(server_time) AS last_time
    FROM current_answers GROUP BY concept_id, item
) AS votes
""",
    # The whole log in one table: an answer, why its item was shown, and whether it was undone.
    """
CREATE VIEW log AS
SELECT a.seq, a.id, c.name AS concept, a.item, a.answer, a.undoes, a.corrects, u.id AS undone_by, a.purpose,
       a.annotator, a.session_id, a.browser_time, a.server_time, a.time_taken_ms,
       s.id AS selection_id, s.round, s.why, s.strategy, s.parameters, s.probability, s.margin,
       s.selection_ms, s.items_scored, s.items_total, s.retrain_ms, s.n_labels, s.hyperplane_digest,
       s.trained_through, s.examples_through, s.c, s.class_weight, s.leased, s.pool_version, s.seed,
       s.accuracy, s.created AS selected_time
FROM answers AS a
JOIN concepts AS c ON c.id = a.concept_id
LEFT JOIN selections AS s ON s.id = a.selection_id
LEFT JOIN answers AS u ON u.undoes = a.id
""",
)


def _seq() -> sa.types.TypeEngine[int]:
    return sa.BigInteger().with_variant(sa.Integer(), "sqlite")


def _column(name: str, kind: sa.types.TypeEngine[Any]) -> sa.Column[Any]:
    return sa.Column(name, kind, nullable=False)


def upgrade() -> None:
    """Create the tables, views and triggers of the first version."""
    op.create_table(
        "concepts",
        _column("id", _seq()),
        _column("name", sa.String(200)),
        _column("question", sa.String(1000)),
        _column("guideline", sa.Text()),
        sa.Column("positive_class", sa.String(200)),
        _column("c", sa.Float()),
        sa.Column("class_weight", sa.String(20)),
        _column("created", sa.BigInteger()),
        sa.CheckConstraint("length(name) > 0", name=op.f("ck_concepts_name")),
        sa.CheckConstraint("c > 0", name=op.f("ck_concepts_c")),
        sa.CheckConstraint("class_weight IN ('balanced')", name=op.f("ck_concepts_class_weight")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_concepts")),
        sa.UniqueConstraint("name", name=op.f("uq_concepts_name")),
    )
    op.create_table(
        "examples",
        _column("id", _seq()),
        _column("concept_id", _seq()),
        sa.Column("image", sa.LargeBinary()),
        sa.Column("feature", sa.LargeBinary()),
        _column("is_positive", sa.Boolean()),
        sa.Column("withdraws", _seq()),
        _column("created", sa.BigInteger()),
        sa.CheckConstraint(
            "(image IS NULL) = (withdraws IS NOT NULL)", name=op.f("ck_examples_image_or_withdrawal")
        ),
        sa.CheckConstraint("length(image) <= 2097152", name=op.f("ck_examples_image_size")),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_examples_concept_id")),
        sa.ForeignKeyConstraint(["withdraws"], ["examples.id"], name=op.f("fk_examples_withdraws")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_examples")),
        sa.UniqueConstraint("withdraws", name=op.f("uq_examples_withdraws")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_examples_concept_id_id"), "examples", ["concept_id", "id"])
    op.create_table(
        "sessions",
        _column("id", sa.String(64)),
        _column("concept_id", _seq()),
        _column("annotator", sa.String(200)),
        _column("seed", sa.BigInteger()),
        _column("strategy", sa.String(200)),
        _column("parameters", sa.JSON()),
        _column("created", sa.BigInteger()),
        sa.CheckConstraint("length(annotator) > 0", name=op.f("ck_sessions_annotator")),
        sa.CheckConstraint("length(id) BETWEEN 8 AND 64", name=op.f("ck_sessions_id")),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_sessions_concept_id")),
        sa.PrimaryKeyConstraint("id", name=op.f("pk_sessions")),
    )
    op.create_index(op.f("ix_sessions_concept_id"), "sessions", ["concept_id"])
    _create_selections()
    _create_answers()
    for view in VIEWS:
        op.execute(view)
    if op.get_bind().dialect.name == "sqlite":
        for log, same in LOGS.items():
            for trigger in SQLITE_TRIGGERS.format(log=log, same=same).split("END;\n"):
                if trigger.strip():
                    op.execute(trigger + "END")
    else:
        op.execute(POSTGRESQL_FUNCTION)
        for log in LOGS:
            for trigger in POSTGRESQL_TRIGGERS:
                op.execute(trigger.format(log=log))


def _create_selections() -> None:
    op.create_table(
        "selections",
        _column("seq", _seq()),
        _column("id", sa.String(64)),
        _column("session_id", sa.String(64)),
        _column("concept_id", _seq()),
        _column("round", sa.Integer()),
        _column("item", sa.BigInteger()),
        _column("why", sa.String(20)),
        _column("strategy", sa.String(200)),
        _column("parameters", sa.JSON()),
        sa.Column("probability", sa.Float()),
        sa.Column("margin", sa.Float()),
        _column("selection_ms", sa.Float()),
        _column("items_scored", sa.BigInteger()),
        _column("items_total", sa.BigInteger()),
        sa.Column("retrain_ms", sa.Float()),
        _column("n_labels", sa.Integer()),
        sa.Column("hyperplane_digest", sa.String(64)),
        _column("trained_through", sa.BigInteger()),
        _column("examples_through", sa.BigInteger()),
        _column("c", sa.Float()),
        sa.Column("class_weight", sa.String(20)),
        _column("leased", sa.JSON()),
        _column("pool_version", sa.Integer()),
        _column("seed", sa.BigInteger()),
        sa.Column("accuracy", sa.Float()),
        _column("created", sa.BigInteger()),
        sa.CheckConstraint("length(id) BETWEEN 8 AND 64", name=op.f("ck_selections_id")),
        sa.CheckConstraint("item >= 0", name=op.f("ck_selections_item")),
        sa.CheckConstraint(
            "why IN ('strategy', 'random-start', 'example', 'undo', 'audit', 'skipped-again')",
            name=op.f("ck_selections_why"),
        ),
        sa.CheckConstraint("probability > 0 AND probability <= 1", name=op.f("ck_selections_probability")),
        sa.CheckConstraint("margin >= 0", name=op.f("ck_selections_margin")),
        sa.CheckConstraint("items_scored >= 0 AND items_total >= 0", name=op.f("ck_selections_items_scored")),
        sa.CheckConstraint("c > 0", name=op.f("ck_selections_c")),
        sa.CheckConstraint("class_weight IN ('balanced')", name=op.f("ck_selections_class_weight")),
        sa.CheckConstraint("accuracy BETWEEN 0 AND 1", name=op.f("ck_selections_accuracy")),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_selections_concept_id")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_selections_session_id")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_selections")),
        sa.UniqueConstraint("id", name=op.f("uq_selections_id")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_selections_concept_id_seq"), "selections", ["concept_id", "seq"])
    op.create_index(op.f("ix_selections_session_id_seq"), "selections", ["session_id", "seq"])


def _create_answers() -> None:
    op.create_table(
        "answers",
        _column("seq", _seq()),
        _column("id", sa.String(64)),
        _column("concept_id", _seq()),
        _column("session_id", sa.String(64)),
        sa.Column("selection_id", sa.String(64)),
        _column("item", sa.BigInteger()),
        _column("answer", sa.String(10)),
        sa.Column("undoes", sa.String(64)),
        sa.Column("corrects", sa.String(64)),
        _column("annotator", sa.String(200)),
        _column("purpose", sa.String(10)),
        _column("browser_time", sa.BigInteger()),
        _column("server_time", sa.BigInteger()),
        sa.Column("time_taken_ms", sa.BigInteger()),
        sa.CheckConstraint("length(id) BETWEEN 8 AND 64", name=op.f("ck_answers_id")),
        sa.CheckConstraint("item >= 0", name=op.f("ck_answers_item")),
        sa.CheckConstraint(
            "answer IN ('yes', 'no', 'unsure', 'skip', 'undo')", name=op.f("ck_answers_answer")
        ),
        sa.CheckConstraint("purpose IN ('train', 'audit')", name=op.f("ck_answers_purpose")),
        sa.CheckConstraint("(answer = 'undo') = (undoes IS NOT NULL)", name=op.f("ck_answers_undoes")),
        sa.CheckConstraint("undoes IS NULL OR corrects IS NULL", name=op.f("ck_answers_undoes_or_corrects")),
        sa.CheckConstraint("undoes <> id AND corrects <> id", name=op.f("ck_answers_not_itself")),
        sa.CheckConstraint("time_taken_ms >= 0", name=op.f("ck_answers_time_taken_ms")),
        sa.ForeignKeyConstraint(["concept_id"], ["concepts.id"], name=op.f("fk_answers_concept_id")),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name=op.f("fk_answers_session_id")),
        sa.ForeignKeyConstraint(["selection_id"], ["selections.id"], name=op.f("fk_answers_selection_id")),
        sa.ForeignKeyConstraint(["undoes"], ["answers.id"], name=op.f("fk_answers_undoes")),
        sa.ForeignKeyConstraint(["corrects"], ["answers.id"], name=op.f("fk_answers_corrects")),
        sa.PrimaryKeyConstraint("seq", name=op.f("pk_answers")),
        sa.UniqueConstraint("id", name=op.f("uq_answers_id")),
        sa.UniqueConstraint("undoes", name=op.f("uq_answers_undoes")),
        sqlite_autoincrement=True,
    )
    op.create_index(op.f("ix_answers_concept_id_seq"), "answers", ["concept_id", "seq"])
    op.create_index(op.f("ix_answers_session_id_seq"), "answers", ["session_id", "seq"])
    op.create_index(op.f("ix_answers_selection_id"), "answers", ["selection_id"])
