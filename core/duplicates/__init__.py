"""Near-duplicates and bursts: groups of items that look almost the same."""

from closecall.core.duplicates.bursts import find_bursts
from closecall.core.duplicates.defaults import default_angle
from closecall.core.duplicates.files import Rule, SavedGroups, folder_of, load_groups, save_groups
from closecall.core.duplicates.groups import Groups
from closecall.core.duplicates.held_out import WithHeldOut, straddling, unrepeated_held_out
from closecall.core.duplicates.items import ItemGroups
from closecall.core.duplicates.leaders import near_duplicates

__all__ = [
    "Groups",
    "ItemGroups",
    "Rule",
    "SavedGroups",
    "WithHeldOut",
    "default_angle",
    "find_bursts",
    "folder_of",
    "load_groups",
    "near_duplicates",
    "save_groups",
    "straddling",
    "unrepeated_held_out",
]
