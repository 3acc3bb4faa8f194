"""The start page: the projects, and the form for a new one."""

from __future__ import annotations

import html
from collections.abc import Callable, Sequence
from typing import Protocol

import streamlit as st

from closecall.app.display import phrases as words
from closecall.app.pages.choose_class import NO_CLASS
from closecall.app.pages.folder_field import choose_folder, counted_images
from closecall.app.pages.image_model import choose_features
from closecall.app.pages.markdown import literal
from closecall.app.pages.person import IS_NEW, name_at_page, take_name
from closecall.app.pages.pool_sources import CHOICES, Field, source_word
from closecall.app.pages.press import Press
from closecall.app.pages.problems import show_problem
from closecall.app.pages.state import state
from closecall.app.projects.data_folder import former_folder_beside
from closecall.app.projects.folder_classes import FolderClasses, classes_of_paths, given_source
from closecall.app.projects.folders import usual_folders
from closecall.app.projects.image_models import ChosenFeatures
from closecall.app.projects.positive_class import guess_class, possible_classes
from closecall.app.projects.roles import SOMEBODY, Person
from closecall.app.projects.uploaded_folders import MOST_FILES
from closecall.app.projects.uploaded_images import uploadable
from closecall.app.sessions.new_project import NewProject, SameProjectError
from closecall.app.sessions.workspace import THUMBNAILS, ProjectSummary, Workspace, current
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError

WATCH_SECONDS = 2
DEMO_SIZES = (1_000_000, 200_000, 50_000, 20_000)

MAY_HAVE_FOLDERS = ("folder", "tar", "video", "arrays", "texts")
"""Kinds of items whose folder names may be classes."""

SAME, LAST, PRESSED = "same", "last", "pressed"
"""Keys in Streamlit's session state: the entered words, and the `SameProjectError` that they caused; the last
`Press`, which makes a project's key; the classes that the page showed when its button was pressed.
"""

DROPPED_PATHS = """
<script>
  window.closecallDrops ??= (() => {
    const path = Object.getOwnPropertyDescriptor(File.prototype, "webkitRelativePath");
    return Object.defineProperty(File.prototype, "webkitRelativePath", {
      ...path,
      get() { return path.get.call(this) || (this.relativePath ?? "").replace(/^[.]?[/]/, ""); },
    });
  })();
</script>
"""
"""Script that gives the files of a dropped folder their paths. Without it, Streamlit sends bare names."""


class Uploaded(Protocol):
    """A file that a person chose in the browser."""

    name: str

    def getvalue(self) -> bytes:
        """Return the content."""


def main() -> None:
    """List the projects. Beside the list, show owners the form for a new project, if new ones are allowed."""
    try:
        workspace = current()
        name_at_page()
    except InputError as error:
        show_problem(error)
        return
    st.session_state.pop(IS_NEW, None)  # taking a name on this page leads to no other page
    with st.container(key="start", horizontal=True, gap=None):
        with st.container(key="projects"):
            st.title("Projects", anchor=False)
            if needs_name(workspace):
                with st.container(width=480):
                    st.markdown("The projects here are open to named people only.")
                    take_name()
                return
            list_projects(workspace)
            if former := former_folder_beside(workspace.folder):
                here = literal(str(workspace.folder))
                st.caption(f"These are in {here}. Older ones are served by `closecall serve {former}`.")
        person = workspace_person(workspace)
        if workspace.can_create and person is not None and person.is_owner:
            with st.container(key="new"):
                st.header("New project", anchor=False)
                new_project(workspace, person)


def needs_name(workspace: Workspace) -> bool:
    """Return whether the visitor has no name and therefore sees none of the projects that there are."""
    if workspace.roles.must_sign_in or name_at_page() != SOMEBODY:
        return False
    return bool(workspace.served_keys()) and not workspace.projects(SOMEBODY)


def workspace_person(workspace: Workspace) -> Person | None:
    """Return the person at the page if they may enter all projects, otherwise None."""
    try:
        return workspace.roles.person(name_at_page())
    except InputError:
        return None


