"""What a server warns of when it starts."""

from __future__ import annotations

import pytest

from closecall.app.projects.roles import Roles
from closecall.app.server.startup_warnings import cautions, is_own_machine
from closecall.app.sessions.workspace import Workspace
from closecall.storage.filesystem import network_file_system
from tests.projects import new_project

MOUNTS = r"""22 28 0:20 / /proc rw,nosuid shared:5 - proc proc rw
28 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
30 28 0:40 / /home rw shared:9 - nfs4 files.example.org:/home rw,vers=4.2
31 30 8:2 / /home/local rw - xfs /dev/sda2 rw
32 28 0:41 / /mnt/with\040space rw - cifs //files/share rw
33 28 0:42 / /mnt/ssh rw - fuse.sshfs ada@host:/data rw
34 28 0:43 / /mnt/dav rw - fuse https://host/dav rw
35 28 0:44 / /mnt/ntfs rw - fuseblk /dev/sdb1 rw
36 28 0:45 / /mnt/twice rw - nfs host:/a rw
37 36 8:3 / /mnt/twice rw - ext4 /dev/sdc rw
38 28 0:46 / /mnt/zip rw - fuse.archivemount archive.zip rw
39 28 0:47 / /mnt/unknown rw - fuse.mine host.example.org:/x rw
40 28 0:48 / /mnt/over rw - overlay overlay rw,lowerdir=/nfs
half a line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/", None),
        ("/srv/labels", None),
        ("/home", "nfs4"),
        ("/home/ada/projects", "nfs4"),
        ("/homes/ada", None),
        ("/home/local/ada", None),
        ("/mnt/with space/x", "cifs"),
        ("/mnt/ssh/x", "fuse.sshfs"),
        ("/mnt/dav/x", "fuse"),
        ("/mnt/ntfs/x", None),
        ("/mnt/twice/x", None),
        ("/mnt/zip/x", None),
        ("/mnt/unknown/x", "fuse.mine"),
        ("/mnt/over/x", None),
    ],
)
def test_the_nearest_mount_tells(tmp_path, path, kind):
    """The last one over the same folder; names may have spaces."""
    mounts = tmp_path / "mountinfo"
    mounts.write_text(MOUNTS)
    assert network_file_system(path, mounts) == kind


def test_links_lead_to_where_the_labels_are(tmp_path):
    """A link from a disk to a network is on the network."""
    (tmp_path / "there").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "there")
    mounts = tmp_path / "mountinfo"
    mounts.write_text(f"1 1 0:1 / / rw - ext4 /dev/sda rw\n2 1 0:2 / {tmp_path / 'there'} rw - nfs h:/ rw\n")
    assert network_file_system(tmp_path / "link" / "project", mounts) == "nfs"
    assert network_file_system(tmp_path / "project", mounts) is None


def test_systems_that_do_not_say(tmp_path):
    """No warning, and no error."""
    assert network_file_system(tmp_path, tmp_path / "no mountinfo") is None


@pytest.fixture
def on_nfs(monkeypatch):
    """Every folder is on a network."""
    monkeypatch.setattr("closecall.app.server.startup_warnings.network_file_system", lambda _: "nfs4")


def test_labels_in_files_on_a_network_are_warned_of(tmp_path, on_nfs):
    """One sentence for a folder of projects, or for the one project."""
    with Workspace(tmp_path) as workspace:
        key = new_project(workspace).key
        (said,) = cautions(workspace, "127.0.0.1")
        assert all(word in said for word in (str(tmp_path), "nfs4", "PostgreSQL"))
    with Workspace(tmp_path, only=key) as workspace:
        (said,) = cautions(workspace, "127.0.0.1")
        assert str(tmp_path / key) in said


def test_labels_on_a_server_are_not(tmp_path, on_nfs):
    """Where the folder is doesn't matter to them; a project that keeps a file of its own still does."""
    with Workspace(tmp_path, database="postgresql://db/labels") as workspace:
        assert cautions(workspace, "127.0.0.1") == []
    with Workspace(tmp_path) as workspace:
        key = new_project(workspace).key
    with Workspace(tmp_path, database="postgresql://db/labels") as workspace:
        (said,) = cautions(workspace, "127.0.0.1")
        assert str(tmp_path / key) in said


@pytest.mark.parametrize("host", ["127.0.0.1", "::1", "localhost", "127.0.1.1"])
def test_nobody_else_reaches_the_own_machine(tmp_path, host):
    """There names may be taken at their word."""
    with Workspace(tmp_path) as workspace:
        assert cautions(workspace, host) == []


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.7"])
def test_listening_to_others_while_names_are_taken_at_their_word(tmp_path, host):
    """It is said; not where people sign in."""
    assert not is_own_machine(host)
    with Workspace(tmp_path) as workspace:
        (said,) = cautions(workspace, host)
        assert host in said
        assert "any name" in said
    with Workspace(tmp_path, roles=Roles(must_sign_in=True)) as workspace:
        assert cautions(workspace, host) == []
