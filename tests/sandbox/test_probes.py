"""Workers that try to get out, in every stance and with every choice of options."""

from __future__ import annotations

import json
from functools import cache
from typing import Any

import pytest

from tests.sandbox import stances
from tests.sandbox.attacks import ATTACKS
from tests.sandbox.claims import ADMITTED, CLAIMS, allowed, layers
from tests.sandbox.stances import STANCES, Stance

FOREIGN_GROUND = ("read_the_shadow_file", "open_performance_counters", "load_a_bpf_program")
"""Refused to an ordinary user even without a sandbox, so the control says nothing about them."""

pytestmark = pytest.mark.skipif(not stances.LINUX, reason="the sandbox is Linux's")


@cache
def found(stance: Stance, order: str = "probe") -> list[dict[str, Any]]:
    """What came of the attacks: one entry for each choice of options."""
    if not stances.possible(stance):
        pytest.skip("only root can stand there")
    answer = stances.ask(stance, {"do": order})
    result = answer["found"]
    assert isinstance(result, list)
    return result


def test_every_attack_has_a_layer_that_claims_to_stop_it() -> None:
    assert set(CLAIMS) == set(ATTACKS)


@pytest.mark.parametrize("stance", STANCES)
def test_nothing_gets_past_a_layer_that_is_reported_in_force(stance: Stance) -> None:
    broken = []
    for one in found(stance):
        choice = {"writable": one["writable"], "shell": one["shell"]}
        standing = layers(one["in_force"], **choice)
        for outcome in one["outcomes"]:
            passed = standing & set(CLAIMS[outcome["name"]])
            if outcome["out"] and passed and not allowed(outcome["name"], **choice):
                broken.append((choice, outcome["name"], sorted(passed), outcome["detail"]))
    assert not broken


@pytest.mark.parametrize("stance", STANCES)
def test_what_gets_out_is_reported_as_missing(stance: Stance) -> None:
    silent = []
    for one in found(stance):
        choice = {"writable": one["writable"], "shell": one["shell"]}
        for outcome in one["outcomes"]:
            name = outcome["name"]
            if outcome["out"] and not allowed(name, **choice):
                words = {ADMITTED[name]} if name in ADMITTED else set(CLAIMS[name])
                if not words & set(one["missing"]):
                    silent.append((choice, name, one["missing"]))
    assert not silent


@pytest.mark.parametrize("stance", STANCES)
def test_several_processes_of_a_shell_are_admitted_to_have_no_limit_together(stance: Stance) -> None:
    assert all(("aggregate_memory" in one["missing"]) == one["shell"] for one in found(stance))


@pytest.mark.parametrize("stance", STANCES)
def test_what_the_options_permit_works(stance: Stance) -> None:
    for one in found(stance):
        outs = {outcome["name"]: outcome["out"] for outcome in one["outcomes"]}
        assert outs["write_in_the_workspace"] == one["writable"]
        assert outs["start_a_program"] == one["shell"]


@pytest.mark.parametrize("stance", ["root", "user"])
def test_with_all_layers_nothing_gets_out_at_all(stance: Stance) -> None:
    for one in found(stance):
        if set(one["missing"]) - {"aggregate_memory"}:
            pytest.skip(f"this machine does not offer {one['missing']}")
        choice = {"writable": one["writable"], "shell": one["shell"]}
        outs = [each["name"] for each in one["outcomes"] if each["out"] and not allowed(each["name"], **choice)]
        assert not outs


def test_the_attacks_get_out_where_there_is_no_sandbox() -> None:
    """Otherwise their failure elsewhere would show nothing."""
    (one,) = found("user-bare", "control")
    assert not layers(one["in_force"], writable=True, shell=True) & {"landlock", "seccomp", "mount_namespace", "uid"}
    never = {name for name, stoppers in CLAIMS.items() if set(stoppers) <= {"process", "minimal_env"}}
    never |= {"use_an_inherited_descriptor", *FOREIGN_GROUND}
    # refused here by the stance itself, or to any ordinary user
    never |= {"enter_a_new_user_namespace", "mount_something", "change_the_root", "become_root", "regain_a_capability"}
    never |= {"read_by_cwd_of_the_parent"}
    stopped = {outcome["name"] for outcome in one["outcomes"] if not outcome["out"]}
    assert stopped - never == set()


@pytest.mark.parametrize("stance", STANCES)
def test_probing_workers_are_gone_afterwards(stance: Stance) -> None:
    assert all(one["gone"] for one in found(stance))


def test_reports_are_plain_names() -> None:
    for one in found("user"):
        assert json.dumps(one["in_force"]).isascii()
        assert not {name.partition(":")[0] for name in one["in_force"]} & set(one["missing"])
