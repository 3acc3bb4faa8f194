"""Images on HTTP servers and in object storage: in a list of addresses, or in a folder."""

from __future__ import annotations

from closecall.core.sources.remote.address_list import AddressList
from closecall.core.sources.remote.remote_folder import RemoteFolder

__all__ = ["AddressList", "RemoteFolder"]
