// The JSON that the server and the components exchange.

/** The interface that Streamlit hands to a component with each payload. */
export interface Component<Data> {
  data: Data;
  parentElement: ShadowRoot;
  setStateValue(name: string, value: unknown): void;
  setTriggerValue(name: string, value: unknown): void;
}

/** A component mounted in the page. */
export interface Mounted<Data> {
  update(component: Component<Data>): void;
  close(): void;
}

export type Word = "yes" | "no" | "skip" | "unsure";
export type WordOrUndo = Word | "undo";

/** The reason why an item can't be answered here: its answer, a tie, or a lease of another session ("held"). */
export type Standing = Word | "tied" | "held";

/** An answer waiting to be saved. */
export interface Answer {
  id: string;
  session: string;
  item: number;
  answer: WordOrUndo;
  /** The id of the selection that showed the item; null for an undo or a correction. */
  selection: string | null;
  /** The id of the answer that this one takes back. */
  undoes: string | null;
  /** The id of the answer that this one replaces. */
  corrects: string | null;
  time_taken_ms: number | null;
  /** Milliseconds since 1970-01-01 UTC. */
  browser_time: number;
  /** The selection that the card showed next. */
  next?: string | null;
  /** Other items that get the same answer. */
  group?: number[];
  /** With several classes: the chosen class, null for none. */
  concept?: number | null;
  /** With several classes: all that were offered. */
  classes?: number[];
}

/** An answer as a component creates it; the outbox adds the other fields. */
export type NewAnswer = Pick<Answer, "item" | "answer"> & Partial<Answer>;

/** An answer in the browser's storage; entries are sent in order of `place`. */
export interface Entry {
  place: number;
  answer: Answer;
}

export interface Refusal {
  id: string;
  reason: string;
}

/** The outcome of sent answers, part of every payload. */
export interface Settled {
  acked: string[];
  refused: Refusal[];
}

/** The address and the key with which a card sends requests. */
export interface Http {
  address: string;
  key: string;
  /** Number of changes of questions that the page knows of. */
  changes: number;
  view: string;
  /** Number of items of a grid. */
  size: number | null;
}

/** The fields of a payload that `Line` reads. */
export interface Payload extends Settled {
  session: string;
  message: string | null;
  http?: Http | null;
  /** Payloads of one process are numbered in the order in which they were made. */
  stamp?: { process: string; number: number };
}

/** The items that may follow, once they are known. */
export interface AheadData {
  next: Record<string, Following>;
  pictures: Record<string, string>;
  next_is_coming: boolean;
}

export interface TextPart {
  kind: string;
  text: string;
}

/** The title and the first lines of a text. */
export interface Opening {
  title: string;
  text: string;
}

/** An item in view and the selection that chose it. */
export interface Item {
  id: number;
  selection: string;
  alt: string;
  src?: string;
  /** Why the picture can't be shown, as a sentence. */
  problem?: string;
  text?: TextPart[];
  /** Says that the item is one of several near-duplicates. */
  alike?: string;
  /** Number of these near-duplicates, including the item. */
  n_alike?: number;
  original?: Original;
  predicted?: Prediction;
}

/** An image's own pixels. */
export interface Original {
  /** The address of its tiles; "" if `src` of the item has all pixels. */
  src: string;
  /** Size of the upright image in pixels; 0 for a drawing, which has no size of its own. */
  width: number;
  height: number;
  /** Side of a tile in pixels. */
  tile: number;
}

export interface Counts {
  yes: number;
  no: number;
  skip: number;
  unsure: number;
  /** Items about which annotators disagree. */
  tied: number;
  left: number;
}

/** The numbers that are plotted over rounds. */
export type Measured = "selection_ms" | "margin" | "scored" | "retrain_ms" | "accuracy";

export type History = Record<string, (number | null)[]>;

/** The numbers in the margin. */
export interface RoundNotes extends Record<Measured, number | null> {
  full_scan_ms: number | null;
  /** Whether only a part of the items was scanned. */
  full_scan_is_estimate?: boolean;
  full_scan_device?: string | null;
  total: number;
  n_labels: number | null;
  held_out: number;
  always_no: number | null;
  counts: Counts;
  /** The numbers of labels that train, and of the pool's items, at the time of `counts`; `n_labels` and `total` are older. */
  now?: { labels: number; items: number };
  strategy: string;
  strategy_label: string | null;
  why: string | null;
  part: string | null;
  /** Whether it was selected with a smaller budget, because the server was busy. */
  hurried?: boolean;
  /** Number of items that were not searched, because workers did not answer in time. */
  missing?: number;
  searched: string | null;
  awaited: string | null;
  advice: string | null;
  /** Whether the question was reset, that is, another concept has replaced this one. */
  is_replaced: boolean;
  /** In a grid: the number of items. */
  items?: number;
  /** In a grid: the last item's distance from the hyperplane. */
  furthest?: number | null;
  /** With several concepts: the one that these notes are about. */
  asked?: string;
  /** Number of items left to adjudicate. */
  waiting?: number;
}

