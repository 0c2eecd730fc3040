#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Who includes whom, by the table floors.txt: rooms from the ground up, those on one line do not see each other.

Reports: an include upwards, of a sibling, of a test by production code, or not by its path from the root; a file in no
room and a room without a folder; a room of more than ROOM_FILES production files; circles between files. A circle
between rooms is an include upwards in at least one of them."""
import os
import re

from common import OUTSIDE, circles, code_of, is_test, line_of, tree_of_arguments, unit_of

ROOM_FILES = 40
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"]*)"', re.M)
# The build writes these.
GENERATED = {"build_commit.h", "build_flags.h"}
# Users' code includes the installed header.
USERS = ("conformance/adapters/", "ref/one_file/")


def read_floors(tree):
    floors = {}
    for number, row in tree.rows("floors.txt"):
        for room in row.split():
            if room in floors:
                tree.offence("tools/tidy/floors.txt", number, f"{room} is listed twice")
            floors[room] = number
    return floors


def includes_of(tree, name):
    text = tree.text(name)
    code = code_of(text)
    return [(line_of(text, match.start()), match.group(1)) for match in INCLUDE.finditer(text)
            if "#" in code[match.start():match.start(1)]]


def check_include(tree, floors, name, line, target):
    """Returns whether the target is a file of the tree."""
    if target in GENERATED or name.startswith(USERS):
        return False
    if target not in tree.files:
        tree.offence(name, line, f'"{target}" is no file\'s path from the root')
        return False
    room, other = os.path.dirname(name), os.path.dirname(target)
    if is_test(name) or room not in floors:
        return True
    if is_test(target):
        tree.offence(name, line, f"production code includes the test's {target}")
    elif other not in floors:
        tree.offence(name, line, f"{target} is in no room")
    elif room != other and floors[other] >= floors[room]:
        what = "level with" if floors[other] == floors[room] else "above"
        tree.offence(name, line, f"{room} includes {target}, and {other} is {what} it")
    return True


def check_rooms(tree, floors):
    counts = dict.fromkeys(floors, 0)
    for name in tree.c_files():
        room = os.path.dirname(name)
        if room in counts:
            counts[room] += not is_test(name)
        elif not name.startswith(OUTSIDE):
            tree.offence(name, 1, "is in no room of tools/tidy/floors.txt")
    for room, count in counts.items():
        if not os.path.isdir(os.path.join(tree.root, room)):
            tree.offence("tools/tidy/floors.txt", floors[room], f"{room} is no folder")
        elif count > ROOM_FILES:
            tree.offence("tools/tidy/floors.txt", floors[room],
                         f"{room} has {count} production files, more than {ROOM_FILES}")


def main():
    tree = tree_of_arguments()
    floors = read_floors(tree)
    check_rooms(tree, floors)
    graph, lines = {}, {}
    for name in tree.c_files():
        unit = unit_of(name)
        graph.setdefault(unit, set())
        for line, target in includes_of(tree, name):
            if check_include(tree, floors, name, line, target) and not is_test(name) and unit_of(target) != unit:
                graph[unit].add(unit_of(target))
                graph.setdefault(unit_of(target), set())
                lines.setdefault((unit, unit_of(target)), (name, line))
    for circle in circles(graph):
        first = next((lines[circle[0], other] for other in circle if (circle[0], other) in lines))
        tree.offence(*first, "files include each other in a circle: " + ", ".join(circle))
    tree.end("floors")


main()
