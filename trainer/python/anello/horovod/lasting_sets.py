"""Process sets of an elastic job. Such a set belongs to processes, whose ranks change from world to world."""
from __future__ import annotations

import json
import os
import uuid
from typing import Any, Callable, List, Optional, Sequence, Tuple

from ..errors import Mismatch
from .process_sets import ProcessSet
from .user_warning import warn

_Places = Optional[List[str]]


class LastingSets:
    """The sets that the script gave to init(). All of them are registered in each world.

    In the first world that has all ranks of a set, the set gets the places of these ranks. From then on its members are
    the processes at these places. A process that replaces another one at its place (ANELLO_PLACE) belongs to the set
    too. Without places, a set keeps the processes that it began with. A set whose processes have all ended has no
    ranks.

    Attributes:
        all: the sets, in the order in which they are registered; their ids are 1, 2, ... in each world.
        has_begun: True when this process has begun in a world, with these sets or without sets.
    """

    def __init__(self, sets: Sequence[ProcessSet] = ()) -> None:
        """ValueError if two sets have the same ranks, or a rank is negative."""
        self.all = list(sets)
        self.has_begun = False
        self._asked = [list(each.ranks) for each in sets]
        self._places: List[_Places] = [None] * len(self.all)
        self._own = os.environ.get("ANELLO_PLACE") or uuid.uuid4().hex
        for number, ranks in enumerate(self._asked):
            if ranks in self._asked[:number]:
                raise ValueError(f"process_sets: two sets have the ranks {ranks}")
            if any(rank < 0 for rank in ranks):
                raise ValueError(f"process_sets: the set {ranks} has a negative rank")

    def follow(self, gather: Callable[[bytes], List[bytes]]) -> List[ProcessSet]:
        """Gives the sets the ranks that their processes have in a new world. All ranks call; blocks.

        Returns the sets whose processes have all ended. If a rank was given other sets than the ranks that have begun,
        raises Mismatch on that rank; the error's `rank` is None. If no rank has begun and sets differ, raises Mismatch
        on all ranks.

        Args:
            gather: returns the texts that all ranks give to it.
        """
        mine = json.dumps([self._own, self.has_begun, self._asked, self._places])
        ranks = [json.loads(each) for each in gather(mine.encode())]
        asked = _checked([(sets, has_begun) for _, has_begun, sets, _ in ranks], self._asked)
        rank_of = {place: rank for rank, (place, *_) in enumerate(ranks)}
        known = [places for *_, sets, places in ranks if sets == asked]
        for number, made in enumerate(self.all):
            found = next((places[number] for places in known if places[number] is not None), None)
            if found is None:
                found = _places_of(self._asked[number], [place for place, *_ in ranks])
            self._places[number] = found
            made.ranks = sorted(rank_of[place] for place in found or () if place in rank_of)
        self.has_begun = True
        return [each for each, places in zip(self.all, self._places) if places and not each.ranks]

    def warn_of(self, lost: Sequence[ProcessSet]) -> None:
        for each in lost:
            warn(f"all processes of {self.describe(each)} have ended: it has no ranks, until others take their places")

    def describe(self, made: ProcessSet) -> str:
        """Names a set by the ranks that the script gave it."""
        return f"the process set of the first ranks {self._asked[self.all.index(made)]}"


def _places_of(asked: List[int], all_places: List[str]) -> _Places:
    """The places of the ranks `asked`; None if the world does not have all of these ranks."""
    return [all_places[rank] for rank in asked] if all(rank < len(all_places) for rank in asked) else None


def _checked(given: List[Tuple[Any, bool]], mine: Any) -> Any:
    """The sets of the ranks that have begun; if no rank has begun, the sets of all ranks. Raises Mismatch like
    follow()."""
    first = next((rank for rank, (_, has_begun) in enumerate(given) if has_begun), 0)
    asked, has_begun = given[first]
    odd = next((rank for rank, (sets, _) in enumerate(given) if sets != asked), None)
    differ = f"the ranks differ: rank {first} begins with the process sets {asked}, "
    remedy = "; give hvd.init() the same process_sets on all ranks"
    if has_begun and mine != asked:
        raise Mismatch(f"{differ}this rank with {mine}{remedy}", "mismatch", None)
    if not has_begun and odd is not None:
        raise Mismatch(f"{differ}rank {odd} with {given[odd][0]}{remedy}", "mismatch", odd)
    return asked