export interface Concept {
  id?: number;
  question: string;
  guideline: string;
  examples: string[];
}

/** The reason why no item is in view. */
export interface Waiting {
  done: number;
  total: number;
  exhausted: boolean;
  /** Number of items without an answer that are leased to other sessions, if `exhausted`. */
  held: number;
  /** Whether nothing is being prepared, because of a problem that the card's message describes. */
  stopped: boolean;
  message?: string;
}

/** The fields of every payload with items to label. */
export interface Labeling extends Payload {
  project: string;
  concept: Concept;
  round: number;
  notes: RoundNotes;
  history: History;
  waiting: Waiting | null;
  /** Whether near-duplicates have been found in the pool. */
  has_groups: boolean;
}

/** The view that follows an answer. */
export interface Following {
  item: Item;
  round: number;
  notes: RoundNotes;
  concept?: Partial<Concept>;
}

/** One of the latest answers. */
export interface StripEntry {
  answer_id: string;
  /** Position in the log: the entry with the largest one was given last, which the key U undoes. */
  seq: number;
  item: number;
  answer: WordOrUndo;
  /** Whether it is an owner's decision, which can't be corrected to "skip". */
  decides?: boolean;
  /** The answer about a near-duplicate along with which it was given. An undo of that answer undoes this one. */
  along?: string | null;
  src: string;
  concept?: number | null;
}

/** A class that can be chosen. */
export interface Class {
  key: string;
  concept: number;
  name: string;
}

/** The item in view compared with a full scan of the pool. */
export interface Check {
  selection: string;
  is_coming: boolean;
  problem: string | null;
  /** Whether items are judged by wᵀx + b, as likely positives are; otherwise by |wᵀx + b|. */
  by_score: boolean;
  /** Whether a part of the strategy selected the item for neither. */
  is_apart: boolean;
  rank: number;
  items: number;
  value: number;
  best: number;
  selection_ms: number;
  full_scan_ms: number;
}

export interface CardData extends Labeling {
  item: Item | null;
  next: Record<string, Following>;
  /** Image addresses by item id. */
  pictures: Record<string, string>;
  next_is_coming: boolean;
  strip: StripEntry[];
  classes?: Class[];
  /** With several concepts: the one that selects next. */
  turn?: { concept: number; history: History };
  blind?: boolean;
  autopilot?: Record<string, Word> | null;
  check?: Check | null;
  group?: Group | null;
}

/** Near-duplicates of the item in view that can be answered together with it. */
export interface Group {
  selection: string;
  /** The items that are shown. */
  members: { id: number; src: string }[];
  /** The items that are not shown, and get the same answer. */
  more: number[];
  is_coming: boolean;
}

/** A place in a grid. */
export interface Cell {
  id: number;
  /** null if the item can't be answered here; `stands` then gives the reason. */
  selection: string | null;
  alt: string;
  src: string;
  problem?: string;
  answer: Word | null;
  answer_id: string | null;
  stands?: Standing;
  alike?: string;
  n_alike?: number;
  original?: Original;
  predicted?: Prediction;
}

export interface Search {
  text: string;
  found: number;
  total: number;
  first: number;
  page: number;
  /** Maximum length of a text. */
  longest: number;
  /** By name: a name in the pool, as an example. */
  like?: string;
  /** By words: what is excluded, and why there is no result. */
  words?: { excluded: string; problem: string | null };
  /** In a lasso: why there is no result. `found` of the `total` items in the lasso are left to answer. */
  lasso?: { problem: string | null };
  /** By predictions: how the items were chosen, and why there are none. */
  predicted?: { how: string; none: string };
}

/** The prediction of another model for an item. */
export interface Prediction {
  model: string;
  answer: "yes" | "no";
  score: number | null;
}

export interface GridData extends Labeling {
  cells: Cell[];
  last: Cell[];
  last_round: number;
  search?: Search;
}

/** A cell of the Find similar page, in one of its two lists. */
export interface SimilarCell extends Cell {
  list: Metric;
  place: number;
  /** Degrees, if it is an angle. */
  value: number;
  measure: Measure;
  opening?: Opening;
  text?: TextPart[];
}

