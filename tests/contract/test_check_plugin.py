from __future__ import annotations

from collections.abc import Generator
from types import ModuleType
from typing import TYPE_CHECKING, Any, Optional, Union

import pytest

from taskmem_hookspecs import (
    ResumeFacts,
    ResumePacket,
    StuckVerdict,
    Target,
    Task,
    TaskStore,
    Wake,
    WakeReceipt,
    WakeTransport,
    hookimpl,
)
from taskmem_hookspecs.testing import check_plugin
from taskmem_openclaw import hooks as taskmem_openclaw
from taskmem_sqlmodel import hooks as taskmem_sqlmodel

if TYPE_CHECKING:
    from nowhere import Unknown

    from taskmem_hookspecs import Run


class Ntfy:
    name = "ntfy"

    async def deliver(self, wake: Wake) -> WakeReceipt: ...


class Mute:
    name = "mute"


def plugin(*functions, **named):
    """A module with these functions, each marked."""
    module = ModuleType("taskmem_made_up")
    for name, function in ({f.__name__: f for f in functions} | named).items():
        setattr(module, name, hookimpl(function))
    return module


def faults(module):
    with pytest.raises(AssertionError) as raised:
        check_plugin(module)
    return str(raised.value).splitlines()


@pytest.mark.parametrize("module", [taskmem_openclaw, taskmem_sqlmodel])
def test_the_built_ins_fit(module):
    check_plugin(module)


def test_leaving_out_arguments_and_annotations_is_fine():
    def on_stuck(verdict): ...
    def on_task_registered(): ...
    def on_wait_resolved(task, wait): ...

    check_plugin(plugin(on_stuck, on_task_registered, on_wait_resolved))


def test_an_object_may_be_a_plugin_and_so_may_a_class():
    class Methods:
        @hookimpl
        def on_stuck(self, task: Task) -> None: ...

    class Statics:
        @staticmethod
        @hookimpl
        def on_stuck(task: Task) -> None: ...

    check_plugin(Methods())
    check_plugin(Statics)


def test_a_plugin_without_hooks_is_told_so():
    assert faults(ModuleType("taskmem_empty")) == [
        "taskmem_empty has no function that is marked with @hookimpl."
    ]


def test_a_hook_that_nobody_marked_is_named():
    module = plugin(on_stuck=lambda: None)
    module.on_task_registered = lambda: None
    assert faults(module) == ["on_task_registered has the name of a hook; mark it with @hookimpl."]


def test_a_misspelt_hook_is_named_with_the_one_that_was_meant():
    assert faults(plugin(on_stuk=lambda: None)) == ["There is no hook on_stuk; there is on_stuck."]


def test_a_hook_like_no_other_is_told_all_names():
    (fault,) = faults(plugin(zzz=lambda: None))
    assert "build_resume_packet, calling_session, evidence_verifier, " in fault


def test_a_hook_of_another_version_may_be_optional():
    module = plugin(on_stuck=lambda: None)
    module.on_tomorrow = hookimpl(lambda: None, optionalhook=True)
    check_plugin(module)


def test_a_function_may_have_another_name_than_its_hook():
    module = ModuleType("taskmem_made_up")
    module.mine = hookimpl(lambda tsk: None, specname="on_stuck")
    assert faults(module) == [
        "on_stuck has no argument tsk; the hook's are: task, verdict, packet."
    ]


@pytest.mark.parametrize(
    "function",
    [
        lambda task, packt: None,
        lambda packt=None: None,
        lambda *packt: None,
        lambda **packt: None,
        lambda *, packt=None: None,
    ],
)
def test_an_argument_that_the_hook_has_not_is_named(function):
    assert faults(plugin(on_stuck=function)) == [
        "on_stuck has no argument packt; the hook's are: task, verdict, packet."
    ]


def test_an_argument_that_is_only_given_by_name_is_named():
    assert faults(plugin(on_stuck=lambda *, task: None)) == [
        "on_stuck is called by position; task is keyword-only."
    ]


