"""Published bounds to compare with, each exactly its paper's.

Each one is a module or an object with the interface of
`shuffle_accountant.baselines.question.PublishedBound`, and is imported when it is first asked for.
`BOUNDS` holds all of them as objects of one kind.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from shuffle_accountant.facades import lazy_attributes

if TYPE_CHECKING:
    from shuffle_accountant.baselines import (
        alpha_grid,
        girgis,
        rdp,
        strong_composition,
    )
    from shuffle_accountant.baselines.closed_forms import (
        clones_closed_form,
        clones_enumeration,
        erlingsson,
        specialised_clones,
        strong_clones_closed_form,
    )
    from shuffle_accountant.baselines.one_epoch import (
        allocation_berry_esseen,
        allocation_decomposition,
        allocation_poisson,
    )
    from shuffle_accountant.baselines.privacy_blanket import blanket_bennett, blanket_hoeffding
    from shuffle_accountant.baselines.question import BOUNDS

__all__ = [
    "BOUNDS",
    "allocation_berry_esseen",
    "allocation_decomposition",
    "allocation_poisson",
    "alpha_grid",
    "blanket_bennett",
    "blanket_hoeffding",
    "clones_closed_form",
    "clones_enumeration",
    "erlingsson",
    "girgis",
    "rdp",
    "specialised_clones",
    "strong_clones_closed_form",
    "strong_composition",
]

# Where those are defined that are objects, not modules.
_HOMES = {
    "BOUNDS": "question",
    "allocation_berry_esseen": "one_epoch",
    "allocation_decomposition": "one_epoch",
    "allocation_poisson": "one_epoch",
    "blanket_bennett": "privacy_blanket",
    "blanket_hoeffding": "privacy_blanket",
    "clones_closed_form": "closed_forms",
    "clones_enumeration": "closed_forms",
    "erlingsson": "closed_forms",
    "specialised_clones": "closed_forms",
    "strong_clones_closed_form": "closed_forms",
}

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy_attributes(
        __name__,
        modules={name: name for name in __all__ if name not in _HOMES},
        names=_HOMES,
    )