def list_projects(workspace: Workspace) -> None:
    """Show the projects; while a pool grows, update the list every `WATCH_SECONDS`."""
    summaries = workspace.projects(name_at_page())
    growing = any(summary.build for summary in summaries)
    st.fragment(show_projects, run_every=WATCH_SECONDS if growing else None)(workspace)


def show_projects(workspace: Workspace) -> None:
    """Show a card for each project."""
    summaries = workspace.projects(name_at_page())
    if not summaries:
        st.html(f'<p class="m-empty">{html.escape(why_none(workspace))}</p>')
    for place, summary in enumerate(summaries):
        show_project(summary, foremost=place == 0)


def why_none(workspace: Workspace) -> str:
    """Return the message for an empty list of projects."""
    if workspace.projects():
        return f"{name_at_page()} has no access to any project here. Ask an owner."
    person = workspace_person(workspace)
    if workspace.can_create and person is not None and person.is_owner:
        return "No projects yet. Create one from a folder of images, or from the digits."
    return "No projects yet. Only owners can create them."


def show_project(summary: ProjectSummary, *, foremost: bool) -> None:
    """Show thumbnails, question, progress, and the link of a project."""
    with st.container(key=f"project-{summary.key}", border=True):
        with st.container(key=f"row-{summary.key}"):
            st.html(thumbnails(summary))
            st.html(description(summary))
            go = st.button(
                "Continue" if summary.has_labels else "Start",
                key=f"open-{summary.key}",
                type="primary" if foremost else "secondary",
                width="stretch",
                disabled=not summary.usable,
            )
        if summary.build:
            st.progress(words.done_share(summary.build), text=words.growth(summary.build))
    if go:
        st.switch_page("label.py", query_params={"project": summary.key})


def thumbnails(summary: ProjectSummary) -> str:
    """Return the project's first images as HTML, or placeholders if there are none."""
    images = [f'<img src="{html.escape(url)}" alt="">' for url in summary.thumbnails]
    return f'<div class="m-thumbs">{"".join(images or ["<i></i>"] * THUMBNAILS)}</div>'


def description(summary: ProjectSummary) -> str:
    """Return the project's title, subtitle, status and problem as HTML, with all texts escaped."""
    problem = f'<p class="m-problem">{html.escape(summary.problem)}</p>' if summary.problem else ""
    return (
        f'<div class="m-project"><h3>{html.escape(summary.title)}</h3>'
        f"<p>{html.escape(summary.subtitle)}</p><p>{html.escape(summary.status)}</p>{problem}</div>"
    )


def new_project(workspace: Workspace, person: Person) -> None:
    """Show the form for a new project, with problems below its button."""
    choice = st.selectbox("Items", list(CHOICES), format_func=lambda name: CHOICES[name].label)
    offered = CHOICES[choice]
    paths = {field.name: path_in(field, workspace, person) for field in offered.fields}
    upload = choose_upload() if choice == "upload" else []
    items = 0
    if choice == "digits":
        items = st.selectbox("How many", DEMO_SIZES, format_func="{:,}".format)
    features = choose_features(workspace) if offered.takes_models else None
    question = st.text_input("Question", placeholder=offered.question)
    classes = found_classes(choice, paths, upload, question)
    use_classes, positive = choose_classes(classes, question)
    files = []
    if offered.takes_examples:
        files = st.file_uploader(
            "Examples of yes (optional)", type=uploadable(), accept_multiple_files=True, key="examples of yes"
        )
    times, guideline, typed_class = more_options(
        offered.can_be_enlarged, asks_class=use_classes is None and choice != "upload"
    )

    def entered() -> NewProject:
        model = features.model if features else None
        word = source_word(choice, paths, items=items, times=times, model=model)
        if choice == "upload" and not upload:
            raise InputError("Choose a folder of images on your computer")
        return NewProject(
            word,
            question,
            typed_class or positive,
            guideline,
            examples=[(file.name, file.getvalue()) for file in files],
            use_classes=use_classes,
            provider=features.provider if features else None,
            dtype=features.dtype if features else None,
            upload=[(file.name, file.getvalue()) for file in upload],
        )

    names = (file.name for file in upload)
    shown = bool(use_classes), guess_class(question, classes) if use_classes else None
    create_and_open(workspace, person, entered, (choice, *paths.values(), question, *names), shown)
    wait = features.wait if features else 0.0
    start = words.about(wait) if wait > 10 else "a few seconds"
    st.caption(
        f"Labeling starts with the first 100 items, after {start}, and continues while the pool grows."
    )
    if features and features.n_features:
        st.caption(space_needed(features, known_number(choice, paths, len(upload), items), times))


