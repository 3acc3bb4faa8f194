"""Installing Debian's packages, where it may be done, for programs that tests need."""

from __future__ import annotations

import os
import shutil
import subprocess


def install(*packages: str) -> bool:
    """Install the packages if this is Debian and the user is root; return whether they are installed now."""
    if not (shutil.which("apt-get") and hasattr(os, "geteuid") and os.geteuid() == 0):
        return False
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    words = [["update", "-qq"], ["install", "-y", "-qq", "--no-install-recommends", *packages]]
    codes = [
        subprocess.run(["apt-get", *some], check=False, stdout=subprocess.DEVNULL, env=environment).returncode
        for some in words
    ]
    return codes[-1] == 0
