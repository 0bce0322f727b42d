"""The groups of parameters that a program defines. All gradients of a group are sent together."""
from __future__ import annotations

from typing import Hashable, List, Sequence, TypeVar, Union

Parameter = TypeVar("Parameter", bound=Hashable)


def grouped(parameters: List[Parameter], groups: Union[int, Sequence[Sequence[Parameter]]]) -> List[List[Parameter]]:
    """The program's own groups. Each parameter that is in none of them is a group by itself."""
    if isinstance(groups, int):
        if groups < 0:
            raise ValueError(f"groups must not be negative, but is {groups}")
        count = min(groups, len(parameters)) or len(parameters)
        ends = [len(parameters) * k // count for k in range(count + 1)] if count else []
        return [parameters[begin:end] for begin, end in zip(ends, ends[1:])]
    if not isinstance(groups, (list, tuple)) or not all(isinstance(one, (list, tuple)) for one in groups):
        raise ValueError("groups must be a number or a list of lists of parameters")
    trained, seen = set(parameters), set()
    made = []
    for group in groups:
        members = [each for each in group if each in trained]
        if any(each in seen for each in members):
            raise ValueError("a parameter is in two groups")
        seen.update(members)
        made.append(members)
    return [members for members in made if members] + [[each] for each in parameters if each not in seen]