def test_an_argument_annotated_as_something_else_is_named():
    def on_stuck(task: Task, verdict: Target, packet: ResumePacket | None) -> None: ...

    assert faults(plugin(on_stuck)) == [
        "on_stuck is given StuckVerdict as verdict, and its annotation says Target."
    ]


def test_an_argument_that_may_be_none_must_say_so():
    def on_stuck(packet: ResumePacket) -> None: ...

    assert faults(plugin(on_stuck)) == [
        ("on_stuck is given ResumePacket | None as packet, and its annotation says ResumePacket.")
    ]


def test_an_argument_may_be_annotated_wider():
    def on_stuck(
        task: object, verdict: StuckVerdict | Target, packet: ResumePacket | str | None
    ) -> None: ...
    def on_task_registered(task: Any): ...

    check_plugin(plugin(on_stuck, on_task_registered))


@pytest.mark.parametrize(
    "answer",
    [
        *(Ntfy, Ntfy | None, WakeTransport, None, Any),
        *(Optional[Ntfy], Union[Ntfy, WakeTransport]),  # noqa: UP007, UP045
    ],
)
def test_an_answer_may_be_annotated_narrower(answer):
    def wake_transport(name: str): ...

    wake_transport.__annotations__["return"] = answer
    check_plugin(plugin(wake_transport))


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (Mute, "Mute"),
        (str | None, "str | None"),
        (Optional[str], "str | None"),  # noqa: UP045
        (TaskStore, "TaskStore"),
    ],
)
def test_an_answer_that_does_not_play_the_part_is_named(answer, said):
    def wake_transport(name: str): ...

    wake_transport.__annotations__["return"] = answer
    assert faults(plugin(wake_transport)) == [
        (f"wake_transport must answer WakeTransport | None, and its annotation says {said}.")
    ]


def test_an_answer_where_none_is_heard_is_named():
    def on_stuck(task: Task) -> bool: ...

    assert faults(plugin(on_stuck)) == ["on_stuck must answer None, and its annotation says bool."]


def test_a_wrapper_is_annotated_as_the_generator_it_is():
    def build_resume_packet(facts: ResumeFacts) -> Generator[None, ResumePacket, ResumePacket]:
        return (yield)

    module = ModuleType("taskmem_made_up")
    module.build_resume_packet = hookimpl(build_resume_packet, wrapper=True)
    check_plugin(module)
    build_resume_packet.__annotations__["return"] = Generator
    check_plugin(module)


def test_names_of_the_contract_need_not_be_there_at_run_time():
    def on_run_changed(run: Task, task: Run) -> None: ...

    assert faults(plugin(on_run_changed)) == [
        "on_run_changed is given Run as run, and its annotation says Task.",
        "on_run_changed is given Task as task, and its annotation says Run.",
    ]


def test_plugin_check_ignores_type_checker_only_annotations():
    def on_stuck(task: Unknown) -> None: ...

    check_plugin(plugin(on_stuck))


def test_an_async_hook_is_named():
    async def on_stuck(task: Task) -> None: ...
    async def on_task_registered(task: Task) -> Any:
        yield

    found = faults(plugin(on_stuck, on_task_registered))
    assert [fault.split(",")[0] for fault in found] == [
        "on_stuck is async",
        "on_task_registered is async",
    ]


def test_a_hook_that_yields_is_named_unless_it_wraps():
    def on_stuck(task):
        yield

    assert faults(plugin(on_stuck)) == [
        "on_stuck yields, and never runs; mark it with @hookimpl(wrapper=True)."
    ]
    module = ModuleType("taskmem_made_up")
    module.on_stuck = hookimpl(lambda: None, hookwrapper=True)
    assert faults(module) == ["on_stuck is marked as a wrapper, and does not yield."]


def test_everything_that_is_wrong_is_told_at_once():
    assert len(faults(plugin(on_stuk=lambda: None, on_stuck=lambda a, b: None))) == 3
