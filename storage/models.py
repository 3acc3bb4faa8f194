"""Models of a project's database tables. Migrations create the tables; the models describe the newest schema.

`answers`, `selections`, `examples` and `withdrawals` are logs: rows are only added, and triggers forbid
changing or deleting a row. Current labels, counts and earlier training sets are derived from the logs.
"""

from __future__ import annotations

from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    CheckConstraint,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Text,
    UniqueConstraint,
)
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

from closecall.storage.records import ANSWERS, HAPPENINGS, PURPOSES, SCOPES, WHYS

MAX_NAME = 200
MAX_QUESTION = 1_000
MAX_GUIDELINE = 50_000
MAX_EXAMPLE_BYTES = 2 * 1024 * 1024
MAX_URL = 2_000
MIN_ID, MAX_ID = 8, 64

_Id = String(MAX_ID)
_Name = String(MAX_NAME)
# SQLite generates increasing keys only for a column declared INTEGER.
_Seq = BigInteger().with_variant(Integer, "sqlite")


def _one_of(column: str, words: tuple[str, ...]) -> str:
    return f"{column} IN ({', '.join(repr(word) for word in words)})"


class Base(DeclarativeBase):
    """Base class of the tables. It gives all constraints names, so that later migrations can change them."""

    metadata = MetaData(
        naming_convention={
            "ix": "ix_%(table_name)s_%(column_0_N_name)s",
            "uq": "uq_%(table_name)s_%(column_0_N_name)s",
            "ck": "ck_%(table_name)s_%(constraint_name)s",
            "fk": "fk_%(table_name)s_%(column_0_N_name)s",
            "pk": "pk_%(table_name)s",
        }
    )


class Concept(Base):
    """Yes/no question, with the parameters of its SVM."""

    __tablename__ = "concepts"
    __table_args__ = (
        CheckConstraint("length(name) > 0", name="name"),
        CheckConstraint("c > 0", name="c"),
        CheckConstraint("class_weight IN ('balanced')", name="class_weight"),
    )

    id: Mapped[int] = mapped_column(_Seq, primary_key=True)
    name: Mapped[str] = mapped_column(_Name, unique=True)
    question: Mapped[str] = mapped_column(String(MAX_QUESTION))
    guideline: Mapped[str] = mapped_column(Text)
    positive_class: Mapped[str | None] = mapped_column(_Name)
    c: Mapped[float] = mapped_column(Float)
    class_weight: Mapped[str | None] = mapped_column(String(20))
    created: Mapped[int] = mapped_column(BigInteger)


class AuditShare(Base):
    """Fraction of a concept's rounds whose item is drawn at random for the audit. Without a row, it is 0."""

    __tablename__ = "audit_shares"
    __table_args__ = (CheckConstraint("share BETWEEN 0 AND 1", name="share"),)

    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"), primary_key=True)
    share: Mapped[float] = mapped_column(Float)