def known_number(choice: str, paths: dict[str, str], n_uploaded: int, n_drawn: int) -> int | None:
    """Return the number of items if it is known before the source is read, otherwise None."""
    if choice == "folder":
        counted = counted_images(paths["folder"])
        return counted.images if counted is not None and counted.is_all else None
    return {"upload": n_uploaded, "digits": n_drawn}.get(choice)


def space_needed(features: ChosenFeatures, n_items: int | None, times: int) -> str:
    """Return a sentence about the disk space that features need, in total or per 1,000 items.

    `times` is the enlargement factor.
    """
    if n_items:
        size = words.bytes_in_words(features.disk_space(times * n_items))
        return f"The features of {words.counted(times * n_items, 'item')} need {size} of disk space."
    return f"Features need {words.bytes_in_words(features.disk_space(1000))} of disk space per 1,000 items."


def path_in(field: Field, workspace: Workspace, person: Person) -> str:
    """Show a field for a path, and return its text."""
    if not field.is_folder:
        return st.text_input(
            field.label, placeholder=field.placeholder, help=field.hint, key=f"path-{field.name}"
        )
    return choose_folder(
        field, lambda: [*dict.fromkeys([*workspace.recent_folders(person.name), *usual_folders()])]
    )


def choose_upload() -> list[Uploaded]:
    """Show the field into which people drop a folder of images, and return the images."""
    st.html(DROPPED_PATHS, unsafe_allow_javascript=True)
    files = st.file_uploader(
        "Folder of images",
        type=uploadable(),
        accept_multiple_files="directory",
        help=f"Up to {MOST_FILES:,} images. The machine that runs Closecall keeps a copy of them.",
    )
    return list(files)


def create_and_open(
    workspace: Workspace,
    person: Person,
    entered: Callable[[], NewProject],
    words: tuple[str, ...],
    shown: tuple[bool, str | None],
) -> None:
    """Show the button that creates and opens a project, and problems below the button.

    If there is a project with the same question and items, offer to open that project or to create another.
    The second press of a double click may stop this run of the page before the new project is opened. The
    page then runs again, but the project is created only once.

    The press of the button also ends the typing of a question, which may change the classes that the page
    shows. Such a press creates nothing: the page first shows the classes.

    `entered` returns the values of the form, or raises an InputError. `words` are the words in the form; when
    they change, the offer disappears. `shown` has what `choose_classes` chose by itself: whether there are
    classes, and the class that means yes.
    """
    last: Press[str] = state.setdefault(LAST, Press())
    pressed, another = (
        st.button(
            "Create and label",
            type="primary",
            width="stretch",
            key=f"create {shown}",  # with other classes, it is another button, which was not pressed
            on_click=lambda: state.update({PRESSED: shown}),
        ),
        False,
    )
    if state.pop(PRESSED, shown) != shown:
        st.warning("The classes above have changed. Check them, and then press the button again.")
    if pressed or state.get(SAME, (words,))[0] != words:
        state.pop(SAME, None)
    if SAME in state:
        _, same = state[SAME]
        st.warning(f"{same}.")
        with st.container(horizontal=True):
            if st.button("Open it"):
                st.switch_page("label.py", query_params={"project": same.key})
            another = st.button("Create another")
    if not (pressed or another):
        return
    try:
        with st.spinner("Reading the items…"):
            made = last.once(
                (words, another), lambda: workspace.create(entered(), by=person, unless_same=not another)
            )
    except SameProjectError as error:
        state[SAME] = words, error
        st.rerun()
    except (InputError, StorageError) as error:
        show_problem(error)
    else:
        st.switch_page("label.py", query_params={"project": made})


