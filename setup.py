"""Names the packages of the wheel: what lies in a top-level folder is imported as part of `closecall`."""

from setuptools import find_namespace_packages, setup

FOLDERS = ["app", "core", "storage"]

setup(
    packages=[
        f"closecall.{name}"
        for name in find_namespace_packages(include=[*FOLDERS, *(f"{folder}.*" for folder in FOLDERS)])
        if "__pycache__" not in name
    ]
)