class Example(Base):
    """Image given as an example, or the withdrawal of an earlier example if `withdraws` is set."""

    __tablename__ = "examples"
    __table_args__ = (
        CheckConstraint("(image IS NULL) = (withdraws IS NOT NULL)", name="image_or_withdrawal"),
        CheckConstraint(f"length(image) <= {MAX_EXAMPLE_BYTES}", name="image_size"),
        UniqueConstraint("withdraws"),
        Index(None, "concept_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(_Seq, primary_key=True)
    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"))
    image: Mapped[bytes | None] = mapped_column(LargeBinary)
    feature: Mapped[bytes | None] = mapped_column(LargeBinary)
    is_positive: Mapped[bool] = mapped_column(Boolean)
    withdraws: Mapped[int | None] = mapped_column(ForeignKey("examples.id"))
    created: Mapped[int] = mapped_column(BigInteger)


class Withdrawal(Base):
    """Withdrawal of a description in words. If `is_withdrawn` is false, the description is used again.

    The last row about a description counts. Labeling doesn't start with a withdrawn description. `direction`
    is the digest of the description's texts. The texts themselves are in the selections.
    """

    __tablename__ = "withdrawals"
    __table_args__ = (
        CheckConstraint("length(direction) > 0", name="direction"),
        Index(None, "concept_id"),
        {"sqlite_autoincrement": True},
    )

    seq: Mapped[int] = mapped_column(_Seq, primary_key=True)
    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"))
    direction: Mapped[str] = mapped_column(_Id)
    is_withdrawn: Mapped[bool] = mapped_column(Boolean)
    annotator: Mapped[str] = mapped_column(_Name)
    created: Mapped[int] = mapped_column(BigInteger)


class ExampleFeature(Base):
    """Features of an example under one of the project's descriptions (ways of computing features).

    `Example.feature` has the features under the first description, "", unless a row here replaces them. If a
    row has no features, the description can't compute features of the image.
    """

    __tablename__ = "example_features"

    example_id: Mapped[int] = mapped_column(ForeignKey("examples.id"), primary_key=True)
    description: Mapped[str] = mapped_column(_Name, primary_key=True)
    feature: Mapped[bytes | None] = mapped_column(LargeBinary)


class Session(Base):
    """Session of one annotator with one concept. The session's id is part of the page's URL."""

    __tablename__ = "sessions"
    __table_args__ = (
        CheckConstraint(f"length(id) BETWEEN {MIN_ID} AND {MAX_ID}", name="id"),
        CheckConstraint("length(annotator) > 0", name="annotator"),
        Index(None, "concept_id"),
    )

    id: Mapped[str] = mapped_column(_Id, primary_key=True)
    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"))
    annotator: Mapped[str] = mapped_column(_Name)
    seed: Mapped[int] = mapped_column(BigInteger)
    strategy: Mapped[str] = mapped_column(_Name)
    parameters: Mapped[dict[str, Any]] = mapped_column(JSON)
    created: Mapped[int] = mapped_column(BigInteger)


class Selection(Base):
    """Reason why an item was shown, with everything that is needed to compute the selection again."""

    __tablename__ = "selections"
    __table_args__ = (
        UniqueConstraint("id"),
        CheckConstraint(f"length(id) BETWEEN {MIN_ID} AND {MAX_ID}", name="id"),
        CheckConstraint("item >= 0", name="item"),
        CheckConstraint(_one_of("why", WHYS), name="why"),
        CheckConstraint("probability > 0 AND probability <= 1", name="probability"),
        CheckConstraint("margin >= 0", name="margin"),
        CheckConstraint("items_scored >= 0 AND items_total >= 0", name="items_scored"),
        CheckConstraint("c > 0", name="c"),
        CheckConstraint("class_weight IN ('balanced')", name="class_weight"),
        CheckConstraint("accuracy BETWEEN 0 AND 1", name="accuracy"),
        Index(None, "session_id", "seq"),
        Index(None, "concept_id", "seq"),
        {"sqlite_autoincrement": True},
    )

    seq: Mapped[int] = mapped_column(_Seq, primary_key=True)
    id: Mapped[str] = mapped_column(_Id)
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"))
    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"))
    round: Mapped[int] = mapped_column(Integer)
    item: Mapped[int] = mapped_column(BigInteger)
    why: Mapped[str] = mapped_column(String(20))
    strategy: Mapped[str] = mapped_column(_Name)
    parameters: Mapped[dict[str, Any]] = mapped_column(JSON)
    probability: Mapped[float | None] = mapped_column(Float)
    margin: Mapped[float | None] = mapped_column(Float)
    selection_ms: Mapped[float] = mapped_column(Float)
    items_scored: Mapped[int] = mapped_column(BigInteger)
    items_total: Mapped[int] = mapped_column(BigInteger)
    retrain_ms: Mapped[float | None] = mapped_column(Float)
    n_labels: Mapped[int] = mapped_column(Integer)
    hyperplane_digest: Mapped[str | None] = mapped_column(String(64))
    trained_through: Mapped[int] = mapped_column(BigInteger)
    examples_through: Mapped[int] = mapped_column(BigInteger)
    c: Mapped[float] = mapped_column(Float)
    class_weight: Mapped[str | None] = mapped_column(String(20))
    leased: Mapped[list[int]] = mapped_column(JSON)
    pool_version: Mapped[int] = mapped_column(Integer)
    seed: Mapped[int] = mapped_column(BigInteger)
    accuracy: Mapped[float | None] = mapped_column(Float)
    created: Mapped[int] = mapped_column(BigInteger)


class Foreseen(Base):
    """Foreseen selection: the next selection if the annotator gives a particular answer to the current item.

    It is stored before it is sent to the browser, and moves to `selections` when it is shown or answered.
    This table is not a log: the oldest rows of a session are deleted.
    """

    __tablename__ = "foreseen"
    __table_args__ = (
        UniqueConstraint("id"),
        Index(None, "session_id", "seq"),
        {"sqlite_autoincrement": True},
    )

    seq: Mapped[int] = mapped_column(_Seq, primary_key=True)
    id: Mapped[str] = mapped_column(_Id)
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"))
    selection: Mapped[dict[str, Any]] = mapped_column(JSON)


class SessionLease(Base):
    """Items leased to a session, if several servers share the project; see `storage.leases`.

    `scope` separates the leases of labeling a concept from the leases of adjudicating it. `heard` is the time
    of the session's last activity, in milliseconds since 1970 UTC by the database's clock. If only one server
    serves the project, rows have no items, and store only this time; see `storage.leases.Activity`.
    """

    __tablename__ = "session_leases"

    scope: Mapped[str] = mapped_column(_Id, primary_key=True)
    session_id: Mapped[str] = mapped_column(_Id, primary_key=True)
    items: Mapped[list[int]] = mapped_column(JSON)
    heard: Mapped[int] = mapped_column(BigInteger)


class EndedLease(Base):
    """Items whose lease a session has ended. Rows that are older than a lease's lifetime are deleted."""

    __tablename__ = "ended_leases"
    __table_args__ = (Index(None, "scope", "seq"), {"sqlite_autoincrement": True})

    seq: Mapped[int] = mapped_column(_Seq, primary_key=True)
    scope: Mapped[str] = mapped_column(_Id)
    session_id: Mapped[str] = mapped_column(_Id)
    items: Mapped[list[int]] = mapped_column(JSON)
    ended: Mapped[int] = mapped_column(BigInteger)


class SessionClaim(Base):
    """The server that has a session open, if several servers share the project; see `storage.session_claims`.

    `number` counts how often the session has changed servers. `renewed` is the time of the session's last
    activity, in milliseconds since 1970 UTC by the database's clock, and may lag behind.
    """

    __tablename__ = "session_claims"

    session_id: Mapped[str] = mapped_column(_Id, primary_key=True)
    server: Mapped[str] = mapped_column(_Id)
    number: Mapped[int] = mapped_column(BigInteger)
    renewed: Mapped[int] = mapped_column(BigInteger)


class Grouping(Base):
    """A set of groups of near-duplicates. Selections refer to it by `digest`; `content` has its groups."""

    __tablename__ = "groupings"
    __table_args__ = (CheckConstraint("length(digest) > 0", name="digest"),)

    digest: Mapped[str] = mapped_column(String(64), primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


class Token(Base):
    """Credential of a program, as the digest of its text. A revoked token stays in the table."""

    __tablename__ = "tokens"
    __table_args__ = (
        UniqueConstraint("digest"),
        CheckConstraint("length(annotator) > 0", name="annotator"),
        CheckConstraint(_one_of("scope", SCOPES), name="scope"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    digest: Mapped[str] = mapped_column(String(64))
    annotator: Mapped[str] = mapped_column(_Name)
    scope: Mapped[str] = mapped_column(String(10))
    note: Mapped[str] = mapped_column(_Name)
    created: Mapped[int] = mapped_column(BigInteger)
    expires: Mapped[int | None] = mapped_column(BigInteger)
    revoked: Mapped[int | None] = mapped_column(BigInteger)


class Secret(Base):
    """Random bytes by name, which all servers of the project know. Backups don't contain them."""

    __tablename__ = "secrets"

    name: Mapped[str] = mapped_column(String(20), primary_key=True)
    value: Mapped[bytes] = mapped_column(LargeBinary)


class PredictionSet(Base):
    """Predictions of another model for a concept. Importing a new file replaces the predictions."""

    __tablename__ = "prediction_sets"
    __table_args__ = (
        CheckConstraint("length(model) > 0", name="model"),
        UniqueConstraint("concept_id", "model"),
    )

    id: Mapped[int] = mapped_column(Integer, primary_key=True)
    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"))
    model: Mapped[str] = mapped_column(_Name)
    file: Mapped[str] = mapped_column(Text)
    digest: Mapped[str] = mapped_column(String(64))
    created: Mapped[int] = mapped_column(BigInteger)


class Prediction(Base):
    """Prediction of another model for an item: a score, yes or no, or both."""

    __tablename__ = "predictions"
    __table_args__ = (
        CheckConstraint("item >= 0", name="item"),
        CheckConstraint("label IN ('yes', 'no')", name="label"),
        CheckConstraint("score IS NOT NULL OR label IS NOT NULL", name="says"),
        {"sqlite_with_rowid": False},
    )

    set_id: Mapped[int] = mapped_column(ForeignKey("prediction_sets.id"), primary_key=True)
    item: Mapped[int] = mapped_column(BigInteger, primary_key=True, autoincrement=False)
    score: Mapped[float | None] = mapped_column(Float)
    label: Mapped[str | None] = mapped_column(String(10))


class Happening(Base):
    """Fact about a project, other than an answer, that webhooks report to other programs.

    `kind` and `key` identify the fact, so that it is recorded once. `after` is the `seq` of the last answer
    before the fact.
    """

    __tablename__ = "happenings"
    __table_args__ = (
        UniqueConstraint("id"),
        UniqueConstraint("kind", "key"),
        CheckConstraint(_one_of("kind", HAPPENINGS), name="kind"),
        {"sqlite_autoincrement": True},
    )

    seq: Mapped[int] = mapped_column(_Seq, primary_key=True)
    id: Mapped[str] = mapped_column(_Id)
    kind: Mapped[str] = mapped_column(String(20))
    key: Mapped[str] = mapped_column(_Name)
    concept_id: Mapped[int | None] = mapped_column(ForeignKey("concepts.id"))
    after: Mapped[int] = mapped_column(BigInteger)
    data: Mapped[dict[str, Any]] = mapped_column(JSON)
    created: Mapped[int] = mapped_column(BigInteger)


class Webhook(Base):
    """Address that gets a project's events, and how far they have been delivered.

    `answers_through` and `happenings_through` are the positions in both logs up to which all events have been
    delivered. `failures` is the number of failed attempts since the last success.
    """

    __tablename__ = "webhooks"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(_Seq, primary_key=True)
    url: Mapped[str] = mapped_column(String(MAX_URL))
    secret: Mapped[str] = mapped_column(_Name)
    kinds: Mapped[list[str]] = mapped_column(JSON)
    concept_id: Mapped[int | None] = mapped_column(ForeignKey("concepts.id"))
    created: Mapped[int] = mapped_column(BigInteger)
    created_by: Mapped[str] = mapped_column(_Name)
    answers_through: Mapped[int] = mapped_column(BigInteger)
    happenings_through: Mapped[int] = mapped_column(BigInteger)
    failures: Mapped[int] = mapped_column(Integer)
    last_problem: Mapped[str | None] = mapped_column(Text)
    last_success: Mapped[int | None] = mapped_column(BigInteger)
    is_paused: Mapped[bool] = mapped_column(Boolean)


class Answer(Base):
    """Answer of an annotator about an item. Rows are in the order in which they were stored."""

    __tablename__ = "answers"
    __table_args__ = (
        UniqueConstraint("id"),
        UniqueConstraint("undoes"),
        CheckConstraint(f"length(id) BETWEEN {MIN_ID} AND {MAX_ID}", name="id"),
        CheckConstraint("item >= 0", name="item"),
        CheckConstraint(_one_of("answer", ANSWERS), name="answer"),
        CheckConstraint(_one_of("purpose", PURPOSES), name="purpose"),
        CheckConstraint("(answer = 'undo') = (undoes IS NOT NULL)", name="undoes"),
        CheckConstraint("undoes IS NULL OR corrects IS NULL", name="undoes_or_corrects"),
        CheckConstraint("undoes <> id AND corrects <> id", name="not_itself"),
        CheckConstraint("time_taken_ms >= 0", name="time_taken_ms"),
        Index(None, "concept_id", "seq"),
        Index(None, "session_id", "seq"),
        Index(None, "selection_id"),
        {"sqlite_autoincrement": True},
    )

    seq: Mapped[int] = mapped_column(_Seq, primary_key=True)
    id: Mapped[str] = mapped_column(_Id)
    concept_id: Mapped[int] = mapped_column(ForeignKey("concepts.id"))
    session_id: Mapped[str] = mapped_column(ForeignKey("sessions.id"))
    selection_id: Mapped[str | None] = mapped_column(ForeignKey("selections.id"))
    item: Mapped[int] = mapped_column(BigInteger)
    answer: Mapped[str] = mapped_column(String(10))
    undoes: Mapped[str | None] = mapped_column(ForeignKey("answers.id"))
    corrects: Mapped[str | None] = mapped_column(ForeignKey("answers.id"))
    annotator: Mapped[str] = mapped_column(_Name)
    purpose: Mapped[str] = mapped_column(String(10))
    browser_time: Mapped[int] = mapped_column(BigInteger)
    server_time: Mapped[int] = mapped_column(BigInteger)
    time_taken_ms: Mapped[int | None] = mapped_column(BigInteger)