def found_classes(
    choice: str, paths: dict[str, str], upload: Sequence[Uploaded], question: str
) -> tuple[str, ...]:
    """Return the folder names that may be classes.

    If a folder's images take long to count, return no names before a question is entered: until then, the
    person may still be looking for the right folder.
    """
    if choice == "upload":
        return classes_of_paths([file.name for file in upload])
    if choice not in MAY_HAVE_FOLDERS:
        return ()
    counted = counted_images(paths["folder"]) if choice == "folder" else None
    if choice == "folder" and not question.strip() and (counted is None or not counted.is_all):
        return ()
    try:
        return folder_classes(source_word(choice, paths)).names
    except InputError:  # reported when the project is created
        return ()


def choose_classes(names: tuple[str, ...], question: str) -> tuple[bool | None, str | None]:
    """Show a checkbox for using folder names as classes and, if it is ticked, the class that means yes.

    The checkbox is ticked if the question names a class, until the person changes it.

    The first result tells whether the folder names are used; it is None if `names` is empty. The second
    result is the class that means yes, as in `NewProject`.
    """
    if not names:
        return None, None
    yes = guess_class(question, names)
    by_hand = "classes", names
    value = state.get(by_hand, yes is not None)
    key = f"classes {yes is not None} {names}"  # with another default, it is another checkbox

    def changed() -> None:
        if state[key] != value:  # the browser may send the value of a former checkbox once more
            state[by_hand] = state[key]

    ticked = st.checkbox(
        "Subfolders are classes",
        value=value,
        key=key,
        on_change=changed,
        help="The classes then count as truth. A tenth of the items are held out to measure accuracy, "
        "and never shown for labeling.",
    )
    shown, possible = literal(words.some(names)), possible_classes(question, names)
    if not ticked:
        hint = f" The question may mean {literal(words.some(possible))}: then tick this." if possible else ""
        st.caption(f"Subfolders: {shown}. They do not count as classes: every item can be labeled.{hint}")
        return False, None
    st.caption(f"Classes: {shown}. Some items are held out to measure accuracy.")
    choices = [*dict.fromkeys([*possible, *names])]
    positive = st.selectbox(
        "Class that means yes",
        [NO_CLASS, *choices],
        index=choices.index(yes) + 1 if yes is not None else None,
        placeholder=f"{possible[0]}?" if possible else NO_CLASS,
        key=f"yes {yes} {possible} {names}",
        help="Its items are the true answers, which show accuracy on held-out items while you label.",
    )
    return True, "" if positive in (None, NO_CLASS) else positive


def folder_classes(word: str) -> FolderClasses:
    """Return the possible classes of the source `word`. The last result is cached: listing files is slow."""
    known = st.session_state.get("folder classes")
    if known is None or known[0] != word:
        with st.spinner("Reading the folders…"):
            known = st.session_state["folder classes"] = (word, FolderClasses.of(given_source(word)))
    found: FolderClasses = known[1]
    return found


def more_options(can_be_enlarged: bool, *, asks_class: bool) -> tuple[int, str, str | None]:
    """Show further options; return the enlargement factor, the guideline, and the class that means yes."""
    positive = ""
    with st.expander("More"):
        guideline = st.text_area("Guideline (optional)", placeholder="What annotators should know", height=80)
        if asks_class:
            positive = st.text_input(
                "Class that means yes (optional)",
                help="For items that come with classes: shows accuracy on held-out items while you label.",
            )
        times = 1
        if can_be_enlarged:
            times = st.number_input(
                "Enlarge",
                1,
                1000,
                1,
                help="How many times larger the pool becomes, with shifted and flipped copies.",
            )
    return int(times), guideline, positive.strip() or None


main()