export type Measure = "angle" | "distance" | "kernel" | "overlap";

export interface Taught {
  used: number;
  of: number;
  paired: number | null;
  pairs: number | null;
}

export type Metric = "original" | "learned";

export interface Like {
  word: string;
  name: string;
  pictures: string[];
  openings: Opening[];
  n: number;
  of: number;
  audited: number;
}

export interface Learning {
  labels?: number | null;
  gamma?: number | null;
  age: number | null;
  is_coming: boolean;
  missing: string | null;
  newer: boolean;
  problem: string | null;
}

export interface Searched {
  ms: number;
  compared: number;
  in_full: number;
  items: number;
  method: string;
  measure: Measure;
  taught: Taught | null;
  is_exact: boolean;
  awaited: { label: string; share: number; problem: string | null } | null;
  recall: number | null;
  exact_ms: number | null;
  course: Record<"ms" | "share" | "recall", (number | null)[]>;
}

export interface Found {
  yes: number;
  of: number;
  new_yes: number;
  new: number;
}

export interface Among {
  named: string;
  by_truth: boolean;
  nearest: number;
  rows: Partial<Record<Metric, Found>>;
}

export interface About {
  like: Like | null;
  page: number;
  first: number;
  found: number;
  total: number;
  view: string;
  problem: string | null;
  kind: "image" | "text" | "vector" | "set" | "item";
  why_no_upload: string | null;
  several?: boolean;
  metric: Learning;
  undo: { item: number; undoes: string }[];
  search: Searched | null;
  among: Among | null;
  pending: boolean;
}

export interface SimilarData extends Labeling {
  cells: SimilarCell[];
  similar: About;
}

export interface ReviewEvent {
  id: string;
  annotator: string;
  /** The owner who decided; null if the answer is a vote. */
  decides: string | null;
  answer: WordOrUndo;
  undoes: string | null;
  time: number;
  taken_ms: number | null;
  round: number | null;
  chosen_by: string | null;
  is_correction: boolean;
  in_force: boolean;
}

export interface ReviewRow {
  item: number;
  name: string;
  src: string | null;
  score: number | null;
  events: ReviewEvent[];
}

export type ReviewView = "doubted" | "contested" | "all" | Word;

/** The list that the page requests. */
export interface Asked {
  view: ReviewView;
  line: string;
  first: number;
  fresh: number;
  again: number;
}

export interface ReviewNotes {
  doubted: number | null;
  labels: number;
  corrected: number;
  corrected_last: number | null;
  agreement: { names: string[]; items: number; kappa: number | null } | null;
  pace_ms: number | null;
  paces_ms: number[];
  counts: Counts;
}

export interface ReviewData extends Settled {
  project: string;
  session: string;
  annotator: string;
  asked: Asked;
  first: number;
  page: number;
  listed: number;
  views: Record<ReviewView, number>;
  rows: ReviewRow[];
  judged: boolean;
  notes: ReviewNotes;
  problem: string | null;
  message: string | null;
}

export interface Interval {
  estimate: number | null;
  low: number;
  high: number;
}

export type MeasureName = "precision" | "recall" | "found" | "prevalence";

export interface AuditData {
  share: number;
  shares: number[];
  level: number;
  drawn: number;
  judged: ({ answers: number; yes: number } & Record<MeasureName, Interval>) | null;
}

export interface Milestone {
  labels: number;
  cross_validated: number | null;
  held_out: number | null;
  within_margin: number;
  agreement: number | null;
}

export interface ProgressData {
  question: string;
  advice: { stop: boolean; reason: string };
  /** The share of predictions that `labels` more labels probably change at most; null if it can't be told yet. */
  ahead: { labels: number; share: number } | null;
  enough: number;
  is_coming: boolean;
  counts: Counts;
  labels: number;
  items: number;
  course: { when: number[]; yes: number[]; no: number[] };
  milestones: Milestone[];
  audit: AuditData;
  /** Whether the person may change the audit. */
  is_owner: boolean;
}

export interface PersonRow {
  name: string;
  is_you: boolean;
  today: number;
  items: number;
  per_hour: number | null;
  seconds: number | null;
}

export interface PairRow {
  names: string[];
  items: number;
  kappa: number | null;
  interval: [number, number] | null;
}

/** How a tab tells that it is closed. */
export interface PresenceData {
  /** The address of the session in the HTTP API; null if the page has no session. */
  address: string | null;
  /** The key with which the page uses that address. */
  key: string;
  /** Number of changes of questions that the page knows of. */
  changes: number;
  /** Whether the page runs again when a question has changed. */
  follows: boolean;
  /** The address of the session that the tab has just left, or null. */
  left: string | null;
  /** The browser's id, by which people without a name are told apart. */
  browser: string;
}

