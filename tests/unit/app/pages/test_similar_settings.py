"""The settings behind More: which are offered, and how a radius is entered."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from closecall.app.indexes.recipe import Recipe
from closecall.app.indexes.settings import EXACT, OFFERED, STRUCTURES
from closecall.app.pages import similar_settings
from closecall.app.pages import state as page_state
from closecall.app.pages.similar_settings import Draft, _number, _offered
from closecall.core.hashing.forms import forms_named


@pytest.mark.parametrize("structure", [name for name in STRUCTURES if name != EXACT])
@pytest.mark.parametrize("family", OFFERED)
def test_a_radius_is_offered_where_it_is_guaranteed(family, structure):
    """For tables of three families, in each of their forms; ε follows once there is a radius."""
    for form in forms_named(family):
        recipe = Recipe(structure, family, form=form or None)
        offered = _offered(recipe, is_learned=False)
        is_guaranteed = structure == "tables" and family in ("lsh", "shift-invariant", "min-hash")
        assert ("radius" in offered) is is_guaranteed
        assert ("epsilon" in offered) is (structure == "orders")
        if is_guaranteed:
            recipe = recipe.having(radius=30.0)
            assert "epsilon" in _offered(recipe, is_learned=False)
            assert recipe.value("epsilon") > 0


@pytest.mark.parametrize(
    ("family", "offered"), [("lsh", True), ("shift-invariant", True), ("min-hash", False)]
)
def test_under_a_metric_a_radius_is_an_angle(family, offered):
    """What an overlap would be there has no meaning."""
    names = _offered(Recipe("tables", family, radius=30.0), is_learned=True)
    assert ("radius" in names) is ("epsilon" in names) is offered


class Fields:
    """Streamlit's number field, as far as it is used."""

    def number_input(self, label, least, most, **how):
        self.label, self.least, self.most, self.how = label, least, most, how


@pytest.fixture
def fields(monkeypatch):
    made, state = Fields(), {}
    monkeypatch.setattr(similar_settings, "st", made)
    for module in (similar_settings, page_state):
        monkeypatch.setattr(module, "state", state)
    made.state = state
    return made


def draft(recipe: Recipe) -> Draft:
    return Draft(SimpleNamespace(recipe=recipe, id="s"))


@pytest.mark.parametrize(
    ("family", "label", "shown", "limits", "entered", "radius"),
    [
        ("lsh", "Radius (°)", 40.0, (0.1, 179.9), 25.0, 25.0),
        ("min-hash", "Least overlap (%)", 60.0, (0.1, 99.9), 75.0, 25.0),
    ],
)
def test_a_radius_is_entered_in_the_unit_of_the_page(fields, family, label, shown, limits, entered, radius):
    """Items show their angle or their overlap; an empty field sets none."""
    one = draft(Recipe("tables", family, radius=40.0))
    _number(one, "radius")
    assert (fields.label, fields.state["more-radius"]) == (label, shown)
    assert (fields.least, fields.most) == pytest.approx(limits)
    fields.state["more-radius"] = entered
    fields.how["on_change"]()
    assert one.recipe.radius == radius
    one.recipe.check(1_000)
    fields.state["more-radius"] = None
    fields.how["on_change"]()
    assert one.recipe == Recipe("tables", family)


def test_a_share_is_shown_in_percent(fields):
    """And stored as a share."""
    one = draft(Recipe("table", share=0.25))
    _number(one, "share")
    assert (fields.how["value"], fields.least, fields.most) == (25.0, 0.01, 100.0)
    fields.state["more-share"] = 12.5
    fields.how["on_change"]()
    assert one.recipe == Recipe("table", share=0.125)


def test_a_field_is_set_only_where_another_value_was_entered_elsewhere(fields):
    """Setting it discards what is being typed."""
    one = draft(Recipe("table", share=0.25))
    fields.state["more-share"] = 12.5
    _number(one, "share")
    assert (fields.state["more-share"], fields.how["value"]) == (25.0, 25.0)
    as_set = fields.state["more-share"]
    _number(one, "share")
    assert fields.state["more-share"] is as_set