export interface PeopleData {
  question: string;
  is_owner: boolean;
  people: PersonRow[];
  pairs: PairRow[];
  together: {
    alpha: number | null;
    interval: [number, number] | null;
    items: number;
    fleiss: number | null;
    fleiss_items: number;
    voices: number;
  } | null;
  contested: number;
  decided: number;
}

/** The 10th, 25th, 50th, 75th and 90th percentile of some values, and the newest value. */
export interface Spread {
  now: number | null;
  low: number;
  q1: number;
  median: number;
  q3: number;
  high: number;
}

interface CompareRowBase {
  strategy: string;
  label: string;
  in_use: boolean;
  message: string;
}

export interface ShownRow extends CompareRowBase {
  state: "shown";
  src: string;
  alt: string;
  ms: Spread;
  ratio: number;
  margin: Spread & { now: number };
  rank: number;
  typical_rank: number;
  sought: "nearest" | "likeliest" | "other";
  scored: number;
  share: number;
}

export type CompareRow = ShownRow | (CompareRowBase & { state: "waiting" });

export interface CompareData {
  headline: string;
  about: string;
  rows: CompareRow[];
  n: number;
  is_coming: boolean;
  trouble: string | null;
}

export interface Lane {
  strategy: string;
  label: string;
  in_use: boolean;
}

/** AUROC, |wᵀx|, milliseconds and items scored in one lane's round; null if the lane has dropped out. */
export type LaneTurn = [number, number | null, number, number] | null;

export interface RaceData {
  /** The key of the race; null while there is none. */
  race: string | null;
  /** Why the race lacks strategies that the page compares; "" if it lacks none. */
  absent?: string;
  message?: string;
  trouble?: string | null;
  is_coming?: boolean;
  lanes: Lane[];
  rounds: number;
  first_auroc: number;
  held_out: number;
  speeds: number[];
  first_picks: number;
  label_seconds: number;
}

/** The rounds and images added to a race since the last request. */
export interface RaceNews {
  known: number;
  turns: LaneTurn[][];
  firsts: string[][];
  picks: string[] | null;
  failures: (string | null)[];
  is_running: boolean;
  is_over: boolean;
  speed: number;
}

/** The points of a line: x values, and y values where they are known. */
export interface Course {
  xs: number[];
  ys: (number | null)[];
}

/** The x values at which two lanes reach the same y. */
export interface Guide {
  from: number;
  to: number;
  y: number;
  write: (x: number) => string;
}

export interface Side {
  strategy: string;
  label: string;
  labels: number;
  yes: number;
  auroc: number | null;
  curve: [number, number][];
  firsts: { src: string; yes: boolean }[];
}

export interface VerdictData {
  headline: string;
  about: string;
  sides: Side[];
  most: number;
}

/** A mapping from numbers to 0 … 1, with its ticks. */
export interface Scale {
  at: (value: number) => number;
  ticks: number[];
  write: (value: number) => string;
}

/** A place on the map: fractions of its side. */
export interface Place {
  x: number;
  y: number;
}

/** The state of a map; see `LiveMap.about`. */
export interface MapData {
  /** The key of the map. */
  map: string;
  /** Counts the hyperplanes under which the tiles were painted. */
  version: number;
  question: string;
  word: string;
  items: number;
  /** The number of items in the pool that have no place on the map. */
  elsewhere: number;
  labels: number;
  /** The number of items on the side of yes; null without a hyperplane. */
  positive: number | null;
  band: { items: number; margin: number } | null;
  /** The last answers, newest first. */
  marks: [number, number, "yes" | "no"][];
  /** The number of cells on the side of a tile. */
  cells: number;
  /** The greatest zoom at which tiles are worthwhile. */
  finest: number;
  trouble: string | null;
  /** Whether a lasso can be opened as a grid; only the page says so. */
  offers_grid?: boolean;
  /** Why the lasso that was sent last can't be opened; only the page says so. */
  refused?: string | null;
}

export interface MapItem extends Place {
  id: number;
  alt: string;
  score: number | null;
  stands: Standing | "";
  src?: string;
  problem?: string;
  opening?: Opening;
}

/** The items in a lasso, and those of them that are nearest the hyperplane. */
export interface LassoData {
  found: number;
  positive: number | null;
  /** The number of items without an answer. */
  open: number;
  items: MapItem[];
  /** The lasso as the server keeps it. */
  lasso: unknown;
}
